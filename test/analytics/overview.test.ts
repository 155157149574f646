/** `GET /admin/overview` against a fold of the log in plain TypeScript. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parsePosition } from '../../src/events/event.ts';
import type { EventLog } from '../../src/events/log.ts';
import { openLog } from '../../src/events/open-log.ts';
import { createBatchStore } from '../../src/projections/analytics/batch-store.ts';
import { type Projector, startProjector } from '../../src/projections/analytics/projector.ts';
import type { Answered } from '../support/answered.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { plausibleKeys, writePlausibleHistory } from '../support/plausible-history.ts';
import { errorOf, json, modelsListed } from '../support/with-gateway.ts';
import { type Embedded, hasChdb, startEmbedded } from './embedded.ts';
import { type RequestFacts, requestsOfLog } from './requests-of-log.ts';
import { breakdownOf, type Used, usedOf } from './usage-fold.ts';

const DAY_MS = 86_400_000;
const dataDir = mkdtempSync(join(tmpdir(), 'chancery-overview-'));
const logUrl = `file:${join(dataDir, 'log')}`;
/** The history ends yesterday, so that it stays apart from the requests of these tests. */
const until = Math.floor(Date.now() / DAY_MS) * DAY_MS;
const dayText = (at: number) => new Date(at).toISOString().slice(0, 10);
const range = { start_date: dayText(until - 14 * DAY_MS), end_date: dayText(until - DAY_MS) };

let embedded: Embedded;
let gateway: TestGateway;
let projector: Projector;
let log: EventLog;
let requests: readonly RequestFacts[];
let used: readonly Used[];
let status: { health: 'ok' | 'behind'; lagEvents: number; lagMs: number };

