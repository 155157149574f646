/** Authorizations at MCP servers: two gateways on one log, and an authorization server whose refresh tokens work once. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createSealer } from '../../src/commands/credentials/credential.ts';
import type { EventContext, UserPath } from '../../src/events/event.ts';
import { MemoryLog } from '../../src/events/memory/memory-log.ts';
import { AccessTokens } from '../../src/mcp/access-tokens.ts';
import { AuthorizationRecords } from '../../src/mcp/authorization-records.ts';
import { Authorizations } from '../../src/mcp/authorizations.ts';
import type { McpServer } from '../../src/mcp/mcp-server.ts';
import { OAuthRequests } from '../../src/mcp/oauth-client.ts';
import { mcpAuthorizationsView } from '../../src/projections/mcp-servers.ts';
import { createProjectionRunner } from '../../src/projections/runner.ts';
import { withoutProxy } from '../../src/providers/proxies.ts';
import { type AuthorizationServer, startAuthorizationServer } from '../support/authorization-server.ts';

const context: EventContext = { actor: 'master' };
const redirectUri = 'http://127.0.0.1:8080/admin/mcp-servers/oauth/callback';
const MINUTE = 60_000;

let upstream: AuthorizationServer;
let server: McpServer;
let at: number;
let log: MemoryLog;
let ended: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  upstream = await startAuthorizationServer();
});
afterAll(() => upstream.close());

beforeEach(() => {
  at = Date.now();
  log = new MemoryLog();
  server = {
    ...{
      slug: 'tickets',
      name: 'Tickets',
      transport: 'streamable_http',
      url: upstream.url,
      headers: { 'x-team': 'a' },
    },
    ...{ enabled: true, toolTimeoutSeconds: 30, pin: false, managed: false },
    oauth: { grant: 'authorization_code', perUserPath: false },
  };
  upstream.tokenRequests.length = 0;
  upstream.registrations.length = 0;
  Object.assign(upstream.behaviour, {
    ...{ expiresIn: 3600, rotates: true, registers: true, tokenError: undefined, names: undefined },
    beforeToken: async () => {},
  });
});
afterEach(async () => {
  await Promise.all(ended.map((end) => end()));
  ended = [];
});

interface OneGateway extends Pick<Authorizations, 'begin' | 'complete' | 'forget' | 'list'> {
  headersFor: AccessTokens['headersFor'];
}

/** The authorizations of one gateway on the log. */
function gateway(): OneGateway {
  const projections = createProjectionRunner(log);
  const requests = new OAuthRequests({ proxyOf: withoutProxy, allowsLocal: false, now: () => at });
  const sealer = createSealer('a key of 32 characters or more, for tests');
  ended.push(async () => {
    await projections.close();
    await requests.close();
  });
  const view = projections.run(mcpAuthorizationsView);
  const records = new AuthorizationRecords({ log, view, sealers: { toSeal: () => sealer, toOpen: () => sealer } });
  const authorizations = new Authorizations({ records, requests, now: () => at });
  const tokens = new AccessTokens({ records, requests, now: () => at });
  return {
    begin: (...given) => authorizations.begin(...given),
    complete: (...given) => authorizations.complete(...given),
    forget: (...given) => authorizations.forget(...given),
    list: (server) => authorizations.list(server),
    headersFor: (...given) => tokens.headersFor(...given),
  };
}

const queryOf = (address: string) => {
  const { searchParams } = new URL(address);
  const of = (name: string) => searchParams.get(name) ?? undefined;
  return { state: of('state'), code: of('code'), iss: of('iss'), error: of('error') };
};

async function authorize(authorizations: OneGateway, userPath?: string): Promise<void> {
  const { url } = await authorizations.begin(server, {
    userPath: userPath as UserPath | undefined,
    redirectUri,
    context,
  });
  await authorizations.complete(queryOf(upstream.grant(url)), () => server, context);
}

async function tokenOf(authorizations: OneGateway, userPath?: string): Promise<string> {
  const { authorization = '', ...others } = await authorizations.headersFor(server, userPath as UserPath | undefined);
  expect(others).toEqual({ 'x-team': 'a' });
  return authorization.replace('Bearer ', '');
}

async function recorded(): Promise<string> {
  let all = '';
  for await (const { data } of log.readAll()) all += JSON.stringify(data);
  return all;
}

const refreshes = () => upstream.tokenRequests.filter(({ form }) => form.get('grant_type') === 'refresh_token');

