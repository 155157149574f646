/** Refused requests beyond those recorded one by one: the log, SQL, REST and metrics have the same counts. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parsePosition, type RecordedEvent } from '../../src/events/event.ts';
import { openLog } from '../../src/events/open-log.ts';
import { createBatchStore } from '../../src/projections/analytics/batch-store.ts';
import { startProjector } from '../../src/projections/analytics/projector.ts';
import { type Embedded, hasChdb, startEmbedded } from '../analytics/embedded.ts';
import { figuresOfLog } from '../analytics/log-figures.ts';
import { figuresInSql } from '../analytics/sql-figures.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { json, modelsListed, user } from '../support/with-gateway.ts';

const ALONE = 2;
const REFUSED = 9;
const LIMITED = 5;
const ALL = REFUSED + LIMITED;
const dataDir = mkdtempSync(join(tmpdir(), 'chancery-refused-'));
const logUrl = `file:${join(dataDir, 'log')}`;
const exchangeIds: (string | null)[] = [];
let gateway: TestGateway;
let key = '';
let scrape = '';
const events: RecordedEvent[] = [];

const headers = () => ({ authorization: `Bearer ${key}` });

beforeAll(async () => {
  gateway = await startTestGateway({ dataDir, env: { LOGGING_REFUSALS_PER_MINUTE: String(ALONE) } });
  await modelsListed(gateway);
  const made = await json(await gateway.fetch('/admin/auth-keys', { json: { name: 'refused', user_path: '/team' } }));
  key = made.value;
  await gateway.fetch('/admin/rate-limits', {
    method: 'PUT',
    json: { user_path: '/team', limit_key: { period: 'day' }, max_requests: 1 },
  });
  expect((await gateway.fetch('/v1/conversations', { json: {}, headers: headers() })).status).toBe(200);
  for (let request = 0; request < REFUSED; request++) {
    const body = { model: 'no-such-model', messages: user('x'.repeat(10_000)) };
    const answer = await gateway.fetch('/v1/chat/completions', { json: body, headers: headers() });
    expect(answer.status).toBe(404);
    exchangeIds.push(answer.headers.get('x-exchange-id'));
  }
  for (let request = 0; request < LIMITED; request++) {
    expect((await gateway.fetch('/v1/conversations', { json: {}, headers: headers() })).status).toBe(429);
  }
  scrape = await (await gateway.fetch('/metrics')).text();
  await gateway.close();
  const log = await openLog(logUrl, { readOnly: true });
  for await (const event of log.readAll()) events.push(event);
  await log.close();
}, 30_000);
afterAll(() => rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 }));

/** The first requests are recorded one by one, and once more if the minute ended meanwhile. */
function recordedAlone(): string[] {
  return events.filter(({ type }) => type === 'request.refused').map(({ stream }) => stream.replace('exchange-', ''));
}

function together() {
  return events
    .filter(({ type }) => type === 'requests.refused')
    .map(({ data, context, stream }) => ({ stream, ...context, ...(data as { count: number; code: string }) }));
}

describe('the log', () => {
  it('has every refused request: one by one up to the bound, and then counted, without their content', () => {
    const alone = recordedAlone();
    expect([ALONE, 2 * ALONE]).toContain(alone.length);
    expect(exchangeIds.filter((id) => id !== null)).toEqual(alone);
    const counted = together();
    expect(counted.reduce((sum, { count }) => sum + count, 0)).toBe(ALL - alone.length);
    expect(counted.length).toBeLessThanOrEqual(4);
    for (const one of counted) expect(one).toMatchObject({ userPath: '/team', actor: expect.stringMatching(/^key:/) });
    const limited = counted.filter(({ code }) => code === 'rate_limit_exceeded');
    expect(limited[0]).toMatchObject({ status: 429, endpoint: '/v1/conversations', authMethod: 'api_key' });
    expect(limited.reduce((sum, { count }) => sum + count, 0)).toBe(LIMITED);
    const received = events.filter(({ type }) => type === 'request.received');
    expect(received).toHaveLength(alone.length);
  });
});

describe('metrics', () => {
  it('count every refused request', () => {
    const refused = scrape.split('\n').filter((line) => line.startsWith('gateway_requests_total'));
    const of = (status: number) =>
      refused.filter((line) => line.includes(`status_code="${status}"`)).map((line) => Number(line.split(' ').at(-1)));
    expect([of(404), of(429)]).toEqual([[REFUSED], [LIMITED]]);
  });
});

describe.skipIf(!hasChdb)('statistics', () => {
  let embedded: Embedded;
  let again: TestGateway;

  beforeAll(async () => {
    embedded = await startEmbedded();
    const address = () => ({ url: embedded.url, username: 'gateway', password: 'asks', database: 'chancery' });
    const analytics = { address, status: () => ({ health: 'ok' as const, lagEvents: 0 }) };
    again = await startTestGateway({ dataDir, analytics });
    const log = await openLog(logUrl, { readOnly: true });
    const store = createBatchStore(embedded.clientOf('projector'), 'chancery');
    const projector = startProjector({ log, store, retention: { audit: 0, usage: 0 }, liveMs: 1 });
    await projector.whenStored(parsePosition(await log.head()));
    await projector.close();
    const { outcomes } = await figuresOfLog(log);
    expect(outcomes).toEqual({ refused: ALL });
    expect((await figuresInSql(embedded.clientOf('gateway'), 'chancery')).outcomes).toEqual(outcomes);
    await log.close();
  }, 60_000);
  afterAll(async () => {
    await again?.close();
    await embedded?.close();
  });

  it('in SQL and over REST count every refused request, also for an administrator of the subtree', async () => {
    const made = await json(
      await again.fetch('/admin/auth-keys', { json: { name: 'a', user_path: '/team', dashboard_access: true } }),
    );
    for (const authorization of [undefined, `Bearer ${made.value}`]) {
      const answer = await again.fetch('/admin/audit/stats?days=2', {
        headers: authorization === undefined ? {} : { authorization },
      });
      expect((await json(answer)).summary).toMatchObject({ requests: ALL, status_4xx: ALL, status_2xx: 0 });
    }
    const client = embedded.clientOf('gateway');
    const query = `SELECT sum(requests) AS n FROM chancery.exchanges WHERE outcome = 'refused'`;
    const [row] = await (await client.query({ query, format: 'JSONEachRow' })).json<{ n: string }>();
    expect(Number(row?.n)).toBe(ALL);
  });

  it('list those that were counted together as one entry with their number', async () => {
    const { entries, total } = await json(await again.fetch('/admin/audit/log?days=2&limit=100'));
    expect(total).toBe(recordedAlone().length + together().length);
    const numbers = entries.map(({ requests = 1 }: { requests?: number }) => requests);
    expect(numbers.reduce((sum: number, one: number) => sum + one, 0)).toBe(ALL);
    const limited = entries.find(({ path }: { path: string }) => path === '/v1/conversations');
    expect(limited).toMatchObject({ outcome: 'refused', status_code: 429, user_path: '/team' });
  });
});
