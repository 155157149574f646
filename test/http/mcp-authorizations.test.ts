/** Authorizations at MCP servers through the admin API, with a browser's way back. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Answered } from '../support/answered.ts';
import { type AuthorizationServer, startAuthorizationServer } from '../support/authorization-server.ts';
import { newKey } from '../support/managed-keys.ts';
import { passTo } from '../support/pass-to.ts';
import { type ScriptedMcp, startScriptedMcp } from '../support/scripted-mcp.ts';
import { errorOf, eventsUntil, json, withGateway } from '../support/with-gateway.ts';
import { administrator } from './admin-history-steps.ts';

const ROUTE = '/admin/mcp-servers';
let upstream: AuthorizationServer;
let tools: ScriptedMcp;
beforeAll(async () => {
  // As it is, the gateway would remove its token from the result.
  const inHex = (text = '') => Buffer.from(text).toString('hex');
  tools = await startScriptedMcp({ whoami: { call: (_args, { headers }) => inHex(headers.authorization) } });
  // Requests with a token are passed to a server that does not check tokens.
  upstream = await startAuthorizationServer(passTo(() => tools.url));
});
afterAll(() => Promise.all([upstream.close(), tools.close()]));

const gateway = withGateway({ env: { ALLOW_PRIVATE_PROVIDERS: 'true' } });
const admin = administrator(gateway);

const save = (slug: string, oauth: object) =>
  admin.change('PUT', ROUTE, { name: slug, slug, url: upstream.url, oauth: { grant: 'authorization_code', ...oauth } });

async function begin(slug: string, body: object = {}): Promise<Answered> {
  const answer = await gateway.fetch(`${ROUTE}/${slug}/oauth/authorize`, { json: body });
  expect(answer.status, answer.ok ? '' : await answer.text()).toBe(200);
  return json(answer);
}

/** What the browser does: it has no key. */
const goBack = (address: string) => fetch(address, { redirect: 'manual' });

const authorizationsOf = async (slug: string) => (await admin.get(`${ROUTE}/${slug}`)).oauth.authorizations;

