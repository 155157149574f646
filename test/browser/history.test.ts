/** The seeded history has what the other files of this folder look for. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ask } from '../e2e/gateway-process.ts';
import type { Answered } from '../support/answered.ts';
import { type DashboardGateway, serveDashboard } from './support/dashboard.ts';
import { exchangesOfTests, type SeededFolder, seededFolder } from './support/history/seeded-history.ts';

let seeded: SeededFolder;
let gateway: DashboardGateway;

beforeAll(async () => {
  seeded = await seededFolder();
  gateway = await serveDashboard({ dataDir: seeded.dataDir });
});
afterAll(async () => {
  await gateway?.stop();
  seeded?.remove();
});

async function rows(query: string): Promise<Answered[]> {
  const answer = await ask(gateway.url, '/admin/sql', { json: { query, format: 'JSON' } });
  return JSON.parse(await answer.text()).data;
}

describe('the seeded history', () => {
  it(`has every request that was sent, at least ${exchangesOfTests}, on at least 14 days`, async () => {
    const [counted] = await rows('SELECT sum(requests) AS exchanges, uniq(toDate(at)) AS days FROM exchanges');
    expect(Number(counted?.exchanges)).toBe(seeded.facts.exchanges);
    expect(seeded.facts.exchanges).toBeGreaterThanOrEqual(exchangesOfTests);
    expect(Number(counted?.days)).toBeGreaterThanOrEqual(14);
  });

  it.each([
    ['failover', { status: 200, attempt_count: 2 }],
    ['budget', { outcome: 'refused', status: 429, error_code: 'budget_exceeded' }],
    ['rateLimit', { outcome: 'refused', status: 429, error_code: 'rate_limit_exceeded' }],
    ['access', { outcome: 'refused', status: 400, error_code: 'model_access_denied' }],
    ['blocked', { guardrail_verdict: 'block', guardrail: 'no-code-names' }],
    ['anonymised', { status: 200, guardrails_edited: 1 }],
    ['changedYesterday', { status: 200, guardrails_edited: 1, user_path: '/customers/web' }],
    ['cacheHit', { status: 200, cache_type: 'exact' }],
    ['stream', { status: 200, stream: 1, outcome: 'completed' }],
    ['brokenStream', { status: 200, stream: 1, outcome: 'failed' }],
    ['tools', { status: 200, finish_reason: 'tool_calls' }],
    ['picture', { status: 200 }],
    ['tuesday', { status: 200, user_path: '/customers/support/mira' }],
  ] as const)('has an exchange that shows: %s', async (name, expected) => {
    const [row] = await rows(`SELECT * FROM exchanges WHERE id = '${seeded.facts.shown[name]}'`);
    expect(row).toMatchObject(expected);
  });

  it('has chains of responses, a conversation, streams, failures and refusals', async () => {
    const [counted] = await rows(`SELECT countIf(history_items > 0) AS continued, countIf(stream = 1) AS streams,
      countIf(outcome = 'failed') AS failed, countIf(outcome = 'refused') AS refused,
      countIf(cache_type != '') AS cached, uniqIf(session_id, session_id != '') AS sessions FROM exchanges`);
    expect(seeded.facts.conversation).toMatch(/^conv_/);
    for (const [name, least] of Object.entries({
      continued: 0.005,
      streams: 0.15,
      failed: 0.005,
      refused: 0.01,
      cached: 0.015,
      sessions: 0.025,
    })) {
      expect(Number(counted?.[name]), name).toBeGreaterThan(least * exchangesOfTests);
    }
  });
});
