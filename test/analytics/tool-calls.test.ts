/** Calls of tools in SQL, in the audit log, and live. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createBatchStore } from '../../src/projections/analytics/batch-store.ts';
import { logIdOf } from '../../src/projections/snapshot-basis.ts';
import { type LiveListener, listen } from '../http/live-listener.ts';
import type { Answered } from '../support/answered.ts';
import { MASTER_KEY } from '../support/gateway.ts';
import { type ManagedKey, newKey } from '../support/managed-keys.ts';
import { mcpClient } from '../support/mcp-client.ts';
import { type ScriptedMcp, startScriptedMcp } from '../support/scripted-mcp.ts';
import { errorOf, exchangeOf, json, weather } from '../support/with-gateway.ts';
import { type AuditGateway, startAuditGateway } from './audit-gateway.ts';
import { hasChdb } from './embedded.ts';

const forecast = { content: [{ type: 'text', text: 'sunny' }], structuredContent: { sky: 'clear' } };
const tools = {
  echo: { call: ({ text }: { text: string }) => `echo: ${text}` },
  'fail/again': { call: () => ({ content: [{ type: 'text', text: 'no' }], isError: true }) },
  refuse: {
    call() {
      throw new Error('no such thing');
    },
  },
  hang: { call: () => new Promise(() => {}) },
  [weather.name]: { description: weather.description, inputSchema: weather.parameters, call: () => forecast },
};

describe.skipIf(!hasChdb)('calls of tools', () => {
  let server: ScriptedMcp;
  let it: AuditGateway;
  let caller: ManagedKey;
  let live: LiveListener;
  let response: Answered;
  let ofResponse: string;

  beforeAll(async () => {
    server = await startScriptedMcp(tools);
    const servers = [
      { name: 'Work', url: server.url, disallowed_tools: ['hidden'], tool_timeout_seconds: 1 },
      { name: 'Paid', url: server.url, price_per_call: 0.25 },
    ];
    it = await startAuditGateway({ exchanges: 3, seed: 1 }, { MCP_SERVERS: JSON.stringify(servers) });
    const { gateway } = it;
    caller = await newKey(gateway, { user_path: '/team/alice', labels: ['night'] });
    live = await listen(gateway.url, {}, { authorization: `Bearer ${MASTER_KEY}` });
    const connection = { key: caller.value, headers: { 'x-session-id': 'one history' } };
    const work = await mcpClient(gateway.url, { path: '/mcp/work', ...connection });
    await work.callTool({ name: 'echo', arguments: { text: 'Grüße' } });
    await work.callTool({ name: 'fail/again' });
    for (const name of ['refuse', 'hang', 'hidden']) await expect(work.callTool({ name })).rejects.toThrow();
    await work.close();
    const paid = await mcpClient(gateway.url, { path: '/mcp/paid', ...connection });
    await paid.callTool({ name: 'echo', arguments: { text: 'paid' } });
    await paid.close();
    const answer = await caller.fetch('/v1/responses', {
      json: {
        model: 'llamacpp/simulated-small',
        input: 'What is the weather in Paris?',
        tools: [{ type: 'mcp', server_label: 'sky', server_url: 'gateway://work', require_approval: 'never' }],
      },
    });
    expect(answer.status, await answer.clone().text()).toBe(200);
    ofResponse = exchangeOf(answer);
    response = await json(answer);
    await it.caughtUp();
  }, 60_000);
  afterAll(async () => {
    live?.leave();
    await it?.close();
    await server?.close();
  });

  /** The rows of a query of an analyst. */
  async function rows(query: string): Promise<Answered[]> {
    const answer = await it.gateway.fetch('/admin/sql', { json: { query } });
    expect(answer.status, await answer.clone().text()).toBe(200);
    return (await json(answer)).data;
  }

  const call = async (server: string, tool: string) =>
    (await rows(`SELECT * FROM chancery.tool_calls WHERE server = '${server}' AND tool = '${tool}'`))[0];

  test('are one row each, with caller, session, labels, sizes and durations', async () => {
    expect(await rows('SELECT server, tool, status, error_code FROM tool_calls ORDER BY at')).toEqual([
      { server: 'work', tool: 'echo', status: 'ok', error_code: '' },
      { server: 'work', tool: 'fail/again', status: 'tool_error', error_code: '' },
      { server: 'work', tool: 'refuse', status: 'tool_error', error_code: 'tool_error' },
      { server: 'work', tool: 'hang', status: 'failed', error_code: 'tool_timeout' },
      { server: 'work', tool: 'hidden', status: 'refused', error_code: 'tool_not_found' },
      { server: 'paid', tool: 'echo', status: 'ok', error_code: '' },
      { server: 'work', tool: weather.name, status: 'ok', error_code: '' },
    ]);
    const echo = await call('work', 'echo');
    expect(echo).toMatchObject({
      ...{
        auth_key_id: caller.id,
        user_path: '/team/alice',
        session_id: (await call('paid', 'echo')).session_id,
        labels: ['night'],
      },
      argument_bytes: Buffer.byteLength('{"text":"Grüße"}'),
      result_bytes: Buffer.byteLength('{"content":[{"type":"text","text":"echo: Grüße"}]}'),
      ...{ recorded_cost: null, causation_id: '', item_id: '' },
    });
    expect(echo.session_id).not.toBe('');
    expect(echo.tool_ms).toBeGreaterThan(0);
    expect(echo.duration_ms).toBeGreaterThanOrEqual(echo.tool_ms);
    const [recorded] = await rows(`SELECT count() AS events FROM events WHERE stream = 'exchange-${echo.exchange_id}'`);
    expect(Number(recorded.events)).toBe(4);
  });

  test('without an answer have no time of the tool, and a size only of what was sent', async () => {
    for (const tool of ['hang', 'hidden']) {
      expect(await call('work', tool)).toMatchObject({ tool_ms: null, argument_bytes: 0, result_bytes: 0 });
    }
    expect((await call('work', 'hang')).duration_ms).toBeGreaterThan(999);
  });

  test('have their price', async () => {
    expect(await call('paid', 'echo')).toMatchObject({ recorded_cost: 250_000_000 });
    const [usage] = await rows("SELECT provider, model, total_cost FROM usage WHERE provider = 'mcp:paid'");
    expect(usage).toEqual({ provider: 'mcp:paid', model: 'echo', total_cost: 250_000_000 });
  });

  test('of a model name the response that made them, and its item', async () => {
    const item = response.output.find(({ type }: Answered) => type === 'mcp_call');
    expect(await call('work', weather.name)).toMatchObject({
      ...{ status: 'ok', causation_id: ofResponse, item_id: item.id },
      argument_bytes: Buffer.byteLength(item.arguments),
    });
    expect(await rows(`SELECT response_id FROM exchanges WHERE id = '${ofResponse}'`)).toEqual([
      { response_id: response.id },
    ]);
  });

  test('are in the example of the guide', async () => {
    const guide = readFileSync(join(import.meta.dirname, '../../docs/mcp.md'), 'utf8');
    const sql = /^```sql\n(.+?)^```$/ms.exec(guide)?.[1] ?? '';
    expect(await rows(sql)).toContainEqual(
      expect.objectContaining({ server: 'work', tool: 'hang', calls: 1, tool_errors: 0, failed: 1 }),
    );
  });

  test('are readable by global administrators and analysts only, and cannot be changed', async () => {
    const administrator = await newKey(it.gateway, { user_path: '/team', dashboard_access: true });
    const query = 'SELECT * FROM tool_calls';
    for (const key of [administrator, caller]) {
      expect([401, 403]).toContain((await key.fetch('/admin/sql', { json: { query } })).status);
    }
    const analyst = it.embedded.clientOf('analyst', 'chancery');
    const read = await analyst.query({ query: 'SELECT count() AS n FROM tool_calls', format: 'JSONEachRow' });
    expect(await read.json()).toEqual([{ n: 7 }]);
    for (const statement of ['DROP VIEW tool_calls', 'CREATE OR REPLACE VIEW tool_calls AS SELECT 1']) {
      await expect(analyst.command({ query: statement }), statement).rejects.toThrow();
      await errorOf(await it.gateway.fetch('/admin/sql', { json: { query: statement } }), 400);
    }
  });

  test('are in the audit log with the server and the tool, also those that failed', async () => {
    const { entries } = await json(await it.gateway.fetch('/admin/audit/log?user_path=/team&limit=100'));
    const shown = (model: string) => entries.find((entry: Answered) => entry.requested_model === model);
    for (const tool of ['echo', 'fail/again', 'refuse', 'hang']) {
      expect(shown(`work/${tool}`)).toMatchObject({
        ...{ resolved_model: `mcp:work/${tool}`, provider: 'mcp', provider_name: 'mcp:work' },
      });
    }
    expect(shown('work/hidden')).toMatchObject({ outcome: 'refused' });
    expect(shown('work/hidden').resolved_model).toBeUndefined();
  });

  test('are live with the server and the tool while they run', async () => {
    const previews = () => live.events.filter(({ data }) => data.data?.requested_model === 'work/hang');
    await expect.poll(() => previews().at(-1)?.event).toBe('audit.failed');
    expect(previews().map(({ event, data }) => [event, data.data?.resolved_model, data.data?.provider])).toEqual([
      ['audit.started', undefined, undefined],
      ['audit.updated', 'mcp:work/hang', 'mcp'],
      ['audit.failed', 'mcp:work/hang', 'mcp'],
    ]);
  });

  test('are found in tables of an earlier version, whose columns and view are added', { timeout: 60_000 }, async () => {
    const writer = it.embedded.clientOf('projector');
    await writer.command({ query: 'DROP VIEW chancery.tool_calls' });
    const added = ['causation_id', 'tool_item_id', 'tool_argument_bytes', 'tool_result_bytes', 'tool_ms', 'tool_error'];
    const drops = added.map((column) => `DROP COLUMN ${column}`);
    await writer.command({ query: `ALTER TABLE chancery.exchanges ${drops.join(', ')}` });
    await createBatchStore(writer, 'chancery').prepare((await logIdOf(it.log)) ?? '');
    const found = await rows('SELECT server, tool, tool_ms FROM tool_calls ORDER BY at');
    expect(found).toHaveLength(7);
    expect(found[0]).toEqual({ server: 'work', tool: 'echo', tool_ms: null });
  });
});