describe('POST /admin/mcp-servers/{slug}/oauth/authorize', () => {
  it('leads to the authorization server and back to this gateway, once', async () => {
    await save('tickets', {});
    expect(await authorizationsOf('tickets')).toEqual([]);
    const begun = await begin('tickets');
    expect(begun.redirect_uri).toBe(`${gateway.url}/admin/mcp-servers/oauth/callback`);
    expect(await authorizationsOf('tickets')).toEqual([{ status: 'pending' }]);
    const back = upstream.grant(begun.authorization_url);
    const answer = await goBack(back);
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'text/plain; charset=utf-8']);
    expect(answer.headers.get('x-content-type-options')).toBe('nosniff');
    expect(await answer.text()).toContain("authorized at the MCP server 'tickets'");
    expect(await authorizationsOf('tickets')).toMatchObject([{ status: 'authorized', expires_at: expect.any(String) }]);
    const again = await errorOf(await goBack(back), 400);
    expect(again).toMatchObject({ param: 'state', message: expect.stringContaining('was used before') });
    const events = await eventsUntil(
      gateway,
      'types=mcp_authorization.',
      ({ data }) => data.sealedTokens !== undefined,
    );
    expect(events.map(({ actor }: Answered) => actor)).toContain('master');
  });

  it('accepts the address at which the browser reaches the gateway, and no other', async () => {
    await save('proxied', {});
    const redirect_uri = 'https://ai.example.com/base/admin/mcp-servers/oauth/callback';
    const { authorization_url } = await begin('proxied', { redirect_uri });
    expect(new URL(authorization_url).searchParams.get('redirect_uri')).toBe(redirect_uri);
    for (const other of ['https://ai.example.com/elsewhere', 'javascript:alert(1)', `${redirect_uri}?next=x`, 'x']) {
      const refused = await gateway.fetch(`${ROUTE}/proxied/oauth/authorize`, { json: { redirect_uri: other } });
      expect(await errorOf(refused, 400)).toMatchObject({ param: 'redirect_uri' });
    }
  });

  it('authorizes user paths one by one, which are given up one by one', async () => {
    await save('personal', { per_user_path: true });
    for (const user_path of ['team/a', '/team/b']) {
      const { authorization_url } = await begin('personal', { user_path });
      expect((await goBack(upstream.grant(authorization_url))).status).toBe(200);
    }
    expect(await authorizationsOf('personal')).toMatchObject([{ user_path: '/team/a' }, { user_path: '/team/b' }]);
    await admin.change('DELETE', `${ROUTE}/personal/oauth?user_path=/team/a`);
    expect(await authorizationsOf('personal')).toMatchObject([{ user_path: '/team/b', status: 'authorized' }]);
    await errorOf(await gateway.fetch(`${ROUTE}/personal/oauth?user_path=/team/a`, { method: 'DELETE' }), 404);
  });

  it('shows why access was not granted', async () => {
    await save('denied', {});
    const { authorization_url } = await begin('denied');
    const back = upstream.grant(authorization_url, { code: '', error: 'access_denied' });
    expect((await errorOf(await goBack(back), 400)).message).toContain("'access_denied'");
    expect(await authorizationsOf('denied')).toMatchObject([
      { status: 'needs_authorization', problem: expect.stringContaining('access_denied') },
    ]);
  });

  it('is refused for a server without OAuth, and with client credentials', async () => {
    await admin.change('PUT', ROUTE, { name: 'plain', url: upstream.url });
    await save('machine', { grant: 'client_credentials', client_id: 'a', client_secret: 'b' });
    for (const slug of ['plain', 'machine']) {
      await errorOf(await gateway.fetch(`${ROUTE}/${slug}/oauth/authorize`, { json: {} }), 400);
    }
  });

  it('is 502 with the reason when the server cannot be reached', async () => {
    const url = 'http://127.0.0.1:9/mcp';
    await admin.change('PUT', ROUTE, { name: 'away', url, oauth: { grant: 'authorization_code' } });
    const refused = await errorOf(await gateway.fetch(`${ROUTE}/away/oauth/authorize`, { json: {} }), 502);
    expect(refused).toMatchObject({
      code: 'mcp_authorization_failed',
      message: expect.stringContaining("'away' failed"),
    });
  });

  it('is over with its server: another one with the slug has no tokens', async () => {
    await save('again', {});
    expect((await goBack(upstream.grant((await begin('again')).authorization_url))).status).toBe(200);
    await admin.change('DELETE', `${ROUTE}/again`);
    await save('again', {});
    expect(await authorizationsOf('again')).toEqual([]);
  });
});

describe('GET /admin/mcp-servers/oauth/callback', () => {
  it('refuses what no authorization of this gateway has sent', async () => {
    for (const query of ['', '?state=guessed&code=x', '?code=x', `?state=${'a'.repeat(5000)}`]) {
      await errorOf(await goBack(`${gateway.url}/admin/mcp-servers/oauth/callback${query}`), 400);
    }
  });
});

