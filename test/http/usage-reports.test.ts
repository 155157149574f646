/** The usage reports over REST, against a fold of the log in plain TypeScript. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parsePosition, type UserPath } from '../../src/events/event.ts';
import { openLog } from '../../src/events/open-log.ts';
import { overviewOf } from '../../src/http/admin/reports/cache.ts';
import { createAnalyticsDb } from '../../src/projections/analytics/analytics-db.ts';
import { createBatchStore } from '../../src/projections/analytics/batch-store.ts';
import { usageByTime } from '../../src/projections/analytics/overview-queries.ts';
import { type Projector, startProjector } from '../../src/projections/analytics/projector.ts';
import {
  cacheByDay,
  usageByDay,
  usageByModel,
  usageByUserPath,
  usageTotals,
} from '../../src/projections/analytics/usage-queries.ts';
import { type Embedded, hasChdb, startEmbedded } from '../analytics/embedded.ts';
import { writeHistory } from '../analytics/generated-history.ts';
import { figuresOfLog } from '../analytics/log-figures.ts';
import { requestsOfLog } from '../analytics/requests-of-log.ts';
import { figuresInSql } from '../analytics/sql-figures.ts';
import {
  breakdownOf,
  figuresOf,
  inMode,
  localDay,
  matching,
  summaryOf,
  type UsageFilterCase,
  type Used,
  usedOf,
} from '../analytics/usage-fold.ts';
import type { Answered } from '../support/answered.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { countOf } from '../support/seed.ts';
import { errorOf, eventsOfExchange, exchangeOf, json, modelsListed, user } from '../support/with-gateway.ts';

const DAY_MS = 86_400_000;
const DAYS = 45;
/** Set it to more by hand: `HISTORY_EXCHANGES=100000`. */
const EXCHANGES = Number(process.env['HISTORY_EXCHANGES'] ?? 900);
/** Allows a test this much more time. */
const patience = (ms: number) => ({ timeout: ms + EXCHANGES * 6 });
const database = 'chancery';
const began = Date.now() - DAYS * DAY_MS;
const dataDir = mkdtempSync(join(tmpdir(), 'chancery-usage-'));
const logUrl = `file:${join(dataDir, 'log')}`;

let embedded: Embedded;
let gateway: TestGateway;
let projector: Projector;
let log: Awaited<ReturnType<typeof openLog>>;
let used: Used[];
let isReachable = true;

beforeAll(async () => {
  if (!hasChdb) return;
  const written = await openLog(logUrl);
  // Up to two days ago, so that it stays apart from the requests of these tests.
  await writeHistory(written, {
    exchanges: EXCHANGES,
    seed: 5,
    from: began,
    everyMs: ((DAYS - 2) * DAY_MS) / EXCHANGES,
    refusals: true,
  });
  used = await usedOf(written);
  await written.close();
  embedded = await startEmbedded();
  const address = () => ({
    url: isReachable ? embedded.url : 'http://127.0.0.1:1',
    username: 'gateway',
    password: 'asks',
    database,
  });
  const analytics = { address, status: () => ({ health: 'ok' as const, lagEvents: 0 }) };
  gateway = await startTestGateway({ dataDir, analytics });
  await modelsListed(gateway, 1, patience(12_000).timeout);
  log = await openLog(logUrl, { readOnly: true });
  const store = createBatchStore(embedded.clientOf('projector'), database);
  projector = startProjector({ log, store, retention: { audit: 0, usage: 0 }, liveMs: 1 });
  await projector.whenStored(parsePosition(await log.head()));
}, patience(60_000).timeout);

afterAll(async () => {
  await projector?.close();
  await log?.close();
  await gateway?.close();
  await embedded?.close();
  rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
});

async function report(path: string, query: Readonly<Record<string, string | undefined>> = {}, headers = {}) {
  const given = Object.entries(query).filter((pair): pair is [string, string] => pair[1] !== undefined);
  const answer = await gateway.fetch(`/admin/usage/${path}?${new URLSearchParams(given)}`, { headers });
  expect({ status: answer.status, path }).toEqual({ status: 200, path });
  return json(answer);
}

