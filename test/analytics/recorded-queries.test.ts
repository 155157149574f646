/** Queries of users of the ClickHouse interface are recorded before they run. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Embedded, hasChdb, startEmbedded } from './embedded.ts';

let embedded: Embedded;
/** The promise that recording awaits; rejected when it cannot be done. */
let recording: () => Promise<void> = async () => {};

async function ask(query: string, parameters: Readonly<Record<string, string>> = {}, user = "analyst:wo'nders:é") {
  return fetch(`${embedded.url}/?${new URLSearchParams(parameters)}`, {
    method: 'POST',
    body: query,
    headers: { authorization: `Basic ${Buffer.from(user).toString('base64')}` },
  });
}

describe.skipIf(!hasChdb)('a query on the ClickHouse interface', () => {
  beforeAll(async () => {
    embedded = await startEmbedded({ record: () => recording() });
    const writer = embedded.clientOf('projector');
    await writer.command({ query: 'CREATE DATABASE shop' });
    await writer.command({ query: 'CREATE TABLE shop.items (id UInt32) ENGINE = MergeTree ORDER BY id' });
  });
  beforeEach(() => {
    embedded.recorded.length = 0;
    recording = async () => {};
  });
  afterAll(() => embedded?.close());

  test('is recorded whole, with its user, format and parameters, once', async () => {
    const query = 'SELECT {n: UInt8} /* why */ AS n';
    const answer = await ask(query, { param_n: '7', default_format: 'JSONEachRow' });
    expect(await answer.text()).toBe('{"n":7}\n');
    const url = await ask(' + 1', { query: 'SELECT 1' });
    expect(await url.text()).toBe('2\n');
    expect(embedded.recorded).toEqual([
      { user: 'analyst', query, format: 'JSONEachRow', parameters: { n: '7' } },
      { user: 'analyst', query: 'SELECT 1\n + 1', format: undefined, parameters: {} },
    ]);
  });

  test('is recorded also when it is refused', async () => {
    const queries = ["SELECT file('/etc/passwd')", 'DROP TABLE shop.items', 'SELEKT', 'SELECT nothing'];
    for (const query of queries) expect((await ask(query)).ok).toBe(false);
    expect(embedded.recorded.map(({ query }) => query)).toEqual(queries);
  });

  test('runs after it is recorded, and not before', async () => {
    const started = Promise.withResolvers<void>();
    const held = Promise.withResolvers<void>();
    recording = () => {
      started.resolve();
      return held.promise;
    };
    const answer = ask('SELECT count() FROM shop.items');
    await started.promise;
    await embedded.clientOf('projector').command({ query: 'INSERT INTO shop.items SELECT number FROM numbers(5)' });
    held.resolve();
    expect(await (await answer).text()).toBe('5\n');
  });

  test('is not run when it cannot be recorded', async () => {
    recording = () => Promise.reject(new Error('the disk is full'));
    const answer = await ask("SELECT 'secret'");
    expect([answer.status, answer.headers.get('x-clickhouse-exception-code')]).toEqual([503, '439']);
    const text = await answer.text();
    expect(text).toMatch(/not run, because it could not be recorded in the log: the disk is full/);
    expect(text).not.toContain('secret');
  });

  test('is not recorded a second time when its sender has done so, nor when the projector writes', async () => {
    recording = () => Promise.reject(new Error('not here'));
    expect(await (await ask('SELECT 1', {}, 'gateway:asks')).text()).toBe('1\n');
    expect(await (await ask('SELECT 1', {}, 'projector:writes')).text()).toBe('1\n');
    expect(embedded.recorded).toEqual([]);
  });

  test('is not recorded with a wrong password, nor when it is empty', async () => {
    expect((await ask('SELECT 1', {}, 'analyst:wrong')).status).toBe(403);
    expect((await ask('')).status).not.toBe(200);
    expect(embedded.recorded).toEqual([]);
  });
});
