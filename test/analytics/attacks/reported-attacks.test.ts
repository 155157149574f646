/** Attacks that were reported from outside, each as it was reported. */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { hasChdb } from '../embedded.ts';
import { type AttackTarget, environmentSecret, startAttackTarget } from './attack-target.ts';
import type { Attempt } from './attempts/attempt.ts';

let attackTarget: AttackTarget;

describe.skipIf(!hasChdb)('reported attacks', () => {
  beforeAll(async () => {
    attackTarget = await startAttackTarget();
  });
  // ClickHouse ends a query whose constants it computes at the time limit of the query at the latest, and closes after it.
  afterAll(() => attackTarget?.close(), 120_000);

  async function refused(attempt: Attempt): Promise<void> {
    const before = await attackTarget.state();
    const contacts = attackTarget.listener.contacts();
    for (const { by, status, text } of await attackTarget.attempt(attempt)) {
      expect({ by, isError: status >= 400, text }).toMatchObject({ by, isError: true });
      expect(text).not.toContain(attackTarget.canary.content);
      expect(text).not.toContain(environmentSecret());
    }
    expect(attackTarget.listener.contacts()).toBe(contacts);
    expect(await attackTarget.state()).toEqual(before);
  }

  describe('functions passed by name', () => {
    test.each([
      (path: string) => `SELECT arrayMap(file, ['${path}'])`,
      (path: string) => `SELECT * APPLY(file) FROM (SELECT '${path}' AS x)`,
      (path: string) => `SELECT arrayMap(\`f\\x69le\`, ['${path}'])`,
      (path: string) => `WITH file AS f SELECT arrayMap(f, ['${path}'])`,
    ])('%s', async (query) => {
      await refused({ query: query(attackTarget.canary.path) });
    });
  });

  describe('comments within comments', () => {
    test.each([
      () => "SELECT file/* /* */ */('/proc/self/environ')",
      () => `SELECT file/* /* */ */('${attackTarget.canary.path}')`,
      () => '/* /* */ SELECT */ SYSTEM STOP MERGES',
      () => '/* /* */ SELECT */ KILL QUERY WHERE 1',
      () => `DESCRIBE TABLE url/* /* */ */('http://${attackTarget.listener.host}/', 'TSV')`,
      () => `SELECT * FROM remote/* /* */ */('${attackTarget.listener.host}', system.one)`,
      () => `SELECT * FROM postgresql/* /* */ */('${attackTarget.listener.host}', 'a', 'b', 'c', 'd')`,
    ])('%s', { timeout: 60_000 }, async (query) => {
      await refused({ query: query() });
    });
  });

  describe('settings that name files', () => {
    test.each([
      ['format_template_row', 'Template', () => attackTarget.canary.path],
      ['format_template_resultset', 'Template', () => attackTarget.canary.path],
      ['format_schema', 'Protobuf', () => `${attackTarget.canary.path}:X`],
      ['output_format_schema', 'Protobuf', () => join(attackTarget.outside, 'written.proto')],
      ['dialect', 'TSV', () => 'kusto'],
    ])('%s', async (setting, format, value) => {
      await refused({ query: `SELECT 1 AS a FORMAT ${format}`, url: { [setting]: value() } });
      await refused({ query: `SELECT 1 AS a FORMAT ${format} SETTINGS ${setting} = '${value()}'` });
    });
  });

  describe('information about files and other users', () => {
    test('EXISTS does not show which files exist', async () => {
      await refused({ query: `EXISTS TABLE default.\`${attackTarget.canary.path}\`` });
      await refused({ query: `DESCRIBE TABLE default.\`${attackTarget.canary.path}\`` });
      await refused({ query: `SELECT * FROM default.\`${attackTarget.canary.path}\`` });
    });

    test('queries of others are not shown', async () => {
      const secret = randomUUID();
      const other = attackTarget.attempt({
        query: `SELECT count() FROM numbers(100000000) WHERE toString(number) = '${secret}'`,
      });
      await expect
        .poll(async () => {
          const running = await attackTarget.embedded.clientOf('projector').query({
            query: `SELECT count() > 1 FROM system.processes WHERE query LIKE '%${secret}%'`,
            format: 'TabSeparated',
          });
          return running.text();
        })
        .toBe('1\n');
      for (const query of [
        'SELECT query FROM system.processes',
        'SHOW PROCESSLIST',
        'SELECT * FROM system.query_log',
      ]) {
        const [byPort] = await attackTarget.attempt({ query, url: {} });
        expect(byPort?.text).not.toContain(secret);
        expect(byPort?.status).toBeGreaterThanOrEqual(400);
      }
      await other;
    });
  });

  describe('queries with long planning', () => {
    test.each([
      ['scalar subqueries', Array.from({ length: 15 }, (_, n) => `(SELECT sleep(2.${n + 10}))`).join(' + ')],
      [
        'constants',
        'length(arrayFold((a, x) -> arrayMap(y -> cityHash64(y), a), range(20000), arrayMap(z -> toUInt64(z), range(1000000))))',
      ],
    ])('others are answered while %s are computed', { timeout: 60_000 }, async (_, computed) => {
      const leaving = new AbortController();
      const query = `SELECT ${computed} AS planned_for_long FORMAT TSV`;
      const slow = fetch(`${attackTarget.embedded.url}`, {
        method: 'POST',
        body: query,
        headers: { 'x-clickhouse-user': 'administrator', 'x-clickhouse-key': 'governs' },
        signal: leaving.signal,
      }).then(
        () => 'answered',
        () => 'left',
      );
      const running = async () => {
        const sql =
          "SELECT count() FROM system.processes WHERE query LIKE '%planned_for_long%' AND query NOT LIKE '%processes%'";
        return (await attackTarget.embedded.clientOf('projector').query({ query: sql, format: 'TabSeparated' })).text();
      };
      await expect.poll(running, { timeout: 20_000 }).toBe('1\n');
      expect(await attackTarget.ping()).toBe('Ok.\n');
      leaving.abort();
      expect(await slow).toBe('left');
    });

    test('a query that grows with its subqueries is refused', { timeout: 60_000 }, async () => {
      const parts = Array.from(
        { length: 30 },
        (_, n) => `a${n + 1} AS (SELECT l.n AS n FROM a${n} AS l CROSS JOIN a${n} AS r)`,
      );
      const query = `WITH a0 AS (SELECT 1 AS n), ${parts.join(', ')} SELECT count() FROM a30`;
      for (const { text } of await attackTarget.attempt({ query })) expect(text).toContain('Maximum: 20000');
    });
  });

  describe('queries with long checks', () => {
    test.each([
      ['96 KiB of file/*', () => `SELECT ${'file/*'.repeat(16 * 1024)}`],
      ['256 KiB of blanks', () => `SELECT 1${' '.repeat(256 * 1024 - 9)})`],
      ['1 MiB of blanks', () => `SELECT 1${' '.repeat(1024 * 1024)})`],
      ['FORMAT again and again', () => `SELECT 1 ${'FORMAT a SETTINGS '.repeat(10_000)}`],
    ])('%s delays no other query', { timeout: 60_000 }, async (_, query) => {
      const before = process.cpuUsage();
      await refused({ query: query() });
      const { user, system } = process.cpuUsage(before);
      expect((user + system) / 1000, 'ms of processor').toBeLessThan(1500);
      expect(await attackTarget.ping()).toBe('Ok.\n');
    });
  });
});
