/** The usage reports while usage is not counted: empty or zero; invalid parameters are still refused. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createReportDb } from '../../src/http/admin/reports/report-db.ts';
import { AnalyticsUnavailable, QueryFailed } from '../../src/projections/analytics/analytics-db.ts';
import { type AnalyticsQueries, createUsageFigures } from '../../src/wiring/analytics/reports.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { errorOf, json } from '../support/with-gateway.ts';

const nothing = {
  total_requests: 0,
  total_input_tokens: 0,
  uncached_input_tokens: 0,
  cached_input_tokens: 0,
  cache_write_input_tokens: 0,
  total_output_tokens: 0,
  total_tokens: 0,
  total_input_cost: null,
  total_output_cost: null,
  total_cost: null,
  rewrite_tokens_saved: 0,
  rewrite_cost_saved: null,
};

const send = () => {
  throw new Error('analytics was asked');
};

interface Off {
  readonly why: string;
  readonly env?: Record<string, string>;
  readonly analytics?: AnalyticsQueries;
}

const asking = { analytics: { address: send, status: () => ({ health: 'ok' as const, lagEvents: 0 }) } };

const off: readonly Off[] = [
  { why: 'analytics is off' },
  {
    why: 'analytics cannot run here',
    analytics: { address: send, status: () => ({ health: 'off', lagEvents: undefined }) },
  },
  {
    why: 'usage is not tracked',
    env: { USAGE_ENABLED: 'false' },
    ...asking,
  },
];

describe.each(off)('while $why', ({ env = {}, analytics }) => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await startTestGateway({ env, simulated: false, ...(analytics === undefined ? {} : { analytics }) });
  });
  afterAll(() => gateway?.close());
  const report = async (path: string) => json(await gateway.fetch(`/admin/usage/${path}`));

  test('reports are empty or zero', async () => {
    expect(await report('summary')).toEqual(nothing);
    for (const list of ['daily', 'models', 'user-paths', 'labels', 'keys']) expect(await report(list)).toEqual([]);
    expect(await report('sessions?limit=7&offset=3')).toEqual({ entries: [], total: 0, limit: 7, offset: 3 });
    expect(await report('log?limit=8&offset=4')).toEqual({ entries: [], total: 0, limit: 8, offset: 4 });
    const { buckets } = await report('throughput?granularity=hour');
    expect(buckets).toHaveLength(24);
    const { usage, usage_state } = await json(
      await gateway.fetch('/v1/usage?start_date=2026-01-01&end_date=2026-01-02'),
    );
    expect(usage_state).toBe('off');
    expect(usage).toEqual({ start_date: '2026-01-01', end_date: '2026-01-02', ...nothing });
  });

  test('invalid parameters are refused', async () => {
    for (const path of [
      'summary?start_date=x',
      'log?limit=201',
      'throughput',
      'daily?cache_mode=x',
      'labels?user_path=/..',
    ]) {
      await errorOf(await gateway.fetch(`/admin/usage/${path}`), 400);
    }
    await errorOf(await gateway.fetch('/admin/cache/overview?end_date=x'), 400);
    const error = await errorOf(await gateway.fetch('/admin/cache/overview'), 503);
    expect(error.code).toBe('feature_unavailable');
  });
});

describe.each([
  ...off.slice(0, 2),
  { why: 'neither usage nor requests are kept', env: { USAGE_ENABLED: 'false', LOGGING_ENABLED: 'false' }, ...asking },
])('GET /admin/overview while $why', ({ env = {}, analytics }) => {
  test('has every bucket, without figures', async () => {
    const gateway = await startTestGateway({
      env,
      simulated: false,
      ...(analytics === undefined ? {} : { analytics }),
    });
    try {
      const figures = {
        requests: 0,
        p50_ms: null,
        total_tokens: 0,
        total_cost: null,
        cache_hits_exact: 0,
        saved_cost: 0,
      };
      const { summary, buckets, models, analytics: state } = await json(await gateway.fetch('/admin/overview?days=2'));
      expect(summary).toMatchObject({ ...figures, success_rate: null });
      expect(buckets.length).toBeGreaterThan(20);
      for (const bucket of buckets) expect(bucket).toMatchObject(figures);
      expect(models).toEqual([]);
      expect(state).toEqual({
        state: analytics === asking.analytics ? 'ok' : 'off',
        lag_events: analytics === asking.analytics ? 0 : null,
        lag_seconds: null,
      });
    } finally {
      await gateway.close();
    }
  });
});

describe('GET /v1/usage', () => {
  test('queries once for identical requests within a short time, and again later', async () => {
    let questions = 0;
    let at = 1000;
    const counting = {
      rows: async () => {
        questions += 1;
        return [];
      },
      close: async () => {},
    };
    const figures = createUsageFigures({ db: counting, enabled: true, now: () => at });
    const requestBody = { subtree: undefined, keyId: 'a', from: 0, until: 1 };
    const answers = await Promise.all([
      figures(requestBody),
      figures(requestBody),
      figures({ ...requestBody, keyId: 'b' }),
    ]);
    expect(answers).toEqual([nothing, nothing, nothing]);
    expect(questions).toBe(2);
    at += 1000;
    await figures(requestBody);
    expect(questions).toBe(3);
  });
});

describe('a report', () => {
  const db = (rows: () => Promise<never[]>) => ({ rows, close: async () => {} });

  test('waits for analytics that is starting', async () => {
    let looks = 0;
    const state = () => (looks++ < 3 ? 'starting' : 'there');
    const waiting = createReportDb({ db: db(async () => []), state });
    expect(await waiting.rows('SELECT 1')).toEqual([]);
    expect(looks).toBeGreaterThan(3);
  });

  test('waits for the tables, which are created first', async () => {
    const codes = ['81', '60'];
    const making = db(async () => {
      const code = codes.shift();
      if (code !== undefined) throw new QueryFailed(code, new Error('There is none'));
      return [];
    });
    const waiting = createReportDb({ db: making, state: () => 'there' });
    expect(await waiting.rows('SELECT 1')).toEqual([]);
    const never = db(async () => {
      throw new QueryFailed('60', new Error('There is none'));
    });
    const impatient = createReportDb({ db: never, state: () => 'there', waitMs: 0 });
    await expect(impatient.rows('SELECT 1')).rejects.toMatchObject({ status: 503, code: 'analytics_unavailable' });
  });

  test('does not wait for ever, nor for a client that disconnected', async () => {
    const unavailable = db(async () => {
      throw new AnalyticsUnavailable('it has not started yet');
    });
    const state = () => 'starting' as const;
    const impatient = createReportDb({ db: unavailable, state, waitMs: 0 });
    await expect(impatient.rows('SELECT 1')).rejects.toMatchObject({ status: 503, code: 'analytics_unavailable' });
    const patient = createReportDb({ db: unavailable, state });
    await expect(patient.rows('SELECT 1', {}, AbortSignal.abort())).rejects.toMatchObject({
      status: 499,
    });
  });
});
