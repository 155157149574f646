/** ClickHouse's tables about itself: the list is complete, and readers see rows only in the allowed ones. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  type EmbeddedClickHouse,
  exceptionOf,
  openEmbeddedClickHouse,
} from '../../../src/http/clickhouse/embedded-clickhouse.ts';
import { hiddenSystemTables, readableSystemTables, usersConfig } from '../../../src/http/clickhouse/engine-access.ts';
import { hasChdb } from '../embedded.ts';

/** Reading it starts another program of ClickHouse, which chDB lacks; the read then may never end. */
const startsProgram = 'models';

const folder = mkdtempSync(join(tmpdir(), 'chancery-system-'));
let engine: EmbeddedClickHouse;
let names: readonly string[];

async function run(role: 'reader' | 'writer', statement: string): Promise<string> {
  const connection = engine.connect({ role, readOnly: false });
  try {
    return Buffer.from((await connection.query(statement, 'TabSeparated')).bytes).toString();
  } finally {
    connection.close();
  }
}

describe.skipIf(!hasChdb)('tables of ClickHouse about itself', () => {
  beforeAll(async () => {
    // With the grant, so that they are listed, and so that nothing but the row policies hides their rows.
    engine = await openEmbeddedClickHouse({ folder, access: { databases: ['system'] } });
    const listed = await run('writer', "SELECT name FROM system.tables WHERE database = 'system'");
    names = listed.trim().split('\n');
  });
  afterAll(async () => {
    await engine?.close();
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  });

  test('each is either visible to readers or hidden', () => {
    expect(names.length).toBeGreaterThan(90);
    const known = new Set([...readableSystemTables, ...hiddenSystemTables]);
    expect(names.filter((name) => !known.has(name))).toEqual([]);
    expect(hiddenSystemTables.filter((name) => readableSystemTables.has(name))).toEqual([]);
  });

  test('hidden ones have no rows for readers', { timeout: 60_000 }, async () => {
    for (const name of names.filter((each) => !readableSystemTables.has(each) && each !== startsProgram)) {
      const rows = await run('reader', `SELECT count() FROM (SELECT * FROM system.${name} LIMIT 1)`).catch(exceptionOf);
      if (typeof rows === 'string') expect([name, rows]).toEqual([name, '0\n']);
    }
    const config = usersConfig({ databases: ['system'] });
    expect(config).toContain(`<${startsProgram}><filter>has(currentRoles(), 'writer')</filter></${startsProgram}>`);
    expect(await run('writer', 'SELECT count() > 0 FROM system.processes')).toBe('1\n');
    expect(await run('reader', 'SELECT count() > 1000 FROM system.functions')).toBe('1\n');
  });
});
