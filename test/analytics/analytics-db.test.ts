import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  type AnalyticsAddress,
  AnalyticsUnavailable,
  createAnalyticsDb,
  QueryFailed,
} from '../../src/projections/analytics/analytics-db.ts';
import { type Embedded, hasChdb, startEmbedded } from './embedded.ts';

let embedded: Embedded;

describe.skipIf(!hasChdb)('a query of the gateway to analytics', () => {
  beforeAll(async () => {
    embedded = await startEmbedded();
  });
  afterAll(() => embedded?.close());

  const there = (): AnalyticsAddress => ({
    url: embedded.url,
    username: 'gateway',
    password: 'asks',
    database: 'system',
  });

  test('is answered with rows, 64 bits as text, and its database in place of $db', async () => {
    const db = createAnalyticsDb({ address: there });
    const rows = await db.rows('SELECT toInt64({n: Int64}) AS n, count() > 0 AS some FROM $db.one', {
      n: '9007199254740993',
    });
    expect(rows).toEqual([{ n: '9007199254740993', some: 1 }]);
    await db.close();
  });

  test('goes to the current address', async () => {
    let address: AnalyticsAddress | undefined;
    const db = createAnalyticsDb({ address: () => address });
    await expect(db.rows('SELECT 1')).rejects.toThrow(/analytics is off, or has not started yet/);
    address = { ...there(), url: 'http://127.0.0.1:1' };
    await expect(db.rows('SELECT 1')).rejects.toBeInstanceOf(AnalyticsUnavailable);
    address = there();
    expect(await db.rows('SELECT 1 AS one')).toEqual([{ one: 1 }]);
    await db.close();
  });

  test('is refused when it is wrong, and unavailable when it would read too much', async () => {
    const db = createAnalyticsDb({ address: there });
    await expect(db.rows('SELECT nonsense')).rejects.toBeInstanceOf(QueryFailed);
    await expect(db.rows('SELECT count() FROM numbers(100000000000)')).rejects.toBeInstanceOf(AnalyticsUnavailable);
    await db.close();
  });
});