describe.skipIf(!hasChdb)('GET /admin/overview', { timeout: 60_000 }, () => {
  beforeAll(async () => {
    const written = await openLog(logUrl);
    await writePlausibleHistory(written, { exchanges: 4000, until, days: 40, recent: 0.7 });
    requests = await requestsOfLog(written);
    used = await usedOf(written);
    await written.close();
    embedded = await startEmbedded();
    const address = () => ({ url: embedded.url, username: 'gateway', password: 'asks', database: 'chancery' });
    status = { health: 'ok', lagEvents: 0, lagMs: 0 };
    gateway = await startTestGateway({ dataDir, analytics: { address, status: () => status } });
    await modelsListed(gateway);
    log = await openLog(logUrl, { readOnly: true });
    const store = createBatchStore(embedded.clientOf('projector'), 'chancery');
    projector = startProjector({ log, store, retention: { audit: 0, usage: 0 }, liveMs: 1 });
    await projector.whenStored(parsePosition(await log.head()));
  }, 60_000);
  afterAll(async () => {
    await projector?.close();
    await log?.close();
    await gateway?.close();
    await embedded?.close();
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
  });

  test.each(['end_date=1969-12-31', 'end_date=0031-01-01', 'to=0001-01-01T00:00:00Z', 'to=1970-01-05T00:00:00Z'])(
    'is empty for a range that begins before 1970: %s',
    async (query) => {
      const answer = await gateway.fetch(`/admin/overview?${query}`);
      expect(answer.status).toBe(200);
      expect((await json(answer)).summary.requests).toBe(0);
    },
  );

  async function overview(query: Readonly<Record<string, string>> = range, headers = {}): Promise<Answered> {
    const answer = await gateway.fetch(`/admin/overview?${new URLSearchParams(query)}`, { headers });
    expect(answer.status).toBe(200);
    return json(answer);
  }

  const within = <One extends { readonly at: number }>(all: readonly One[], from: number, to: number) =>
    all.filter(({ at }) => at >= from && at < to);
  const isOk = ({ status: code }: RequestFacts) => code >= 200 && code < 300;

  /** The figures of some requests, without percentiles. */
  function countersOf(some: readonly RequestFacts[]) {
    const of = (hundred: number) => some.filter(({ status: code }) => Math.floor(code / 100) === hundred).length;
    const known = of(2) + of(4) + of(5);
    return {
      requests: some.length,
      status_2xx: of(2),
      status_4xx: of(4),
      status_5xx: of(5),
      status_other: some.length - known,
    };
  }

  function usageFigures(some: readonly Used[]) {
    const of = breakdownOf(some, 'uncached');
    const { input_tokens, output_tokens, total_tokens, cached_input_tokens, saved_cost, unpriced_requests } = of;
    const hits = (kind: string) => some.filter(({ cacheType }) => cacheType === kind).length;
    return {
      ...{ input_tokens, output_tokens, total_tokens, cached_input_tokens, saved_cost, unpriced_requests },
      // Answers from the cache alone cost nothing, which is known.
      total_cost: breakdownOf(some, 'all').total_cost,
      cache_hits_exact: hits('exact'),
      cache_hits_semantic: hits('semantic'),
    };
  }

  /** Whether it is the value at this part of the sorted values, within 0.8 % and one place. */
  function expectPercentile(value: number, values: readonly number[], part: number) {
    const sorted = values.toSorted((one, other) => one - other);
    const place = part * (sorted.length - 1);
    expect(value).toBeGreaterThanOrEqual((sorted[Math.floor(place) - 1] ?? sorted[0] ?? 0) * 0.992);
    expect(value).toBeLessThanOrEqual((sorted[Math.ceil(place) + 1] ?? sorted.at(-1) ?? 0) * 1.008);
  }

  test('sums the range and the range before it, in total and by day', async () => {
    const answer = await overview();
    const from = until - 14 * DAY_MS;
    expect(answer).toMatchObject({
      from: new Date(from).toISOString(),
      to: new Date(until).toISOString(),
      time_zone: 'UTC',
      interval: 'P1D',
      previous: { from: new Date(from - 14 * DAY_MS).toISOString(), to: new Date(from).toISOString() },
      analytics: { state: 'ok', lag_events: 0, lag_seconds: 0 },
    });
    const periods = [
      [answer.summary, from, until],
      [answer.previous_summary, from - 14 * DAY_MS, from],
    ] as const;
    for (const [summary, first, last] of periods) {
      const some = within(requests, first, last);
      expect(some.length).toBeGreaterThan(100);
      expect(summary).toMatchObject({ ...countersOf(some), ...usageFigures(within(used, first, last)) });
      expect(summary.success_rate).toBeCloseTo(some.filter(isOk).length / some.length, 10);
      const durations = some.filter(isOk).map(({ durationMs }) => durationMs);
      expectPercentile(summary.p50_ms, durations, 0.5);
      expectPercentile(summary.p95_ms, durations, 0.95);
      expect(summary.first_byte_p50_ms).toBeLessThan(summary.p50_ms);
    }
    expect(answer.buckets).toHaveLength(14);
    for (const [place, bucket] of answer.buckets.entries()) {
      const start = from + place * DAY_MS;
      expect(bucket.start).toBe(new Date(start).toISOString());
      const some = within(requests, start, start + DAY_MS);
      expect(bucket).toMatchObject({ ...countersOf(some), ...usageFigures(within(used, start, start + DAY_MS)) });
      const durations = some.filter(isOk).map(({ durationMs }) => durationMs);
      expectPercentile(bucket.p95_ms, durations, 0.95);
    }
  });

  test('has the durations of each provider by bucket, with null where it answered nothing', async () => {
    const day = dayText(until - DAY_MS);
    const { interval, buckets, provider_latency: latency } = await overview({ start_date: day, end_date: day });
    expect(interval).toBe('PT30M');
    expect(buckets).toHaveLength(48);
    let gaps = 0;
    for (const { provider, requests: counts, p50_ms, p95_ms } of latency) {
      for (const [place, count] of counts.entries()) {
        const start = until - DAY_MS + place * 1_800_000;
        const answered = within(requests, start, start + 1_800_000).filter(
          (one) => one.provider === provider && isOk(one) && one.attempts > 0,
        );
        expect(count).toBe(answered.length);
        if (count === 0) {
          gaps += 1;
          expect([p50_ms[place], p95_ms[place]]).toEqual([null, null]);
        } else
          expectPercentile(
            p50_ms[place],
            answered.map(({ durationMs }) => durationMs),
            0.5,
          );
      }
    }
    expect(latency.map(({ provider }: Answered) => provider)).toContain('openai');
    expect(gaps).toBeGreaterThan(0);
  });

  test('ranks user paths, keys and models by their requests, with their usage', async () => {
    const { user_paths, keys, models } = await overview();
    const from = until - 14 * DAY_MS;
    const some = within(requests, from, until);
    const usedThen = within(used, from, until);
    const counts = (of: (one: RequestFacts) => string) =>
      [...Map.groupBy(some, of)].sort((one, other) => other[1].length - one[1].length).map(([, all]) => all.length);
    const paths = counts(({ userPath }) => userPath || '/');
    expect(user_paths.map(({ requests: count }: Answered) => count)).toEqual(paths.slice(0, 10));
    for (const row of user_paths) {
      const own = some.filter(({ userPath }) => (userPath || '/') === row.user_path);
      const figures = breakdownOf(
        usedThen.filter(({ userPath }) => (userPath || '/') === row.user_path),
        'uncached',
      );
      expect(row).toMatchObject({
        requests: own.length,
        errors: own.filter((one) => !isOk(one)).length,
        total_tokens: figures.total_tokens,
        total_cost: figures.total_cost,
        cache_hits: figures.cache_hits,
        saved_cost: figures.saved_cost,
      });
    }
    const nameOf = (id: string) => plausibleKeys.find((key) => key.id === id)?.name;
    expect(keys).toHaveLength(10);
    for (const { auth_key_id: id, name } of keys) expect(name).toBe(id === null ? undefined : nameOf(id));
    for (const row of models) {
      const figures = breakdownOf(
        usedThen.filter(({ model, provider }) => model === row.model && provider === row.provider_name),
        'uncached',
      );
      expect(row).toMatchObject({ total_tokens: figures.total_tokens, total_cost: figures.total_cost });
    }
    const unpriced = models.find(({ provider_name }: Answered) => provider_name === 'llamacpp');
    expect(unpriced).toMatchObject({ total_cost: null });
  });

  test('shows an administrator of a subtree only that subtree', async () => {
    const key = plausibleKeys.find(({ userPath }) => userPath === '/sales');
    const headers = { authorization: `Bearer ${key?.value}` };
    const answer = await overview(range, headers);
    const isOwn = ({ userPath }: { readonly userPath: string }) => `${userPath}/`.startsWith('/sales/');
    const from = until - 14 * DAY_MS;
    expect(answer.summary).toMatchObject(countersOf(within(requests, from, until).filter(isOwn)));
    expect(answer.summary).toMatchObject(usageFigures(within(used, from, until).filter(isOwn)));
    expect(answer.user_paths.length).toBeGreaterThan(1);
    for (const { user_path } of answer.user_paths) expect(`${user_path}/`).toMatch(/^\/sales\//);
    for (const { name } of answer.keys) expect(name).toMatch(/^sales/);
    const north = await overview({ ...range, user_path: '/sales/north' }, headers);
    expect(north.summary.requests).toBeLessThan(answer.summary.requests);
    const refused = await gateway.fetch('/admin/overview?user_path=/research', { headers });
    expect((await errorOf(refused, 403)).code).toBe('user_path_out_of_scope');
  });

  test('days begin in the time zone of the request', async () => {
    const { buckets, time_zone } = await overview(range, { 'x-gateway-timezone': 'Asia/Tokyo' });
    expect(time_zone).toBe('Asia/Tokyo');
    for (const { start } of buckets) expect(start).toMatch(/T15:00:00/);
  });

  test.each([
    ['PT1M', 60_000, 60],
    ['PT5M', 300_000, 72],
    ['PT3H', 10_800_000, 56],
  ])('a range between instants has buckets of %s, each with its usage', async (interval, length, count) => {
    const from = until - DAY_MS - count * length;
    const to = until - DAY_MS;
    const query = { from: new Date(from).toISOString(), to: new Date(to).toISOString() };
    const answer = await overview(query);
    expect(answer).toMatchObject({ ...query, interval, previous: { from: new Date(2 * from - to).toISOString() } });
    expect(answer.buckets).toHaveLength(count);
    for (const { start, ...bucket } of answer.buckets) {
      const at = Date.parse(start);
      expect(bucket).toMatchObject({
        ...countersOf(within(requests, at, at + length)),
        ...usageFigures(within(used, at, at + length)),
      });
    }
    expect(answer.previous_summary).toMatchObject(countersOf(within(requests, 2 * from - to, from)));
  });

  test('refuses invalid parameters, and reports how late analytics is', async () => {
    for (const [query, param] of [
      ['start_date=x', 'start_date'],
      ['user_path=/a/../b', 'user_path'],
    ] as const) {
      expect((await errorOf(await gateway.fetch(`/admin/overview?${query}`), 400)).param).toBe(param);
    }
    status = { health: 'behind', lagEvents: 1200, lagMs: 61_500 };
    expect((await overview()).analytics).toEqual({ state: 'behind', lag_events: 1200, lag_seconds: 61.5 });
    status = { health: 'ok', lagEvents: 0, lagMs: 0 };
  });

  test('a range without requests has zeros, and no percentiles', async () => {
    const answer = await overview({ start_date: '2001-01-01', end_date: '2001-01-20' });
    expect(answer.summary).toMatchObject({ requests: 0, success_rate: null, p50_ms: null, total_cost: null });
    expect(answer.buckets).toHaveLength(20);
    expect(answer.buckets[0]).toMatchObject({ requests: 0, p95_ms: null, cache_hits_exact: 0, saved_cost: 0 });
    expect([answer.provider_latency, answer.user_paths, answer.keys, answer.models]).toEqual([[], [], [], []]);
  });
});
