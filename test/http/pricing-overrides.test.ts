/** `/admin/model-pricing-overrides`: prices that administrators set for models. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { priceOverrideSet } from '../../src/events/catalogue/budget.ts';
import { streamName } from '../../src/events/event.ts';
import { openLog } from '../../src/events/open-log.ts';
import { exchangeOf as exchangeEvents } from '../projections/exchange-history.ts';
import type { Answered } from '../support/answered.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { put } from '../support/managed-keys.ts';
import {
  errorOf,
  eventsOfExchange,
  exchangeOf,
  json,
  modelsListed,
  user,
  withGateway,
} from '../support/with-gateway.ts';

const gateway = withGateway();
const PATH = '/admin/model-pricing-overrides';
const set = (selector: unknown, pricing: unknown, headers?: Record<string, string>) =>
  gateway.fetch(PATH, put({ selector, pricing }, headers));
const remove = (selector: string, headers?: Record<string, string>) =>
  gateway.fetch(PATH, { method: 'DELETE', json: { selector }, ...(headers === undefined ? {} : { headers }) });
const list = async (query = '') => json(await gateway.fetch(`${PATH}${query}`));
const head = async () => (await json(await gateway.fetch('/admin/history?limit=1'))).entries?.[0]?.position;

async function usageOf(via: Pick<TestGateway, 'fetch'>, model: string): Promise<Answered> {
  const answer = await via.fetch('/v1/chat/completions', { json: { model, messages: user('Hello') } });
  expect(answer.status, await answer.clone().text()).toBe(200);
  await answer.text();
  return (await eventsOfExchange(via, exchangeOf(answer))).at(-1)?.data;
}
const costOf = async () => (await usageOf(gateway, 'llamacpp/simulated-small')).totalCost;

describe('a pricing override', () => {
  it('applies from the next request on, until it is removed', async () => {
    expect(await costOf()).toBeNull();
    const answer = await set('llamacpp/simulated-small', { per_request: 0.25 });
    expect(answer.status).toBe(200);
    expect(answer.headers.get('etag')).toBe('"0"');
    expect(await json(answer)).toEqual({
      selector: 'llamacpp/simulated-small',
      scope_kind: 'provider_model',
      provider_name: 'llamacpp',
      model: 'simulated-small',
      pricing: { per_request: 0.25 },
      created_at: expect.any(String),
      updated_at: expect.any(String),
      revision: '0',
    });
    expect(await costOf()).toBe('250000000');
    expect((await remove('llamacpp/simulated-small')).status).toBe(204);
    expect(await costOf()).toBeNull();
  });

  it('is listed by selector, each with its scope', async () => {
    for (const selector of ['/', 'llamacpp/*', 'tiny', 'llamacpp/a/b']) {
      expect((await set(selector, { input_per_mtok: 1 })).status).toBe(200);
    }
    expect(await list()).toMatchObject([
      { selector: '/', scope_kind: 'global' },
      { selector: 'llamacpp/', scope_kind: 'provider', provider_name: 'llamacpp' },
      { selector: 'llamacpp/a/b', scope_kind: 'provider_model', provider_name: 'llamacpp', model: 'a/b' },
      { selector: 'tiny', scope_kind: 'model', model: 'tiny' },
    ]);
    for (const selector of ['*', 'llamacpp/', 'tiny', 'llamacpp/a/b']) {
      expect((await remove(selector)).status).toBe(204);
    }
    expect(await list()).toEqual([]);
  });

  it('can be removed by query too, for clients whose DELETE has no body', async () => {
    await set('of-a-query', { per_request: 1 });
    expect((await gateway.fetch(`${PATH}?selector=of-a-query`, { method: 'DELETE' })).status).toBe(204);
    expect(await errorOf(await remove('of-a-query'), 404)).toMatchObject({ code: 'not_found' });
    expect(await errorOf(await gateway.fetch(PATH, { method: 'DELETE' }), 400)).toMatchObject({ param: 'selector' });
  });

  it('is changed only at the revision in If-Match, when that is sent', async () => {
    await set('raced', { per_request: 1 });
    expect(await errorOf(await set('raced', { per_request: 2 }, { 'if-match': '"7"' }), 409)).toMatchObject({
      code: 'revision_mismatch',
      message: expect.stringContaining('revision 0'),
    });
    expect((await set('raced', { per_request: 2 }, { 'if-match': '"0"' })).headers.get('etag')).toBe('"1"');
    // The same value is no change.
    expect((await set('raced', { per_request: 2 })).headers.get('etag')).toBe('"1"');
    const both = await Promise.all([3, 4].map((price) => set('raced', { per_request: price })));
    expect(both.map(({ status }) => status)).toEqual([200, 200]);
    expect(await errorOf(await remove('raced', { 'if-match': '"1"' }), 409)).toMatchObject({
      code: 'revision_mismatch',
    });
    expect((await remove('raced')).status).toBe(204);
  });

  it('is returned as of an earlier position', async () => {
    await set('then', { per_request: 1 });
    const before = await head();
    await set('then', { per_request: 2 });
    const after = await head();
    await remove('then');
    const priceAt = async (position: string) =>
      (await list(`?as_of=${position}`)).map(({ pricing }: { pricing: object }) => pricing);
    expect(await priceAt(before)).toEqual([{ per_request: 1 }]);
    expect(await priceAt(after)).toEqual([{ per_request: 2 }]);
    expect(await list()).toEqual([]);
  });

  it.each([
    ['no JSON', '{', null],
    ['no selector', { pricing: { per_request: 1 } }, 'selector'],
    ['an empty selector', { selector: ' ', pricing: { per_request: 1 } }, 'selector'],
    ['a selector that is not a string', { selector: 5, pricing: { per_request: 1 } }, 'selector'],
    ['a selector that is too long', { selector: 'x'.repeat(257), pricing: { per_request: 1 } }, 'selector'],
    ['a selector with control characters', { selector: 'a\u0000b', pricing: { per_request: 1 } }, 'selector'],
    ['an unknown provider', { selector: 'nobody/model', pricing: { per_request: 1 } }, 'selector'],
    ['an empty segment', { selector: 'llamacpp//x', pricing: { per_request: 1 } }, 'selector'],
    ['no pricing', { selector: 'a' }, 'pricing'],
    ['an empty pricing', { selector: 'a', pricing: {} }, 'pricing'],
    ['an unknown rate', { selector: 'a', pricing: { input_per_token: 1 } }, 'pricing.input_per_token'],
    ['an unknown field', { selector: 'a', pricing: { per_request: 1 }, user_path: '/' }, 'user_path'],
    ['a negative amount', { selector: 'a', pricing: { per_request: -1 } }, 'pricing.per_request'],
    ['an infinite amount', '{"selector":"a","pricing":{"per_request":1e999}}', 'pricing.per_request'],
    ['an amount as text', { selector: 'a', pricing: { input_per_mtok: '1' } }, 'pricing.input_per_mtok'],
    ['a tier without an end', { selector: 'a', pricing: { tiers: [{ input_per_mtok: 1 }] } }, 'pricing.tiers.0'],
  ])('is refused with %s, and nothing is recorded', async (_what, body, param) => {
    const before = await head();
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    const answer = await gateway.fetch(PATH, { method: 'PUT', body: text });
    expect(await errorOf(answer, 400)).toMatchObject({ type: 'invalid_request_error', param });
    expect(await head()).toEqual(before);
  });
});

describe('prices and a restart', () => {
  it('keep overrides and declared prices in force', async () => {
    const dataDir = mkdtempSync(join(tmpdir(), 'chancery-prices-'));
    writeFileSync(join(dataDir, 'chancery.yaml'), DECLARED);
    try {
      const first = await startTestGateway({ dataDir });
      await modelsListed(first);
      expect(await usageOf(first, 'llamacpp/declared')).toMatchObject({
        totalCost: '125000000',
        priceSource: 'config',
      });
      await first.fetch(PATH, put({ selector: 'simulated-small', pricing: { per_request: 0.5 } }));
      await first.fetch(PATH, put({ selector: 'short-lived', pricing: { per_request: 0.5 } }));
      await first.fetch(PATH, { method: 'DELETE', json: { selector: 'short-lived' } });
      await first.close();
      const second = await startTestGateway({ dataDir });
      try {
        await modelsListed(second);
        expect(await json(await second.fetch(PATH))).toMatchObject([
          { selector: 'simulated-small', pricing: { per_request: 0.5 }, revision: '0' },
        ]);
        expect(await usageOf(second, 'llamacpp/simulated-small')).toMatchObject({
          totalCost: '500000000',
          priceSource: 'override:simulated-small',
        });
        expect(await usageOf(second, 'llamacpp/declared')).toMatchObject({ priceSource: 'config' });
      } finally {
        await second.close();
      }
    } finally {
      rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
    }
  });

  it('price an exchange that a crash left open at the next start', async () => {
    const dataDir = mkdtempSync(join(tmpdir(), 'chancery-prices-'));
    const left = exchangeEvents('left-open', {
      stream: false,
      body: JSON.stringify({ model: 'm', messages: user('Hello') }),
    });
    const answer = { choices: [], usage: { prompt_tokens: 1000, completion_tokens: 100, total_tokens: 1100 } };
    const log = await openLog(`file:${join(dataDir, 'log')}`);
    const said = priceOverrideSet.create(
      { selector: 'tiny', pricing: { input_per_mtok: 1, output_per_mtok: 2 } },
      left.context,
    );
    await log.append([
      { stream: streamName('price', 'tiny'), events: [said], expectedRevision: 'noStream' },
      {
        stream: left.stream,
        events: [left.received, left.resolved, left.attempt(), left.json(answer)],
        expectedRevision: 'noStream',
      },
    ]);
    await log.close();
    const started = await startTestGateway({ dataDir });
    try {
      const events = await eventsOfExchange(started, 'left-open');
      expect(events.at(-1)).toMatchObject({
        type: 'usage.recorded',
        data: { inputTokens: 1000, outputTokens: 100, totalCost: '1200000', priceSource: 'override:tiny' },
      });
    } finally {
      await started.close();
      rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
    }
  });
});

const DECLARED = `
providers:
  llamacpp:
    type: llamacpp
    models_mode: merge
    models:
      - id: declared
        metadata:
          pricing:
            per_request: 0.125
`;