describe('an authorization by an administrator', () => {
  it('registers the gateway, uses PKCE, and sends the token with the headers of the server', async () => {
    const one = gateway();
    await expect(one.headersFor(server, undefined)).rejects.toThrow(
      "'tickets' needs an authorization by an administrator",
    );
    const { url } = await one.begin(server, { userPath: undefined, redirectUri, context });
    const asked = Object.fromEntries(new URL(url).searchParams);
    expect(asked).toMatchObject({
      ...{ response_type: 'code', client_id: 'client-1', code_challenge_method: 'S256', redirect_uri: redirectUri },
      ...{ scope: 'tools', resource: upstream.url },
    });
    expect(upstream.registrations).toMatchObject([{ redirect_uris: [redirectUri], client_name: 'Chancery' }]);
    expect(one.list(server)).toMatchObject([{ status: 'pending' }]);
    await one.complete(queryOf(upstream.grant(url)), () => server, context);
    expect(upstream.accepts(await tokenOf(one))).toBe(true);
    expect(one.list(server)).toMatchObject([{ status: 'authorized', problem: undefined }]);
    expect(upstream.tokenRequests[0]?.form.get('resource')).toBe(upstream.url);
  });

  it('has no token, verifier, code or state in the log', async () => {
    const one = gateway();
    const { url } = await one.begin(server, { userPath: undefined, redirectUri, context });
    const query = queryOf(upstream.grant(url));
    await one.complete(query, () => server, context);
    const verifier = upstream.tokenRequests[0]?.form.get('code_verifier');
    const secrets = [await tokenOf(one), verifier, query.code, query.state, 'access-', 'refresh-'];
    const all = await recorded();
    for (const secret of secrets) expect(all).not.toContain(secret ?? 'nothing');
  });

  it('is found by another gateway, which completes it', async () => {
    const [one, other] = [gateway(), gateway()];
    const { url } = await one.begin(server, { userPath: undefined, redirectUri, context });
    await expect.poll(() => other.list(server)).toMatchObject([{ status: 'pending' }]);
    await other.complete(queryOf(upstream.grant(url)), () => server, context);
    await expect.poll(() => one.list(server)).toMatchObject([{ status: 'authorized' }]);
    expect(await tokenOf(one)).toBe(await tokenOf(other));
  });

  it('accepts a state once, also of two requests at the same time', async () => {
    const one = gateway();
    const { url } = await one.begin(server, { userPath: undefined, redirectUri, context });
    const query = queryOf(upstream.grant(url));
    const outcomes = await Promise.allSettled([1, 2, 3].map(() => one.complete(query, () => server, context)));
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    await expect(one.complete(query, () => server, context)).rejects.toMatchObject({ status: 400, param: 'state' });
    expect(upstream.tokenRequests).toHaveLength(1);
  });

  it('refuses a state that is unknown, missing, replaced or older than 10 minutes', async () => {
    const one = gateway();
    const { url } = await one.begin(server, { userPath: undefined, redirectUri, context });
    const query = queryOf(upstream.grant(url));
    const refused = { status: 400, param: 'state' };
    await expect(one.complete({ ...query, state: 'another' }, () => server, context)).rejects.toMatchObject(refused);
    await expect(one.complete({ ...query, state: undefined }, () => server, context)).rejects.toMatchObject(refused);
    at += 10 * MINUTE;
    await expect(one.complete(query, () => server, context)).rejects.toMatchObject(refused);
    const { url: newer } = await one.begin(server, { userPath: undefined, redirectUri, context });
    await expect(one.complete(query, () => server, context)).rejects.toMatchObject(refused);
    await one.complete(queryOf(upstream.grant(newer)), () => server, context);
    // The client is registered once for its redirect URI.
    expect(upstream.registrations).toHaveLength(1);
  });

  it.each([
    ['another issuer', { iss: 'https://other.example' }, 502],
    ['a denial', { code: '', error: 'access_denied' }, 400],
    ['no code', { code: '' }, 400],
    ['an unknown code', { code: 'guessed' }, 502],
  ])('is not granted after %s, and says so', async (_what, query, status) => {
    const one = gateway();
    const { url } = await one.begin(server, { userPath: undefined, redirectUri, context });
    await expect(one.complete(queryOf(upstream.grant(url, query)), () => server, context)).rejects.toMatchObject({
      status,
    });
    expect(one.list(server)).toMatchObject([{ status: 'needs_authorization', problem: expect.any(String) }]);
    await expect(one.headersFor(server, undefined)).rejects.toThrow('needs an authorization');
  });

  it('is of one URL: another server with the slug gets no token', async () => {
    const one = gateway();
    await authorize(one);
    const moved = { ...server, url: 'https://elsewhere.example/mcp' };
    await expect(one.headersFor(moved, undefined)).rejects.toThrow('needs an authorization');
    expect(one.list(moved)).toEqual([]);
  });

  it('ends when an administrator gives up the tokens', async () => {
    const one = gateway();
    await authorize(one);
    expect(await one.forget('tickets', undefined, context)).toBe(1);
    await expect(one.headersFor(server, undefined)).rejects.toThrow('needs an authorization');
    await authorize(one);
    expect(upstream.accepts(await tokenOf(one))).toBe(true);
  });

  it('needs a client id where the authorization server registers no clients', async () => {
    upstream.behaviour.registers = false;
    const one = gateway();
    const begin = () => one.begin(server, { userPath: undefined, redirectUri, context });
    await expect(begin()).rejects.toMatchObject({ status: 502, message: expect.stringContaining("'oauth.client_id'") });
    server = {
      ...server,
      oauth: { grant: 'authorization_code', clientId: 'known', clientSecret: 'client-secret', perUserPath: false },
    };
    await authorize(one);
    const basic = `Basic ${Buffer.from('known:client-secret').toString('base64')}`;
    expect(upstream.tokenRequests[0]?.authorization).toBe(basic);
    expect(await recorded()).not.toContain('client-secret');
  });
});

