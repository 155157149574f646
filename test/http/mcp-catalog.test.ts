/** The catalogue and the tools of a real server that an administrator set up, and what is shown when it is down. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { freePort } from '../browser/support/free-port.ts';
import { startScriptedMcp } from '../support/scripted-mcp.ts';
import { errorOf, eventsUntil, json, withGateway } from '../support/with-gateway.ts';
import { administrator } from './admin-history-steps.ts';

const ROUTE = '/admin/mcp-servers';
const packageFile = createRequire(import.meta.url).resolve('@modelcontextprotocol/server-everything/package.json');
const port = await freePort();
const child = spawn(process.execPath, [join(dirname(packageFile), 'dist/index.js'), 'streamableHttp'], {
  env: { PATH: process.env['PATH'], PORT: String(port) },
  stdio: ['ignore', 'pipe', 'pipe'],
});
const listening = Promise.race([once(child.stdout, 'data'), once(child.stderr, 'data')]);
afterAll(() => void child.kill('SIGKILL'));

const gateway = withGateway(async () => {
  await listening;
  return { env: { ALLOW_PRIVATE_PROVIDERS: 'true' } };
});
const admin = administrator(gateway);
const server = { name: 'Everything', url: `http://127.0.0.1:${port}/mcp` };
const call = (tool: string, body: object = {}) =>
  gateway.fetch(`${ROUTE}/everything/tools/${tool}/call`, { json: body });

it('has the tools, prompts, resources and templates of the server, once it is connected', async () => {
  expect(await admin.change('PUT', ROUTE, server)).toMatchObject({ tool_count: 0 });
  const catalog = await admin.get(`${ROUTE}/everything/catalog`);
  expect(catalog).toMatchObject({ server: 'everything', status: 'connected', changed_tools: [] });
  const echo = catalog.tools.find(({ name }: { name: string }) => name === 'echo');
  expect(echo).toMatchObject({ description: expect.any(String), input_schema: { type: 'object' }, withheld: false });
  for (const list of ['prompts', 'resources', 'templates']) expect(catalog[list].length).toBeGreaterThan(0);
  expect(catalog.resources[0]).toMatchObject({ name: expect.any(String), uri: expect.any(String) });
  expect(catalog.templates[0]).toMatchObject({ uri_template: expect.stringContaining('{') });
  expect(await admin.get(`${ROUTE}/everything`)).toMatchObject({
    ...{ status: 'connected', tool_count: catalog.tools.length, prompt_count: catalog.prompts.length },
    connected_at: expect.any(String),
  });
});

it('calls a tool on the record, in the name of a user path', async () => {
  const answer = await call('echo', { arguments: { message: 'of the form' }, user_path: 'team/a' });
  const { content, is_error, exchange_id } = await json(answer);
  expect([answer.status, is_error, content[0].text]).toEqual([200, false, expect.stringContaining('of the form')]);
  const events = await eventsUntil(gateway, `stream=exchange-${exchange_id}`, ({ type }) => type === 'tool.answered');
  expect(events.find(({ type }) => type === 'tool.called')).toMatchObject({
    ...{ data: { server: 'everything', tool: 'echo' }, userPath: '/team/a', actor: 'master' },
  });
});

it('shows what the server says of a wrong call, and refuses tools that are not allowed', async () => {
  expect(await json(await call('no-such-tool'))).toMatchObject({ is_error: true });
  const refused = await json(await call('echo', { arguments: { message: 1 } }));
  expect(refused).toMatchObject({ is_error: true, content: [{ text: expect.stringContaining('message') }] });
  await admin.change('PUT', ROUTE, { ...server, disallowed_tools: ['echo'] });
  await errorOf(await call('echo', { arguments: { message: 'x' } }), 404);
  const { tools } = await admin.get(`${ROUTE}/everything/catalog`);
  expect(tools.map(({ name }: { name: string }) => name)).not.toContain('echo');
  await admin.change('PUT', ROUTE, server);
});

it('shows a JSON-RPC error of the server as 502', async () => {
  const failing = await startScriptedMcp({
    fails: {
      call() {
        throw new Error('the tool is broken');
      },
    },
  });
  await admin.change('PUT', ROUTE, { name: 'Failing', url: failing.url });
  const answer = await gateway.fetch(`${ROUTE}/failing/tools/fails/call`, { json: {} });
  expect(await errorOf(answer, 502)).toMatchObject({
    ...{ code: 'mcp_error', message: expect.stringContaining('the tool is broken') },
  });
  await failing.close();
});

it('shows why the server cannot be reached when it is down, also after a reconnect', async () => {
  child.kill('SIGKILL');
  await once(child, 'exit');
  const row = await admin.change('POST', `${ROUTE}/everything/reconnect`);
  expect(row).toMatchObject({ status: 'degraded', last_error: expect.any(String) });
  await errorOf(await gateway.fetch(`${ROUTE}/everything/catalog`), 502);
  await errorOf(await call('echo', { arguments: { message: 'x' } }), 502);
  expect((await gateway.fetch(`${ROUTE}/everything`, { method: 'DELETE' })).status).toBe(204);
});