/** The figures of the log and of the tables while nothing was appended: the gateway itself appends counts of requests. */
async function figuresOfOneMoment() {
  const client = embedded.clientOf('gateway');
  for (;;) {
    const head = await log.head();
    await projector.whenStored(parsePosition(head));
    const figures = await figuresOfLog(log);
    const inEvents = await figuresInSql(client, database);
    const inQuarterHours = await figuresInSql(client, database, 'usage_by_quarter_hour');
    if ((await log.head()) === head) return { figures, inEvents, inQuarterHours };
  }
}

function queryFor({ first, last, userPath, model, provider, label, session }: UsageFilterCase) {
  const of = { user_path: userPath, model, provider, label, session_id: session };
  return { start_date: first, end_date: last, ...of };
}

/** Sorted by name: reports are ordered by what was used. */
function byName(rows: Answered, name: (row: Answered) => string): Record<string, unknown> {
  return Object.fromEntries(rows.map((row: Answered) => [name(row), row]));
}

const requestsOf = (some: readonly Used[]) => figuresOf(some).requests;

const zones = ['UTC', 'Europe/Berlin', 'America/St_Johns', 'Asia/Kathmandu', 'Pacific/Kiritimati', 'America/New_York'];
const maybe = (...words: string[]) => fc.option(fc.constantFrom(...words), { nil: undefined, freq: 2 });
const requested = fc
  .record({
    timeZone: fc.constantFrom(...zones),
    from: fc.integer({ min: 0, max: DAYS }),
    days: fc.integer({ min: 0, max: DAYS }),
    userPath: maybe('/', '/sales', '/sales/north', '/research', '/nobody'),
    model: maybe('gpt-4o', 'tiny'),
    provider: maybe('openai', 'claude', 'anthropic'),
    label: maybe('team-1', "it's"),
    session: maybe('session-3'),
    mode: fc.constantFrom('uncached', 'cached', 'all'),
  })
  .map(({ from, days, ...rest }) => ({
    ...rest,
    first: localDay(began + from * DAY_MS, rest.timeZone),
    last: localDay(Math.min(began + (from + days) * DAY_MS, began + (DAYS - 2) * DAY_MS + DAY_MS), rest.timeZone),
  }))
  .filter(({ first, last }) => first <= last);

