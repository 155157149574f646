/** MCP servers that administrators set up: what is stored and shown; and those of the configuration. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Answered } from '../support/answered.ts';
import type { TestGateway } from '../support/gateway.ts';
import { errorOf, json, withGateway } from '../support/with-gateway.ts';
import { administrator } from './admin-history-steps.ts';

const ROUTE = '/admin/mcp-servers';
const SECRET = 'the-very-secret-header-of-this-test';
const tickets = { name: 'Ticket system', url: 'https://tickets.example.com/mcp', enabled: false };

type Fetching = Pick<TestGateway, 'fetch'>;
const put = (gateway: Fetching, body: object, headers: Record<string, string> = {}) =>
  gateway.fetch(ROUTE, { method: 'PUT', json: body, headers });
const remove = (gateway: Fetching, slug: string, headers: Record<string, string> = {}) =>
  gateway.fetch(`${ROUTE}/${slug}`, { method: 'DELETE', headers });

async function save(gateway: Fetching, body: object): Promise<Answered> {
  const answer = await put(gateway, body);
  expect(answer.status, answer.ok ? '' : await answer.text()).toBe(200);
  return json(answer);
}

describe('PUT /admin/mcp-servers', () => {
  const gateway = withGateway();
  const admin = administrator(gateway);

  it('sets up a server with defaults and a slug of its name, and replaces it', async () => {
    const answer = await put(gateway, tickets);
    expect(answer.headers.get('etag')).toBe('"0"');
    expect(await json(answer)).toMatchObject({
      ...{ name: 'Ticket system', slug: 'ticket-system', url: tickets.url, transport: 'streamable_http' },
      ...{ enabled: false, tool_timeout_seconds: 30, pin: false, managed: false, revision: '0' },
      ...{ tool_count: 0, prompt_count: 0, resource_count: 0, changed_tools: [] },
    });
    const all = {
      ...{
        ...tickets,
        slug: 'ticket-system',
        transport: 'sse',
        description: 'Issues',
        tool_timeout_seconds: 5,
        pin: true,
      },
      ...{ allowed_tools: ['read', 'read'], disallowed_tools: ['drop'], user_paths: ['team/'], price_per_call: 0.01 },
    };
    expect(await save(gateway, all)).toMatchObject({
      ...all,
      allowed_tools: ['read'],
      user_paths: ['/team'],
      revision: '1',
    });
    expect((await put(gateway, all)).headers.get('etag')).toBe('"1"');
    expect((await remove(gateway, 'ticket-system')).status).toBe(204);
    expect(await admin.get(ROUTE)).toEqual([]);
    await errorOf(await remove(gateway, 'ticket-system'), 404);
  });

  it.each([
    ['no name', { ...tickets, name: ' ' }, 'name'],
    ['a name without letters or digits', { ...tickets, name: '文件' }, 'slug'],
    ['a slug with an underscore', { ...tickets, slug: 'a_b' }, 'slug'],
    ['a slug in upper case', { ...tickets, slug: 'A' }, 'slug'],
    ['a slug of 41 characters', { ...tickets, slug: 'a'.repeat(41) }, 'slug'],
    ['an address that is none', { ...tickets, url: 'tickets' }, 'url'],
    ['an address of another scheme', { ...tickets, url: 'file:///etc/passwd' }, 'url'],
    ['a program', { ...tickets, command: 'sh' }, 'command'],
    ['the transport of programs', { ...tickets, transport: 'stdio' }, 'transport'],
    ['a header of the protocol', { ...tickets, headers: { 'Mcp-Session-Id': 'x' } }, 'headers'],
    ['a header of the connection', { ...tickets, headers: { host: 'x' } }, 'headers'],
    ['a header with a line feed', { ...tickets, headers: { 'x-a': 'a\nb: c' } }, 'headers'],
    ['a header twice', { ...tickets, headers: { 'x-a': 'a', 'X-A': 'b' } }, 'headers'],
    ['a mask without a stored value', { ...tickets, headers: { 'x-a': '***' } }, 'headers.x-a'],
    ['a masked password without a stored one', { ...tickets, url: 'https://u:***@tickets.example.com' }, 'url'],
    ['a time limit of 0', { ...tickets, tool_timeout_seconds: 0 }, 'tool_timeout_seconds'],
    ['a negative price', { ...tickets, price_per_call: -1 }, 'price_per_call'],
    ['a user path that is none', { ...tickets, user_paths: ['/a', '/a//b'] }, 'user_paths.1'],
    ['an unknown member', { ...tickets, secret: 'x' }, 'secret'],
    ['client credentials without a client', { ...tickets, oauth: { grant: 'client_credentials' } }, 'oauth.client_id'],
    [
      'client credentials of each user path',
      {
        ...tickets,
        oauth: { grant: 'client_credentials', client_id: 'a', client_secret: 'b', per_user_path: true },
      },
      'oauth.per_user_path',
    ],
    [
      'OAuth beside a header with credentials',
      { ...tickets, headers: { Authorization: 'x' }, oauth: { grant: 'authorization_code' } },
      'headers',
    ],
    [
      'a masked client secret without a stored one',
      { ...tickets, oauth: { grant: 'authorization_code', client_id: 'a', client_secret: '***' } },
      'oauth.client_secret',
    ],
  ])('refuses %s', async (_what, body, param) => {
    expect(await errorOf(await put(gateway, body), 400)).toMatchObject({ param });
    expect(await admin.get(ROUTE)).toEqual([]);
  });

  it('shows secrets as masks, which keep them, and stores them encrypted', async () => {
    const secret = (name: string) => `${SECRET}-${name}`;
    const body = {
      ...{
        ...tickets,
        name: 'Sealed',
        url: `https://user:${secret('url')}@tickets.example.com/mcp?key=${secret('query')}`,
      },
      headers: { 'X-Api-Key': secret('header') },
      oauth: { grant: 'authorization_code', client_id: 'known', client_secret: secret('client') },
    };
    const row = await save(gateway, body);
    expect(row).toMatchObject({
      headers: { 'x-api-key': '***' },
      url: expect.stringMatching(/^https:\/\/user:\*+@tickets\.example\.com\/mcp\?key=\*+$/),
      oauth: { client_secret: '***', per_user_path: false, authorizations: [] },
    });
    const { oauth } = row;
    const masked = {
      ...{ ...tickets, name: 'Sealed', description: 'changed', url: row.url, headers: row.headers },
      oauth: { grant: oauth.grant, client_id: oauth.client_id, client_secret: oauth.client_secret },
    };
    expect(await save(gateway, masked)).toMatchObject({ headers: row.headers, description: 'changed', revision: '1' });
    const elsewhere = { ...masked, url: row.url.replace('tickets.', 'attacker.') };
    expect(await errorOf(await put(gateway, elsewhere), 400)).toMatchObject({ param: 'url' });
    const otherClient = { ...masked, oauth: { ...masked.oauth, client_id: 'other' } };
    expect(await errorOf(await put(gateway, otherClient), 400)).toMatchObject({ param: 'oauth.client_secret' });
    const { entries } = await admin.get('/admin/history?subject=mcp-server:sealed');
    expect(entries).toHaveLength(2);
    expect(entries[0].after.sealed_headers).toEqual({ 'x-api-key': '***' });
    expect(JSON.stringify([entries, await admin.get(ROUTE)])).not.toContain(SECRET);
    for (const file of readdirSync(gateway.dataDir, { recursive: true, withFileTypes: true })) {
      if (file.isFile()) expect(readFileSync(join(file.parentPath, file.name)).includes(SECRET), file.name).toBe(false);
    }
    await remove(gateway, 'sealed');
  });

  it('honours If-Match, and lists servers as of an earlier change', async () => {
    const etag = (await put(gateway, { ...tickets, slug: 'matched' })).headers.get('etag') ?? '';
    const before = await admin.newestChange();
    expect((await put(gateway, { ...tickets, slug: 'matched', pin: true }, { 'if-match': etag })).status).toBe(200);
    await errorOf(await put(gateway, { ...tickets, slug: 'matched' }, { 'if-match': etag }), 409);
    await errorOf(await remove(gateway, 'matched', { 'if-match': etag }), 409);
    expect((await gateway.fetch(`${ROUTE}/matched`)).headers.get('etag')).toBe('"1"');
    expect((await remove(gateway, 'matched', { 'if-match': '"1"' })).status).toBe(204);
    expect(await admin.get(`${ROUTE}?as_of=${before}`)).toMatchObject([{ slug: 'matched', pin: false, revision: '0' }]);
    expect(await admin.get(`${ROUTE}/matched?as_of=${before}`)).toMatchObject({ pin: false });
    await admin.refused(`${ROUTE}/matched`, 404);
  });

  it('answers 404 for unknown servers, also for their catalogue, tools and authorizations', async () => {
    await errorOf(await gateway.fetch(`${ROUTE}/unknown/reconnect`, { method: 'POST' }), 404);
    await errorOf(await gateway.fetch(`${ROUTE}/unknown/tools/x/call`, { json: {} }), 404);
    await errorOf(await gateway.fetch(`${ROUTE}/unknown/tools/x/accept`, { json: { digest: 'x' } }), 404);
    await errorOf(await gateway.fetch(`${ROUTE}/unknown/oauth/authorize`, { json: {} }), 404);
    await errorOf(await gateway.fetch(`${ROUTE}/unknown/oauth`, { method: 'DELETE' }), 404);
  });
});

describe('PUT /admin/mcp-servers with a local address', () => {
  const closed = withGateway();
  const open = withGateway({ env: { ALLOW_PRIVATE_PROVIDERS: 'true' } });

  it.each([
    ...['http://127.0.0.1/mcp', 'http://localhost:3000', 'http://169.254.169.254/latest', 'http://[::1]/mcp'],
    ...['http://2130706433/', 'http://user:secret@0.0.0.0/mcp'],
  ])('refuses %s, unless local addresses are allowed', async (url) => {
    const refused = await errorOf(await put(closed, { ...tickets, url }), 400);
    expect(refused).toMatchObject({ param: 'url', code: 'mcp_address_refused' });
    expect(refused.message).not.toContain('secret');
    expect((await closed.fetch(`${ROUTE}/ticket-system`)).status).toBe(404);
    expect((await put(open, { ...tickets, url })).status).toBe(200);
  });

  it('refuses one of the authorization server', async () => {
    const body = { ...tickets, oauth: { grant: 'authorization_code', issuer: 'http://169.254.169.254' } };
    expect(await errorOf(await put(closed, body), 400)).toMatchObject({ param: 'oauth.issuer' });
  });
});

describe('MCP servers of the configuration', () => {
  const declared = [
    {
      ...{ name: 'Files', transport: 'stdio', command: 'no-such-program', args: ['--key', SECRET], enabled: false },
      env: { TOKEN: SECRET },
    },
    { name: 'Search', slug: 'find', url: 'http://127.0.0.1:9/mcp', headers: { 'x-key': SECRET }, enabled: false },
  ];
  const gateway = withGateway({ env: { MCP_SERVERS: JSON.stringify(declared) } });
  const admin = administrator(gateway);

  it('are listed with masks, and cannot be changed or removed', async () => {
    const rows = await admin.get(ROUTE);
    expect(rows).toMatchObject([
      { slug: 'files', managed: true, transport: 'stdio', command: 'no-such-program', env: { TOKEN: '***' } },
      { slug: 'find', managed: true, headers: { 'x-key': '***' }, url: 'http://127.0.0.1:9/mcp' },
    ]);
    expect(JSON.stringify(rows)).not.toContain(SECRET);
    expect((await gateway.fetch(`${ROUTE}/files`)).headers.get('etag')).toBeNull();
    const changed = await errorOf(await put(gateway, { ...tickets, name: 'Files' }), 400);
    expect(changed).toMatchObject({ param: 'slug', message: expect.stringContaining('declared in the configuration') });
    await errorOf(await remove(gateway, 'find'), 400);
    expect(await admin.get(ROUTE)).toEqual(rows);
  });
});

describe('MCP_ENABLED=false', () => {
  const gateway = withGateway({ env: { MCP_ENABLED: 'false' } });

  it('answers 503 on every route, and says so in the switches', async () => {
    for (const path of ['', '/a', '/a/catalog', '/oauth/callback?state=x']) {
      expect(await errorOf(await gateway.fetch(`${ROUTE}${path}`), 503)).toMatchObject({ code: 'feature_unavailable' });
    }
    await errorOf(await put(gateway, tickets), 503);
    expect(await json(await gateway.fetch('/admin/runtime/config'))).toMatchObject({ MCP_ENABLED: 'off' });
  });
});
