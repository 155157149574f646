/** Authorizations at an MCP server, through several gateways on one log that read it late. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Answered } from '../support/answered.ts';
import { type AuthorizationServer, startAuthorizationServer } from '../support/authorization-server.ts';
import { passTo } from '../support/pass-to.ts';
import { type ScriptedMcp, startScriptedMcp } from '../support/scripted-mcp.ts';
import { type OneOfSeveral, withSeveral } from './several.ts';

let upstream: AuthorizationServer;
let tools: ScriptedMcp;
beforeAll(async () => {
  // As it is, the gateway would remove its token from the result.
  const inHex = (text = '') => Buffer.from(text).toString('hex');
  tools = await startScriptedMcp({ whoami: { call: (_args, { headers }) => inHex(headers.authorization) } });
  upstream = await startAuthorizationServer(passTo(() => tools.url));
});
afterAll(() => Promise.all([upstream.close(), tools.close()]));

const several = withSeveral({ delays: [0, 10, 25], env: { ALLOW_PRIVATE_PROVIDERS: 'true' } });

/** The JSON of a request that must succeed. */
async function ask(one: OneOfSeveral, method: string, path: string, json?: object): Promise<Answered> {
  const answer = await one.fetch(`/admin/mcp-servers${path}`, { method, ...(json !== undefined && { json }) });
  const text = await answer.text();
  expect({ path, status: answer.status, text: answer.ok ? '' : text }).toEqual({ path, status: 200, text: '' });
  return JSON.parse(text);
}

async function tokenAt(one: OneOfSeveral): Promise<string> {
  const { content } = await ask(one, 'POST', '/tickets/tools/whoami/call', {});
  return Buffer.from(content[0].text, 'hex').toString().replace('Bearer ', '');
}

const refreshes = () => upstream.tokenRequests.filter(({ form }) => form.get('grant_type') === 'refresh_token');

it('begins on one gateway, is completed on another, and its tokens are refreshed once for all of them', async () => {
  const [first, second, third] = several.all;
  if (first === undefined || second === undefined || third === undefined) throw new Error('there are not three');
  await ask(first, 'PUT', '', { name: 'Tickets', url: upstream.url, oauth: { grant: 'authorization_code' } });
  const redirect_uri = `${second.url}/admin/mcp-servers/oauth/callback`;
  const { authorization_url } = await ask(third, 'POST', '/tickets/oauth/authorize', { redirect_uri });
  // The token that it gets is over at once.
  upstream.behaviour.expiresIn = 0;
  expect((await fetch(upstream.grant(authorization_url))).status).toBe(200);
  upstream.behaviour.expiresIn = 3600;

  const tokens = await Promise.all([...several.all, ...several.all, ...several.all].map(tokenAt));
  expect(refreshes()).toHaveLength(1);
  expect(new Set(tokens).size).toBe(1);
  expect(upstream.accepts(tokens[0] ?? '')).toBe(true);
  for (const one of several.all) {
    const { oauth } = await ask(one, 'GET', '/tickets');
    expect(oauth.authorizations).toMatchObject([{ status: 'authorized' }]);
  }
});
