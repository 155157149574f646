/** Queries of one user that take all the memory they may have, beside the writer and the queries of another user. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { analystLimits, attemptsOf, gatewayLimits } from '../../../src/http/clickhouse/users.ts';
import { type Embedded, hasChdb, startEmbedded } from '../embedded.ts';

const MIB = 1024 * 1024;
let embedded: Embedded;

/** The answer to a query of the user of `POST /admin/sql`, or ClickHouse's error. */
async function ask(query: string, settings: Readonly<Record<string, string>> = {}): Promise<string> {
  const answer = await fetch(`${embedded.url}/?${new URLSearchParams(settings)}`, {
    method: 'POST',
    body: query,
    headers: { 'x-clickhouse-user': 'administrator', 'x-clickhouse-key': 'governs' },
  });
  return (await answer.text()).trim();
}

/** Needs more than any query may have. */
const hungry = "SELECT length(groupArray(repeat('a', 1000))) FROM numbers(5000000)";
/** Needs between 100 and 300 MiB. */
const large = 'SELECT length(groupArray(number)) FROM numbers(8000000)';

describe.skipIf(!hasChdb)('queries that take too much memory', () => {
  beforeAll(async () => {
    embedded = await startEmbedded();
    const writer = embedded.clientOf('projector');
    await writer.command({ query: 'CREATE DATABASE chancery' });
    await writer.command({
      query: 'CREATE TABLE chancery.items (id UInt32, name String) ENGINE = MergeTree ORDER BY id',
    });
  });
  afterAll(() => embedded?.close());

  test('cannot meet the limit of the engine: all that may run at once fit in it', async () => {
    const settings = "SELECT value FROM system.server_settings WHERE name = 'max_server_memory_usage'";
    const result = await embedded.clientOf('projector').query({ query: settings, format: 'TabSeparated' });
    const engineBytes = Number(await result.text());
    const groups = [analystLimits, gatewayLimits].map((limits) => {
      const [small] = attemptsOf(limits, new Map());
      const { quick, slow } = limits.turns;
      return (quick + slow) * Number(small?.settings.get('max_memory_usage')) + limits.memoryBytes;
    });
    expect(engineBytes).toBeGreaterThan(groups.reduce((sum, bytes) => sum + bytes) + 256 * MIB);
  });

  test('fail alone: the writer and other users go on', { timeout: 120_000 }, async () => {
    const writer = embedded.clientOf('projector');
    const gateway = embedded.clientOf('gateway');
    let attacking = true;
    const attackers = Array.from({ length: 6 }, () => ask(hungry));
    const others = (async () => {
      let rounds = 0;
      for (; attacking || rounds < 3; rounds++) {
        await writer.command({
          query: "INSERT INTO chancery.items SELECT number, repeat('x', 100) FROM numbers(100000)",
        });
        await gateway.query({ query: 'SELECT length(groupArray(number)) FROM numbers(4000000)', format: 'JSON' });
      }
      return rounds;
    })();
    const answers = await Promise.all(attackers);
    attacking = false;
    expect(await others).toBeGreaterThanOrEqual(3);
    // Each exceeded its own limit, none the limit of the engine, which all queries share.
    for (const error of answers) expect(error).toMatch(/Query memory limit exceeded: .* maximum: 300\.00 MiB/);
  });

  test('a large query that is alone has all the memory of one', async () => {
    expect(await ask(large)).toBe('8000000');
    expect(await ask(large, { max_memory_usage: String(analystLimits.memoryBytes) })).toBe('8000000');
    expect(await ask(`${large} SETTINGS max_memory_usage = ${analystLimits.memoryBytes}`)).toBe('8000000');
    expect(await ask(large, { max_memory_usage: String(64 * MIB) })).toMatch(/maximum: 64\.00 MiB/);
  });
});