describe.skipIf(!hasChdb)('usage reports', () => {
  const allOfIt = { start_date: localDay(began - DAY_MS, 'UTC'), end_date: localDay(Date.now() - DAY_MS, 'UTC') };

  test('agree with the log for any query, in every time zone', patience(120_000), async () => {
    await fc.assert(
      fc.asyncProperty(requested, async ({ mode, ...of }) => {
        const query = { ...queryFor(of), cache_mode: mode };
        const headers = { 'x-gateway-timezone': of.timeZone };
        const match = matching(used, of);
        const counted = inMode(match, mode);
        expect(await report('summary', query, headers)).toEqual(summaryOf(counted));
        const periods = { daily: 10, monthly: 7, yearly: 4 };
        for (const [interval, length] of Object.entries(periods)) {
          // Days of which every answer is of the other mode are left out.
          const days = new Set(counted.map(({ at }) => localDay(at, of.timeZone)));
          const inDays = match.filter(({ at }) => days.has(localDay(at, of.timeZone)));
          const grouped = Map.groupBy(inDays, ({ at }) => localDay(at, of.timeZone).slice(0, length));
          const rows = [...grouped].map(([date, some]) => ({ date, ...breakdownOf(some, mode) }));
          rows.sort((one, other) => (one.date < other.date ? -1 : 1));
          expect(await report('daily', { ...query, interval }, headers)).toEqual(rows);
        }
        const models = byName(await report('models', query, headers), (row) => `${row.provider_name}/${row.model}`);
        expect(models).toEqual(
          Object.fromEntries(
            [...Map.groupBy(match, ({ provider, model }) => `${provider}/${model}`)].map(([name, some]) => {
              const { model, provider, providerType } = some[0] as Used;
              const named = { model, provider: providerType, provider_name: provider };
              return [name, { ...named, ...breakdownOf(some, mode) }];
            }),
          ),
        );
        const paths = byName(await report('user-paths', query, headers), (row) => row.user_path);
        expect(paths).toEqual(
          Object.fromEntries(
            [...Map.groupBy(match, ({ userPath }) => userPath || '/')].map(([user_path, some]) => [
              user_path,
              { user_path, ...breakdownOf(some, mode) },
            ]),
          ),
        );
        const keys = byName(await report('keys', query, headers), (row) => row.auth_key_id ?? row.caller);
        expect(keys).toEqual(
          Object.fromEntries(
            [...Map.groupBy(match, ({ keyId }) => keyId || 'master')].map(([name, some]) => {
              const caller = name === 'master' ? 'master' : 'key';
              const named = { caller, auth_key_id: name === 'master' ? null : name, name: null };
              return [name, { ...named, ...breakdownOf(some, mode) }];
            }),
          ),
        );
        const labels = byName(await report('labels', query, headers), (row) => row.label);
        expect(labels).toEqual(
          Object.fromEntries(
            [...new Set(match.flatMap((one) => one.labels))].map((label) => [
              label,
              {
                label,
                ...breakdownOf(
                  match.filter((one) => one.labels.includes(label)),
                  mode,
                ),
              },
            ]),
          ),
        );
      }),
      { numRuns: EXCHANGES > 10_000 ? 3 : countOf(4, 25) },
    );
  });

  test('agree with the tables in SQL, and with the audit statistics over REST', patience(30_000), async () => {
    const { figures, inEvents, inQuarterHours } = await figuresOfOneMoment();
    expect(inEvents).toEqual(figures);
    expect(inQuarterHours).toEqual(figures);
    const counted = { start_date: allOfIt.start_date, end_date: allOfIt.end_date };
    const answer = await gateway.fetch(`/admin/audit/stats?${new URLSearchParams(counted)}`);
    const requests = (await requestsOfLog(log)).filter(({ at }) => localDay(at, 'UTC') <= allOfIt.end_date);
    const count = (some: typeof requests) => some.reduce((sum, one) => sum + one.requests, 0);
    const of = (hundred: number) => count(requests.filter(({ status }) => Math.floor(status / 100) === hundred));
    const { summary } = await json(answer);
    expect(count(requests)).toBeGreaterThan(requests.length);
    expect(summary).toMatchObject({
      requests: count(requests),
      status_2xx: of(2),
      status_4xx: of(4),
      status_5xx: of(5),
      status_other: count(requests) - of(2) - of(4) - of(5),
    });
    const took = requests.reduce((sum, { durationMs, requests: n }) => sum + durationMs * n, 0) / count(requests);
    expect(summary.avg_duration_ms).toBeCloseTo(took, 6);
  });

  test('count weeks from Monday, by the year of their Thursday', async () => {
    const weeks = await report('daily', { ...allOfIt, interval: 'weekly', cache_mode: 'all' });
    expect(weeks.length).toBeGreaterThan(5);
    const requests = weeks.reduce((total: number, week: Answered) => total + week.requests, 0);
    expect(requests).toBe(requestsOf(used));
    for (const { date } of weeks) expect(date).toMatch(/^\d{4}-W\d{2}$/);
  });

  test('return whole sessions, the last used first, at their costs without cached answers', async () => {
    const sessions = Map.groupBy(
      used.filter(({ sessionId }) => sessionId !== ''),
      ({ sessionId, userPath }) => `${sessionId} ${userPath || '/'}`,
    );
    const latest = (some: readonly Used[]) => Math.max(...some.map(({ at }) => at));
    const wanted = [...sessions.values()]
      .sort((one, other) => latest(other) - latest(one))
      .map((some) => ({
        session_id: some[0]?.sessionId,
        user_path: some[0]?.userPath || '/',
        ...breakdownOf(some, 'all'),
      }));
    const page = await report('sessions', { ...allOfIt, limit: '500' });
    expect(page).toMatchObject({ total: wanted.length, limit: 200, offset: 0 });
    expect(page.entries).toEqual(wanted.slice(0, 200));
    const second = await report('sessions', { ...allOfIt, limit: '3', offset: '4' });
    expect(second).toEqual({ entries: wanted.slice(4, 7), total: wanted.length, limit: 3, offset: 4 });
  });

  test('list each request once, newest first, at the latest known cost', patience(30_000), async () => {
    const entries: Answered[] = [];
    for (let offset = 0; ; offset += 200) {
      const page = await report('log', { ...allOfIt, cache_mode: 'all', limit: '200', offset: String(offset) });
      expect(page).toMatchObject({ total: used.length, limit: 200, offset });
      entries.push(...page.entries);
      if (page.entries.length < 200) break;
    }
    const usd = (nano: bigint | null) => (nano === null ? null : Number(nano) / 1e9);
    expect(entries).toMatchObject(
      used
        .toSorted((one, other) => other.at - one.at)
        .map((one) => ({
          id: one.id,
          request_id: one.requestId,
          timestamp: new Date(Math.floor(one.at)).toISOString(),
          model: one.model,
          provider: one.providerType,
          provider_name: one.provider,
          user_path: one.userPath || '/',
          input_tokens: one.known ? one.input : null,
          output_tokens: one.known ? one.output : null,
          cached_input_tokens: one.known ? one.cached : null,
          input_cost: usd(one.costs.input),
          output_cost: usd(one.costs.output),
          total_cost: usd(one.costs.total),
        })),
    );
    const some = used.find(({ requestId }) => requestId === 'request-77') ?? used[0];
    const found = await report('log', { ...allOfIt, cache_mode: 'all', search: some?.requestId.toUpperCase() });
    expect(found.entries.map(({ request_id }: Answered) => request_id)).toContain(some?.requestId);
  });

  test('count the requests between two instants, to the millisecond', async () => {
    const [first, last] = [used[100], used[300]];
    if (first === undefined || last === undefined) throw new Error('the history is too short');
    const [from, to] = [first, last].map(({ at }) => new Date(Math.ceil(at)).toISOString()) as [string, string];
    const between = used.filter(({ at }) => at >= Date.parse(from) && at < Date.parse(to));
    const query = { from, to, cache_mode: 'all' };
    expect(await report('summary', query)).toEqual(summaryOf(between));
    const models = await report('models', query);
    expect(models.reduce((sum: number, { requests }: Answered) => sum + requests, 0)).toBe(requestsOf(between));
    const answer = await gateway.fetch(`/admin/usage/summary?from=${from}&start_date=2026-01-01`);
    expect((await errorOf(answer, 400)).param).toBe('from');
  });

  test('refuse invalid parameters', async () => {
    const refused = async (query: string, param: string) => {
      const error = await errorOf(await gateway.fetch(`/admin/usage/${query}`), 400);
      expect({ query, param: error.param }).toEqual({ query, param });
    };
    await refused('summary?start_date=2026-02-30', 'start_date');
    await refused('daily?end_date=yesterday', 'end_date');
    await refused('models?start_date=2026-02-02&end_date=2026-02-01', 'start_date');
    await refused('models?start_date=1900-01-01', 'start_date');
    await refused('labels?cache_mode=some', 'cache_mode');
    await refused('user-paths?user_path=/a/../b', 'user_path');
    await refused('log?limit=201', 'limit');
    await refused('log?limit=0', 'limit');
    await refused('log?offset=-1', 'offset');
    await refused('sessions?limit=ten', 'limit');
    for (const days of ['abc', '0', '-1', '1.5', '-3', '1e2']) await refused(`daily?days=${days}`, 'days');
    await refused('daily?interval=hourly', 'interval');
    await refused('throughput', 'granularity');
    await refused('throughput?granularity=week', 'granularity');
    await refused(`log?search=${'a'.repeat(1025)}`, 'search');
  });

  test('dates win over days', async () => {
    const usual = await report('daily');
    for (const query of [{ days: '30' }, { days: '' }, { interval: 'daily' }, { interval: '' }]) {
      expect(await report('daily', query)).toEqual(usual);
    }
    expect(await report('summary', { ...allOfIt, days: '1' })).toEqual(await report('summary', allOfIt));
    expect(await report('summary', { days: '999999' })).toMatchObject({
      total_requests: requestsOf(inMode(used, 'uncached')),
    });
    expect(await report('summary', allOfIt, { 'x-gateway-timezone': 'Mars/Base' })).toEqual(
      await report('summary', allOfIt),
    );
    expect(await report('summary', { start_date: '0001-01-01', end_date: '0002-01-01' })).toMatchObject({
      total_requests: 0,
      total_cost: null,
    });
    expect(await report('summary', { start_date: '9990-01-01', end_date: '9999-12-31' })).toMatchObject({
      total_requests: 0,
    });
  });

  test('are answered from the sums that ClickHouse keeps', async () => {
    const db = createAnalyticsDb({
      address: () => ({ url: embedded.url, username: 'gateway', password: 'asks', database }),
    });
    const quarterHour = (at: number) => Math.floor(at / 900_000) * 900_000;
    const times = { from: quarterHour(began), until: quarterHour(Date.now()) };
    const filter = { ...times, subtree: '/sales' as UserPath, model: 'tiny', provider: 'local' };
    for (const { sql, parameters } of [
      usageTotals(filter, 'all'),
      usageByDay(filter, 'uncached', 'Europe/Berlin'),
      usageByModel(filter, 'cached'),
      usageByUserPath(filter, 'uncached'),
      cacheByDay(filter, 'UTC'),
      usageByTime({
        ...times,
        before: times.from - 900_000,
        starts: [times.from / 1000],
        subtree: '/sales' as UserPath,
      }),
    ]) {
      const plan = await db.rows<{ explain: string }>(`EXPLAIN ${sql}`, parameters);
      expect(plan.map(({ explain }) => explain).join('\n')).toContain('ReadFromMergeTree (sums_by_quarter_hour)');
    }
    await db.close();
  });

  test('never paste parameters into SQL', async () => {
    const hostile = `' OR 1=1 -- {x: String} \\`;
    for (const name of ['model', 'provider', 'label', 'session_id']) {
      expect(await report('summary', { ...allOfIt, [name]: hostile })).toMatchObject({ total_requests: 0 });
    }
    expect(await report('log', { ...allOfIt, search: '%' })).toMatchObject({ total: 0 });
  });

  test('give an administrator of a subtree the figures of that subtree alone', async () => {
    const made = await json(
      await gateway.fetch('/admin/auth-keys', {
        json: { name: 'sales', user_path: '/sales', dashboard_access: true },
      }),
    );
    const headers = { authorization: `Bearer ${made.value}`, 'x-gateway-user-path': '/research' };
    const own = used.filter(({ userPath }) => userPath === '/sales' || userPath.startsWith('/sales/'));
    expect(await report('summary', { ...allOfIt, cache_mode: 'all' }, headers)).toEqual(summaryOf(own));
    const paths = await report('user-paths', allOfIt, headers);
    expect(paths.map((row: Answered) => row.user_path).sort()).toEqual(['/sales', '/sales/north']);
    expect(await report('log', { ...allOfIt, cache_mode: 'all' }, headers)).toMatchObject({ total: own.length });
    const north = { ...allOfIt, user_path: 'sales//north/', cache_mode: 'all' };
    expect(await report('summary', north, headers)).toEqual(
      summaryOf(own.filter(({ userPath }) => userPath === '/sales/north')),
    );
    for (const path of ['/', '/research', '/sales2']) {
      const answer = await gateway.fetch(`/admin/usage/sessions?user_path=${path}`, { headers });
      expect((await errorOf(answer, 403)).code).toBe('user_path_out_of_scope');
    }
    for (const path of ['usage/throughput?granularity=hour', 'cache/overview']) {
      const error = await errorOf(await gateway.fetch(`/admin/${path}`, { headers }), 403);
      expect(error.code).toBe('admin_scope_denied');
    }
  });

  test('are CSV when the query or Accept says so, with the columns and rows of the JSON', async () => {
    const read = async (path: string, headers = {}) => {
      const answer = await gateway.fetch(`/admin/usage/${path}`, { headers });
      expect(answer.status).toBe(200);
      const [head = '', ...lines] = (await answer.text()).trimEnd().split('\r\n');
      return { answer, columns: head.split(','), lines };
    };
    const range = new URLSearchParams({ ...allOfIt, cache_mode: 'all' });
    for (const path of ['summary', 'daily', 'models', 'user-paths', 'labels', 'keys', 'sessions', 'log']) {
      const whole = await report(path, { ...allOfIt, cache_mode: 'all', ...(path === 'log' ? { limit: '200' } : {}) });
      const rows = [Array.isArray(whole) ? whole : (whole.entries ?? whole)].flat();
      const { answer, columns, lines } = await read(`${path}?${range}&format=csv`);
      expect(answer.headers.get('content-type')).toBe('text/csv; charset=utf-8');
      expect(answer.headers.get('content-disposition')).toMatch(/^attachment; filename="usage-[a-z-]+\.csv"$/);
      expect(Number(answer.headers.get('x-total-count')), path).toBe(whole.total ?? rows.length);
      expect(lines.length, path).toBeGreaterThanOrEqual(rows.length);
      for (const name of Object.keys(rows[0])) expect(columns, path).toContain(name);
    }
    const { columns, lines } = await read(`models?${range}`, { accept: 'text/csv, application/json;q=0.5' });
    const models = await report('models', { ...allOfIt, cache_mode: 'all' });
    const cells = lines.map((line) => line.split(','));
    const column = (name: string) => cells.map((row) => row[columns.indexOf(name)]);
    expect(column('model')).toEqual(models.map(({ model }: Answered) => model));
    expect(column('total_cost')).toEqual(
      models.map(({ total_cost: cost }: Answered) => (cost === null ? '' : cost.toFixed(9))),
    );
    const json = await gateway.fetch(`/admin/usage/models?${range}`, {
      headers: { accept: 'application/json, text/csv' },
    });
    expect(json.headers.get('content-type')).toMatch('application/json');
    expect((await errorOf(await gateway.fetch('/admin/usage/models?format=xlsx'), 400)).param).toBe('format');
  });

  test('count the cached answers of the gateway, and the cost that they saved', async () => {
    const db = createAnalyticsDb({
      address: () => ({ url: embedded.url, username: 'gateway', password: 'asks', database }),
    });
    const { sql, parameters } = cacheByDay({ from: began - DAY_MS, until: Date.now() }, 'UTC');
    const { summary, daily } = overviewOf(await db.rows(sql, parameters), 'monthly');
    await db.close();
    const cached = inMode(used, 'cached');
    const { requests, input_tokens, output_tokens, total_tokens } = figuresOf(cached);
    const saved = cached.reduce((total, one) => total + (one.saved ?? 0n), 0n);
    expect(saved).toBeGreaterThan(0n);
    expect(summary).toEqual({
      total_hits: requests,
      exact_hits: requestsOf(cached.filter(({ cacheType }) => cacheType === 'exact')),
      semantic_hits: requestsOf(cached.filter(({ cacheType }) => cacheType === 'semantic')),
      total_input_tokens: input_tokens,
      total_output_tokens: output_tokens,
      total_tokens,
      total_saved_cost: Number(saved) / 1e9,
    });
    expect(daily.reduce((total, { hits }) => total + hits, 0)).toBe(requests);
  });

  describe('about current requests', () => {
    let bound = '';
    let unbound = '';
    beforeAll(async () => {
      const key = async (body: object) => {
        const { value } = await json(await gateway.fetch('/admin/auth-keys', { json: body }));
        return `Bearer ${value}`;
      };
      bound = await key({ name: 'bound', user_path: '/team/alpha' });
      unbound = await key({ name: 'unbound' });
      await gateway.fetch('/admin/model-pricing-overrides', {
        method: 'PUT',
        json: { selector: 'llamacpp/simulated-small', pricing: { per_request: 1.5 } },
      });
      const callers: Record<string, string>[] = [
        { authorization: bound },
        { authorization: unbound, 'x-gateway-user-path': '/team/alpha/deep' },
        { authorization: unbound },
        {},
      ];
      for (const headers of callers) {
        const body = { model: 'llamacpp/simulated-small', messages: user('Hello!') };
        const answer = await gateway.fetch('/v1/chat/completions', { json: body, headers });
        await answer.text();
        await eventsOfExchange(gateway, exchangeOf(answer));
      }
      await projector.whenStored(parsePosition(await log.head()));
    }, 30_000);

    const usage = async (headers: Record<string, string>, query = '') =>
      (await json(await gateway.fetch(`/v1/usage${query}`, { headers }))).usage;

    test('GET /v1/usage covers the path of a key, the key alone without a path, or everything', async () => {
      expect(await usage({ authorization: bound })).toMatchObject({ total_requests: 2, total_cost: 3 });
      expect(await usage({ authorization: unbound })).toMatchObject({ total_requests: 2, total_cost: 3 });
      const elsewhere = { authorization: unbound, 'x-gateway-user-path': '/sales' };
      expect(await usage(elsewhere)).toMatchObject({ total_requests: 0, total_cost: null });
      const day = `?start_date=${localDay(Date.now() - DAY_MS, 'UTC')}`;
      expect(await usage({}, day)).toMatchObject({ total_requests: 4, total_cost: 6 });
      expect(await usage({ 'x-gateway-user-path': '/team' }, day)).toMatchObject({ total_requests: 2 });
    });

    test('throughput returns every bucket up to now', async () => {
      const sizes = { second: [60, 1], minute: [60, 60], hour: [24, 3600], day: [30, 86_400] };
      for (const [granularity, [count, seconds]] of Object.entries(sizes)) {
        const { buckets, ...rest } = await report('throughput', { granularity });
        expect(rest).toEqual({ granularity, bucket_seconds: seconds });
        expect(buckets).toHaveLength(count ?? 0);
        const starts: number[] = buckets.map(({ start }: Answered) => Date.parse(start) / 1000);
        for (const [index, start] of starts.entries()) {
          expect(start % (seconds ?? 0)).toBe(0);
          if (index > 0) expect(start - (starts[index - 1] ?? 0)).toBe(seconds);
        }
        if (granularity === 'second') continue;
        const tokens = buckets.reduce((total: number, bucket: Answered) => total + bucket.output_tokens, 0);
        expect(tokens).toBeGreaterThan(0);
      }
      const { buckets } = await report('throughput', { granularity: 'day' });
      const first = Date.parse(buckets[0].start);
      const cached = used.filter(({ at, cacheType }) => at >= first && cacheType !== '');
      expect(buckets.reduce((total: number, { locally_cached_tokens: n }: Answered) => total + n, 0)).toBe(
        figuresOf(cached).total_tokens,
      );
    });

    test('a stream without usage from its provider is estimated, in SQL and over REST', async () => {
      const [provider, model] = ['llamacpp', 'simulated-large'];
      await gateway.fetch('/admin/model-pricing-overrides', {
        method: 'PUT',
        json: { selector: `${provider}/${model}`, pricing: { input_per_mtok: 1000, output_per_mtok: 1000 } },
      });
      gateway.simulated.control.next({ usage: false });
      const body = { model: `${provider}/${model}`, stream: true, messages: user('Hello!') };
      const answer = await gateway.fetch('/v1/chat/completions', { json: body });
      await answer.text();
      await eventsOfExchange(gateway, exchangeOf(answer));
      await projector.whenStored(parsePosition(await log.head()));
      const query = `SELECT estimated, estimated_input_tokens AS input, estimated_output_tokens AS output,
        total_tokens, total_cost FROM ${database}.usage WHERE exchange_id = '${exchangeOf(answer)}'`;
      const result = await embedded.clientOf('projector').query({ query, format: 'JSONEachRow' });
      const [row] = await result.json<Record<string, unknown>>();
      expect(row).toMatchObject({ estimated: 1, total_tokens: expect.toSatisfy((n) => Number(n) === 0) });
      const [input, output] = [Number(row?.['input']), Number(row?.['output'])];
      expect(input).toBeGreaterThan(0);
      expect(output).toBeGreaterThan(0);
      expect(Number(row?.['total_cost'])).toBe((input + output) * 1_000_000);
      const { entries } = await report('log', { search: model, limit: '1' });
      expect(entries[0]).toMatchObject({
        estimated: true,
        estimated_input_tokens: input,
        estimated_output_tokens: output,
        usage_source: 'unknown',
      });
    });

    test('a report without analytics is refused, and /v1/usage omits its figures', async () => {
      isReachable = false;
      try {
        const answer = await gateway.fetch('/admin/usage/summary');
        expect(answer.headers.get('retry-after')).toBe('2');
        expect((await errorOf(answer, 503)).code).toBe('analytics_unavailable');
        const reported = await json(await gateway.fetch('/v1/usage?days=3', { headers: { authorization: bound } }));
        expect(reported).toMatchObject({
          ...{ object: 'usage', usage: null, usage_state: 'unknown', budgets: [], rate_limits: [] },
        });
      } finally {
        isReachable = true;
      }
      expect((await gateway.fetch('/admin/usage/summary')).status).toBe(200);
    });
  });

  test.each([
    ['without a user path', undefined, 'scoped-like'],
    ['under a user path', '/of/session', 'my session'],
    ['with a name like a digest', undefined, `scoped-${'a'.repeat(32)}`],
  ])('a session is found by the name that its client sent %s', async (_, path, name) => {
    const headers = { 'x-session-id': name, ...(path === undefined ? {} : { 'x-gateway-user-path': path }) };
    const answer = await gateway.fetch('/v1/chat/completions', {
      json: { model: 'llamacpp/simulated-small', messages: user('Hello') },
      headers,
    });
    await answer.text();
    await projector.whenStored(parsePosition(await log.head()));
    const ofSession = new URLSearchParams({ session_id: name, days: '1' });
    expect(await json(await gateway.fetch(`/admin/usage/summary?${ofSession}`))).toMatchObject({ total_requests: 1 });
    const { entries } = await json(await gateway.fetch(`/admin/audit/log?${ofSession}`));
    expect(entries).toHaveLength(1);
    const recorded = new URLSearchParams({ session_id: entries[0].session_id, days: '1' });
    expect(await json(await gateway.fetch(`/admin/usage/summary?${recorded}`))).toMatchObject({ total_requests: 1 });
  });

  test('no cell of CSV begins a formula', async () => {
    const answer = await gateway.fetch('/v1/chat/completions', {
      json: { model: 'llamacpp/simulated-small', messages: user('Hello') },
      headers: { 'x-session-id': '=HYPERLINK("http://example.com")' },
    });
    await answer.text();
    await projector.whenStored(parsePosition(await log.head()));
    const sessions = await (await gateway.fetch('/admin/usage/sessions?days=1&format=csv')).text();
    expect(sessions).toContain(`"'=HYPERLINK(""http://example.com"")"`);
  });
});
