/** `chancery analytics setup`: its statements on the server, their users, and its exit codes. */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { openEmbeddedClickHouse } from '../../src/http/clickhouse/embedded-clickhouse.ts';
import { analystAccount } from '../../src/http/clickhouse/engine-access.ts';
import { main } from '../support/main-program.ts';
import { hasChdb } from './embedded.ts';
import { type StandIn, startStandIn } from './server-stand-in.ts';

const folder = mkdtempSync(join(tmpdir(), 'chancery-setup-'));
const password = "se'cr\\et";

let server: StandIn;
beforeAll(async () => {
  server = await startStandIn();
});
beforeEach(() => {
  server.sent.length = 0;
  server.answers.clear();
  for (const requested of ['system.processes', 'url(']) server.answers.set(requested, 497);
  server.answers.set('FROM system.settings', 'readonly\nformat_template_row\nunknown_to_us\n');
  server.answers.set("FROM system.tables WHERE database = 'system'", 'columns\nfunctions\nprocesses\n');
});
afterAll(async () => {
  await server?.close();
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
});

const account = {
  CLICKHOUSE_USER: 'writer',
  CLICKHOUSE_PASSWORD: 'writes',
  CLICKHOUSE_ANALYST_USER: 'reader',
  CLICKHOUSE_ANALYST_PASSWORD: password,
};

function setup(env: Readonly<Record<string, string>>) {
  return new Promise<{ code: number; stdout: string; stderr: string }>((resolve) => {
    const started = { cwd: folder, env: { DATA_DIR: folder, ...env } };
    execFile(process.execPath, [main, 'analytics', 'setup'], started, (error, stdout, stderr) => {
      resolve({ code: typeof error?.code === 'number' ? error.code : 0, stdout, stderr });
    });
  });
}

describe('chancery analytics setup', { timeout: 30_000 }, () => {
  test('makes the account as the user for writing, and then checks it as the analyst', async () => {
    const { code, stdout, stderr } = await setup({ CLICKHOUSE_URL: server.url, ...account });
    expect([code, stderr]).toEqual([0, '']);
    const queriesOf = (user: string) => server.sent.filter((each) => each.user === user).map(({ query }) => query);
    const [, , ...statements] = queriesOf('writer');
    expect(statements.map((text) => text.split(/\s+/).slice(0, 4).join(' '))).toEqual([
      'CREATE DATABASE IF NOT',
      'CREATE SETTINGS PROFILE OR',
      'CREATE USER IF NOT',
      'ALTER USER `reader` IDENTIFIED',
      'GRANT SELECT ON `chancery`.*,',
    ]);
    expect(statements[1]).toMatch(
      /SETTINGS readonly = 2, max_execution_time = 60 MIN 1 MAX 60, .*format_template_row CONST/,
    );
    expect(statements[1]).not.toMatch(/unknown_to_us|dialect/);
    expect(statements[4]).toMatch(/SELECT ON system\.`columns`, SELECT ON system\.`functions` TO `reader`/);
    expect(statements[4]).not.toMatch(/processes|\*\.\*/);
    expect(queriesOf('reader')).toHaveLength(3);
    expect(new Set(server.sent.map((each) => each.password))).toEqual(new Set(['writes', password]));

    // The output has the steps, without the password.
    expect(stdout).toContain("CREATE USER IF NOT EXISTS `reader` IDENTIFIED WITH sha256_password BY '***'");
    expect(stdout).toContain('-- reader is refused: SELECT count() FROM system.processes');
    expect(stdout).not.toMatch(/cr\\+et|writes/);

    const first = server.sent.map(({ query }) => query);
    server.sent.length = 0;
    expect((await setup({ CLICKHOUSE_URL: server.url, ...account })).code).toBe(0);
    expect(server.sent.map(({ query }) => query)).toEqual(first);
  });

  test('uses another user with access management when one is given', async () => {
    const admin = { CLICKHOUSE_ADMIN_USER: 'root', CLICKHOUSE_ADMIN_PASSWORD: 'manages' };
    expect((await setup({ CLICKHOUSE_URL: server.url, ...account, ...admin })).code).toBe(0);
    expect(new Set(server.sent.map(({ user }) => user))).toEqual(new Set(['root', 'reader']));
  });

  test('fails when the account may read the processes of others', async () => {
    server.answers.set('system.processes', '3\n');
    const { code, stdout, stderr } = await setup({ CLICKHOUSE_URL: server.url, ...account });
    expect(code).toBe(1);
    expect(stdout).toContain('-- reader MAY RUN: SELECT count() FROM system.processes');
    expect(stderr).toMatch(/has more rights than reading its tables.*select_from_system_db_requires_grant/);
  });

  test('fails with the error of the server when the user may not manage access', async () => {
    server.answers.set('CREATE USER', 497);
    const { code, stderr } = await setup({ CLICKHOUSE_URL: server.url, ...account });
    expect(code).toBe(1);
    expect(stderr).toMatch(/refused by the stand-in/);
  });

  test.each([
    ['CLICKHOUSE_URL', {}, /CLICKHOUSE_URL is not set/],
    ['a user', { CLICKHOUSE_URL: 'http://127.0.0.1:9' }, /set CLICKHOUSE_ANALYST_USER and CLICKHOUSE_ANALYST_PASSWORD/],
  ])('reports a missing setting without %s', async (_, env, why) => {
    const { code, stderr } = await setup(env);
    expect(code).toBe(1);
    expect(stderr).toMatch(why);
    expect(server.sent).toEqual([]);
  });
});

test.skipIf(!hasChdb)('the statements are SQL to ClickHouse', async () => {
  const engine = await openEmbeddedClickHouse({ folder: join(folder, 'engine'), access: { databases: ['chancery'] } });
  try {
    const names = {
      settings: new Set(['format_template_row', 'dialect']),
      systemTables: new Set(['columns', 'tables']),
    };
    for (const { text } of analystAccount({ user: 'it`s', password, database: 'chancery' }, names)) {
      expect(await engine.normalForm(text)).toMatch(/^(CREATE|ALTER|GRANT)/);
    }
  } finally {
    await engine.close();
  }
});