describe('an authorization of each user path', () => {
  beforeEach(() => {
    server = { ...server, oauth: { grant: 'authorization_code', perUserPath: true } };
  });

  it('is used by callers at and below its path, the nearest first', async () => {
    const one = gateway();
    await authorize(one, '/team');
    await authorize(one, '/team/alpha');
    const [team, alpha] = [await tokenOf(one, '/team'), await tokenOf(one, '/team/alpha')];
    expect(team).not.toBe(alpha);
    expect(await tokenOf(one, '/team/alpha/one')).toBe(alpha);
    expect(await tokenOf(one, '/team/beta')).toBe(team);
    for (const path of ['/other', '/teams', undefined]) {
      await expect(one.headersFor(server, path as UserPath)).rejects.toThrow(
        'needs an authorization for the user path',
      );
    }
    expect(await one.forget('tickets', '/team/alpha' as UserPath, context)).toBe(1);
    expect(await tokenOf(one, '/team/alpha')).toBe(team);
  });

  it('is not begun without a path', async () => {
    const begun = gateway().begin(server, { userPath: undefined, redirectUri, context });
    await expect(begun).rejects.toMatchObject({ status: 400, param: 'user_path' });
  });
});

describe('a refresh', () => {
  it('happens once for all requests of two gateways', async () => {
    const [one, other] = [gateway(), gateway()];
    await authorize(one);
    const first = await tokenOf(one);
    at += 60 * MINUTE + 1;
    const tokens = await Promise.all([...Array(10)].flatMap(() => [tokenOf(one), tokenOf(other)]));
    expect(refreshes()).toHaveLength(1);
    expect(new Set(tokens).size).toBe(1);
    expect(tokens[0]).not.toBe(first);
    expect(upstream.accepts(tokens[0] ?? '')).toBe(true);
  });

  it('begins before the end of the token, and requests use the old one meanwhile', async () => {
    const one = gateway();
    await authorize(one);
    const first = await tokenOf(one);
    at += 59.5 * MINUTE;
    const { promise, resolve } = Promise.withResolvers<void>();
    const { promise: asked, resolve: isAsked } = Promise.withResolvers<void>();
    upstream.behaviour.beforeToken = () => {
      isAsked();
      return promise;
    };
    const refreshing = tokenOf(one);
    await asked;
    expect(await tokenOf(one)).toBe(first);
    resolve();
    expect(await refreshing).not.toBe(first);
    expect(refreshes()).toHaveLength(1);
  });

  it('that fails leaves the token in use until its end, and is not repeated at once', async () => {
    const one = gateway();
    await authorize(one);
    const first = await tokenOf(one);
    at += 59.5 * MINUTE;
    upstream.behaviour.tokenError = { status: 503, error: 'temporarily_unavailable' };
    for (let request = 0; request < 5; request++) expect(await tokenOf(one)).toBe(first);
    expect(refreshes()).toHaveLength(1);
    const problem = one.list(server)[0]?.problem ?? '';
    expect(problem).toContain('temporarily_unavailable');
    expect(problem).not.toContain('refresh-');
    at += MINUTE;
    await expect(one.headersFor(server, undefined)).rejects.toThrow('temporarily_unavailable');
    upstream.behaviour.tokenError = undefined;
    at += 5001;
    expect(upstream.accepts(await tokenOf(one))).toBe(true);
    expect(one.list(server)).toMatchObject([{ status: 'authorized', problem: undefined }]);
  });

  it('that the authorization server refuses for good needs a new authorization', async () => {
    const one = gateway();
    await authorize(one);
    at += 60 * MINUTE;
    upstream.behaviour.tokenError = { status: 400, error: 'invalid_grant' };
    await expect(one.headersFor(server, undefined)).rejects.toThrow('invalid_grant');
    expect(one.list(server)).toMatchObject([{ status: 'needs_authorization' }]);
    upstream.behaviour.tokenError = undefined;
    await authorize(one);
    expect(upstream.accepts(await tokenOf(one))).toBe(true);
  });

  it('is sent to the authorization server of the grant, also when the MCP server names another one later', async () => {
    const thief = await startAuthorizationServer();
    const one = gateway();
    await authorize(one);
    upstream.behaviour.names = thief.issuer;
    at += 60 * MINUTE;
    await tokenOf(one);
    expect(refreshes()).toHaveLength(1);
    expect(thief.tokenRequests).toEqual([]);
    await thief.close();
  });

  it('of a gateway that ended is taken over after 30 seconds', async () => {
    const [one, other] = [gateway(), gateway()];
    await authorize(one);
    await expect.poll(() => other.list(server)).toMatchObject([{ status: 'authorized' }]);
    at += 60 * MINUTE;
    const { promise: asked, resolve: isAsked } = Promise.withResolvers<void>();
    upstream.behaviour.beforeToken = () => {
      isAsked();
      return new Promise(() => {});
    };
    const lost = tokenOf(one).catch(() => 'ended');
    await asked;
    upstream.behaviour.beforeToken = async () => {};
    upstream.behaviour.rotates = false;
    at += 30_001;
    expect(upstream.accepts(await tokenOf(other))).toBe(true);
    expect(refreshes()).toHaveLength(2);
    await Promise.all(ended.splice(0).map((end) => end()));
    expect(await lost).toBe('ended');
  });
});