describe('a call of a tool at a server with OAuth', () => {
  const call = (slug: string, body: object = {}) => gateway.fetch(`${ROUTE}/${slug}/tools/whoami/call`, { json: body });
  const tokenIn = async (answer: Response) => {
    const { content, is_error, exchange_id } = await json(answer);
    expect([answer.status, is_error, exchange_id]).toEqual([200, false, expect.any(String)]);
    return Buffer.from(content[0].text, 'hex').toString().replace('Bearer ', '');
  };
  const authorize = async (slug: string, body: object = {}) =>
    expect((await goBack(upstream.grant((await begin(slug, body)).authorization_url))).status).toBe(200);

  it('says that an authorization is needed, and is sent with the token afterwards', async () => {
    await save('called', {});
    expect((await errorOf(await call('called'), 502)).message).toContain('needs an authorization by an administrator');
    expect(await admin.get(`${ROUTE}/called`)).toMatchObject({
      ...{ status: 'degraded', last_error: expect.stringContaining('needs an authorization') },
    });
    await authorize('called');
    const token = await tokenIn(await call('called'));
    expect(upstream.accepts(token)).toBe(true);
    expect((await admin.get(`${ROUTE}/called/catalog`)).tools).toMatchObject([{ name: 'whoami', withheld: false }]);
    expect(await admin.get(`${ROUTE}/called`)).toMatchObject({ status: 'connected', tool_count: 1 });
    await admin.change('DELETE', `${ROUTE}/called/oauth`);
    expect((await call('called')).status).toBe(502);
  });

  it('has the token of the path of its caller', async () => {
    await save('of-paths', { per_user_path: true });
    await authorize('of-paths', { user_path: '/team/a' });
    await authorize('of-paths', { user_path: '/team/b' });
    const tokens = await Promise.all(
      ['/team/a', '/team/a/one', '/team/b'].map(async (user_path) => tokenIn(await call('of-paths', { user_path }))),
    );
    expect(tokens[0]).toBe(tokens[1]);
    expect(new Set(tokens).size).toBe(2);
    const refused = await errorOf(await call('of-paths', { user_path: '/team' }), 502);
    expect(refused.message).toContain('needs an authorization for the user path /team');
  });

  it('is offered to models of the callers of its path only', async () => {
    await save('listed', { per_user_path: true });
    await authorize('listed', { user_path: '/team/a' });
    const list = async (user_path: string) => {
      const key = await newKey(gateway, { user_path });
      const tool = { type: 'mcp', server_label: 'listed', server_url: 'gateway://listed', require_approval: 'never' };
      const body = { model: 'llamacpp/simulated-small', input: 'Reply with exactly: hello', tools: [tool] };
      const { output } = await json(await key.fetch('/v1/responses', { json: body }));
      return output[0];
    };
    const own = { type: 'mcp_list_tools', error: null, tools: [{ name: 'whoami' }] };
    expect(await list('/team/a')).toMatchObject(own);
    expect(await list('/team/b')).toMatchObject({
      ...{ type: 'mcp_list_tools', tools: [], error: expect.stringContaining('for the user path /team/b') },
    });
    expect(await list('/team/a/one')).toMatchObject(own);
  });

  it('has a new token in the same session when the old one is about to end', async () => {
    upstream.behaviour.expiresIn = 0;
    await save('short', {});
    await authorize('short');
    const first = await tokenIn(await call('short'));
    const second = await tokenIn(await call('short'));
    upstream.behaviour.expiresIn = 3600;
    expect(second).not.toBe(first);
    expect(await tokenIn(await call('short'))).toBe(await tokenIn(await call('short')));
  });

  it.each([
    ['a granted one', {}],
    ['one for client credentials', { grant: 'client_credentials', client_id: 'a', client_secret: 'b' }],
  ])('gets another token when the server refuses its token before the end: %s', async (_what, oauth) => {
    const slug = 'grant' in oauth ? 'revoked-own' : 'revoked';
    await save(slug, oauth);
    if (!('grant' in oauth)) await authorize(slug);
    const first = await tokenIn(await call(slug));
    upstream.revoke();
    const calls = tools.calls('whoami').length;
    const second = await tokenIn(await call(slug));
    expect([upstream.accepts(second), second === first]).toEqual([true, false]);
    expect(tools.calls('whoami')).toHaveLength(calls + 1);
    // Not again and again, for a server that refuses all tokens.
    upstream.revoke();
    const asked = upstream.tokenRequests.length;
    expect((await call(slug)).status).toBe(502);
    expect((await call(slug)).status).toBe(502);
    expect(upstream.tokenRequests).toHaveLength(asked);
  });

  it('has a token for client credentials', async () => {
    await save('own', { grant: 'client_credentials', client_id: 'a', client_secret: 'secret-of-the-client' });
    expect(upstream.accepts(await tokenIn(await call('own')))).toBe(true);
    const asked = upstream.tokenRequests.at(-1)?.form.get('grant_type');
    expect(asked).toBe('client_credentials');
  });
});
