/** ClickHouse's Java client and JDBC drivers with their default settings, on the embedded ClickHouse. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Embedded, hasChdb, startEmbedded } from '../analytics/embedded.ts';
import { driversForTests } from '../support/java.ts';

const drivers = driversForTests();
const program = join(import.meta.dirname, 'java', 'ClickHouseDrivers.java');
const password = "wo'nders:é";
const run = promisify(execFile);

if ('missing' in drivers) console.log(`tests of Java drivers are skipped: ${drivers.missing}`);

describe.skipIf('missing' in drivers || !hasChdb)("ClickHouse's Java drivers", () => {
  let embedded: Embedded;
  let seen: ReadonlyMap<string, string>;

  beforeAll(async () => {
    embedded = await startEmbedded();
    const writer = embedded.clientOf('projector');
    await writer.command({ query: 'CREATE DATABASE shop' });
    await writer.command({ query: 'CREATE TABLE shop.items (id UInt32, name String) ENGINE = MergeTree ORDER BY id' });
    const values = [
      { id: 1, name: "it's" },
      { id: 2, name: 'ünïcödé' },
    ];
    await writer.insert({ table: 'shop.items', values, format: 'JSONEachRow' });
    const classPath = 'classPath' in drivers ? drivers.classPath : '';
    const env = { ...process.env, CLICKHOUSE_ADDRESS: new URL(embedded.url).host, CLICKHOUSE_PASSWORD: password };
    const { stdout } = await run('java', ['-Dfile.encoding=UTF-8', '-cp', classPath, program], {
      env: { ...env, LC_ALL: 'C.UTF-8' },
      maxBuffer: 16 * 1024 * 1024,
    });
    seen = new Map(
      stdout
        .trim()
        .split('\n')
        .map((line) => line.split('\t') as [string, string]),
    );
  }, 120_000);
  afterAll(() => embedded?.close());

  const rows = "1=it's;2=ünïcödé; 1249975000";

  it.each(['client', 'client without compression', 'client with HTTP compression', 'client in a session'])(
    '%s: reads rows',
    (name) => {
      expect(seen.get(name)).toBe(rows);
    },
  );

  it('the client receives the number of rows when it waits for the end', () => {
    expect(seen.get('client waits for the end')).toBe('7 7');
  });

  it('the client receives the reason of a refused query', () => {
    expect(seen.get('client refused')).toContain('UNKNOWN_TABLE');
  });

  it.each(['jdbc', 'jdbc v1', 'jdbc v1 with compressed requests', 'jdbc v1 waits for the end'])(
    '%s: reads rows and the list of tables, and reports errors',
    (name) => {
      expect(seen.get(name)).toBe(`${rows} items refused`);
    },
  );
});