describe('client credentials', () => {
  beforeEach(() => {
    server = {
      ...server,
      oauth: { grant: 'client_credentials', clientId: 'known', clientSecret: 'client-secret', perUserPath: false },
    };
  });

  it('are exchanged once for all requests, and again before the token ends', async () => {
    const one = gateway();
    const tokens = await Promise.all([...Array(10)].map(() => tokenOf(one)));
    expect(new Set(tokens).size).toBe(1);
    expect(upstream.tokenRequests).toHaveLength(1);
    expect(Object.fromEntries(upstream.tokenRequests[0]?.form ?? [])).toMatchObject({
      ...{ grant_type: 'client_credentials', scope: 'tools', resource: upstream.url },
    });
    at += 59.5 * MINUTE;
    expect(await tokenOf(one)).not.toBe(tokens[0]);
    expect(upstream.tokenRequests).toHaveLength(2);
  });

  it('that are refused fail with the reason, without the secret, and are tried again after 5 seconds', async () => {
    const one = gateway();
    upstream.behaviour.tokenError = { status: 401, error: 'invalid_client' };
    await expect(one.headersFor(server, undefined)).rejects.toThrow(/'tickets' failed: invalid_client/);
    await expect(one.headersFor(server, undefined)).rejects.toThrow('invalid_client');
    expect(upstream.tokenRequests).toHaveLength(1);
    upstream.behaviour.tokenError = undefined;
    at += 5001;
    expect(upstream.accepts(await tokenOf(one))).toBe(true);
  });
});

describe('requests to other servers', () => {
  it('do not reach local addresses that a remote server names', async () => {
    const named = await startAuthorizationServer();
    const requests = new OAuthRequests({ proxyOf: withoutProxy, allowsLocal: false, now: () => at });
    const remote = { ...server, url: 'https://tickets.invalid/mcp', oauth: { ...server.oauth, issuer: named.issuer } };
    const discovered = requests.discover(remote as Parameters<OAuthRequests['discover']>[0]);
    await expect(discovered).rejects.toThrow('its address is loopback');
    expect(named.tokenRequests).toEqual([]);
    await requests.close();
    await named.close();
  });
});
