/** `POST /admin/sql` with a ClickHouse server: the user, the queries sent, and those refused before they are sent. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pino from 'pino';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { analyticsProcess } from '../../src/analytics/process.ts';
import { loadConfig } from '../../src/config/load-config.ts';
import { providerTypes } from '../../src/providers/types.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { type StandIn, startStandIn } from './server-stand-in.ts';

const folder = mkdtempSync(join(tmpdir(), 'chancery-server-sql-'));
const writer = { CLICKHOUSE_USER: 'writer', CLICKHOUSE_PASSWORD: 'writes' };
const analyst = { CLICKHOUSE_ANALYST_USER: 'reader', CLICKHOUSE_ANALYST_PASSWORD: 'reads' };

let server: StandIn;
const gateways: TestGateway[] = [];

/** With the addresses that the analytics process of this configuration gives; it is not started. */
async function gatewayWith(more: Readonly<Record<string, string>>): Promise<TestGateway> {
  const env = { CLICKHOUSE_URL: server.url, ...writer, ...more };
  const dataDir = join(folder, String(gateways.length));
  const loaded = loadConfig({ flags: {}, env: { DATA_DIR: dataDir, ...env }, cwd: folder, providerTypes });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  const logger = pino({ level: 'silent' });
  const analytics = analyticsProcess({ config: loaded.config, logger, say: () => {} });
  if (analytics === undefined) throw new Error('analytics is off');
  const gateway = await startTestGateway({ dataDir, env, analytics });
  gateways.push(gateway);
  return gateway;
}

async function ask(gateway: TestGateway, query: string) {
  const answer = await gateway.fetch('/admin/sql', { json: { query, format: 'TabSeparated' } });
  return { status: answer.status, text: await answer.text() };
}

async function questionsOnRecord(gateway: TestGateway): Promise<number> {
  const answer = await gateway.fetch('/admin/history?subject=audit:reads');
  return answer.status === 404 ? 0 : (JSON.parse(await answer.text()).entries as unknown[]).length;
}

beforeAll(async () => {
  server = await startStandIn();
});
beforeEach(() => {
  server.sent.length = 0;
  server.answers.clear();
});
afterAll(async () => {
  for (const gateway of gateways) await gateway.close();
  await server?.close();
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
});

describe('POST /admin/sql with a server', () => {
  test('queries as the user for analysts, and never as the user for writing', async () => {
    const gateway = await gatewayWith(analyst);
    expect(await ask(gateway, 'SELECT count()\n FROM items')).toEqual({ status: 200, text: 'the answer\n' });
    expect(server.sent.map(({ user, password }) => `${user}:${password}`)).toEqual(Array(3).fill('reader:reads'));
    expect(await questionsOnRecord(gateway)).toBe(1);

    // The query that runs is the normal form, read-only and within the limits.
    expect(server.sent.at(-1)).toMatchObject({
      query: 'SELECT count() FROM items',
      settings: { database: 'chancery', readonly: '1', max_execution_time: '30', max_result_rows: '100000' },
    });

    // The properties of the server are queried once.
    await ask(gateway, 'SELECT 2');
    expect(server.sent.slice(3).map(({ query }) => query)).toEqual([
      "SELECT formatQuerySingleLine('SELECT 2')",
      'SELECT 2',
    ]);
  });

  test('does not send readonly for a user who may not change settings', async () => {
    server.answers.set('FROM system.functions', '1\nsum\n');
    const gateway = await gatewayWith(analyst);
    await ask(gateway, 'SELECT 1');
    expect(server.sent.at(-1)?.settings).not.toHaveProperty('readonly');
  });

  test.each([
    ["SELECT file('/etc/passwd')", /file is not among the functions for readers/],
    ['SELECT * FROM other.items', /the database other is not for readers/],
    ['SELECT * FROM system.models', /system\.models is not for readers/],
    ['DROP TABLE items', /DROP TABLE items is not for readers/],
    ['SELECT 1 SETTINGS max_execution_time = 1000', /max_execution_time should be between 1 and 30/],
    ['SELECT 1 SETTINGS max_execution_time = 0.0000001', /max_execution_time should be between 1 and 30/],
    ["SELECT 1 SETTINGS format_template_row = '/etc/passwd'", /format_template_row is not for readers/],
    ['SELECT 1 FORMAT Template', /Template is not for readers/],
  ])('does not send %j', async (query, why) => {
    const gateway = gateways[0] ?? (await gatewayWith(analyst));
    const { status, text } = await ask(gateway, query);
    expect([status, JSON.parse(text).error.code]).toEqual([400, 'sql_refused']);
    expect(text).toMatch(why);
    const others = server.sent.filter((each) => !each.query.startsWith('SELECT formatQuerySingleLine('));
    expect(others.filter((each) => !each.query.includes('system.functions'))).toEqual([]);
  });

  test.each([
    [516, 503, 'analytics_unavailable'],
    [497, 400, 'sql_refused'],
    [159, 400, 'sql_over_limit'],
  ])('reports the error when the server answers with code %s', async (code, status, name) => {
    const gateway = gateways[0] ?? (await gatewayWith(analyst));
    server.answers.set('SELECT 3', code);
    const answer = await ask(gateway, 'SELECT 3');
    expect([answer.status, JSON.parse(answer.text).error.code]).toEqual([status, name]);
  });

  test.each([
    ['neither variable', {}],
    ['a user without a password', { CLICKHOUSE_ANALYST_USER: 'reader' }],
    ['a password without a user', { CLICKHOUSE_ANALYST_PASSWORD: 'reads' }],
  ])('is refused with %s, and nothing is sent or recorded', async (_, env: Record<string, string>) => {
    const gateway = await gatewayWith(env);
    const { status, text } = await ask(gateway, 'SELECT 1');
    expect([status, JSON.parse(text).error.code]).toEqual([503, 'feature_unavailable']);
    expect(text).toMatch(
      /set CLICKHOUSE_ANALYST_USER and CLICKHOUSE_ANALYST_PASSWORD, and run `chancery analytics setup`/,
    );
    expect(server.sent).toEqual([]);
    expect(await questionsOnRecord(gateway)).toBe(0);
  });

  test('a configuration with the same user for analysts and for writing is refused', async () => {
    await expect(gatewayWith({ ...analyst, CLICKHOUSE_ANALYST_USER: 'writer' })).rejects.toThrow(
      /CLICKHOUSE_ANALYST_USER.*expected a read-only user, got the writing user/,
    );
  });
});
