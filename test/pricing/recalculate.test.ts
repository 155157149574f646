import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ExchangeRecord } from '../../src/commands/exchange/exchange-record.ts';
import { noteUsage } from '../../src/commands/exchange/record/end-events.ts';
import { readUsage } from '../../src/commands/model-request/usage.ts';
import type { PricedUsage, Pricing } from '../../src/commands/pricing/pricing.ts';
import {
  createRecalculator,
  NewestCorrections,
  type RecalculationScope,
  recalculate,
  SeenNames,
  selectedModels,
} from '../../src/commands/pricing/recalculate.ts';
import { type RecordedEvent, streamName, type UserPath } from '../../src/events/event.ts';
import { engines, openTestLog, type TestLog } from '../projections/log-engines.ts';
import { unpriced } from '../support/nothing-configured.ts';

const context = { actor: 'master', requestId: 'of the administrator' } as const;
const never = new AbortController().signal;

/** So many nano-dollars for each token. */
function perToken(nano: number | null): Pricing {
  return {
    costOf({ usage }) {
      const cost = nano === null ? null : String(nano * (usage.totalTokens ?? 0));
      return {
        inputCost: cost,
        outputCost: cost === null ? null : '0',
        totalCost: cost,
        priceSource: `config ${nano}`,
      };
    },
  };
}

describe.each(engines)('recalculating recorded costs, with the %s engine', (engine) => {
  let opened: TestLog;
  beforeEach(async () => {
    opened = await openTestLog(engine);
  });
  afterEach(() => opened.discard());

  interface Given {
    readonly tokens?: number;
    readonly userPath?: string;
    readonly provider?: string;
    readonly model?: string;
    readonly labels?: readonly string[];
    readonly pricing?: Pricing;
  }

  async function spend(id: string, given: Given = {}): Promise<void> {
    const { tokens = 10, userPath = '/team', provider = 'local', model = 'tiny', pricing = unpriced } = given;
    const usage = readUsage({ prompt_tokens: tokens, completion_tokens: 0, total_tokens: tokens });
    const record = new ExchangeRecord(opened.log, id, {
      actor: 'key:k',
      userPath: userPath as UserPath,
      requestId: id,
    });
    const spent: PricedUsage = { provider, providerType: `${provider}-type`, model, endpoint: '/v1/x', usage };
    noteUsage(record, spent, pricing.costOf(spent), { labels: given.labels });
    await record.flush('durable');
  }

  const again = (pricing: Pricing, scope: RecalculationScope = {}, signal = never) =>
    recalculate({ scope, context, signal }, { log: opened.log, pricing });

  async function corrections(): Promise<RecordedEvent<string, Record<string, unknown>>[]> {
    const found: RecordedEvent<string, Record<string, unknown>>[] = [];
    for await (const event of opened.log.readAll({ filter: { types: ['usage.recalculated'] } })) {
      found.push(event as RecordedEvent<string, Record<string, unknown>>);
    }
    return found;
  }

  it('appends the current cost of each exchange, with the cost before, on its own stream', async () => {
    await spend('a', { labels: ['blue'] });
    await spend('b', { pricing: perToken(3), userPath: '/other' });
    expect(await again(perToken(3))).toEqual({
      status: 'ok',
      matched: 2,
      recalculated: 1,
      withPricing: 2,
      withoutPricing: 0,
    });
    const [only, ...more] = await corrections();
    expect(more).toEqual([]);
    expect(only).toMatchObject({
      stream: streamName('exchange', 'a'),
      context: { actor: 'master', userPath: '/team', requestId: 'of the administrator' },
      data: {
        provider: 'local',
        model: 'tiny',
        labels: ['blue'],
        totalCost: '30',
        previousTotalCost: null,
        usageAt: expect.any(Number),
      },
    });
  });

  it('does nothing the second time, and records every change of a price, back and forth', async () => {
    await spend('a', { pricing: perToken(1) });
    const events: unknown[] = [];
    for (const nano of [1, 2, 2, 1, 1, null, null, 1]) {
      const { recalculated, withPricing, withoutPricing } = await again(perToken(nano));
      events.push([nano, recalculated, withPricing, withoutPricing]);
    }
    expect(events).toEqual([
      [1, 0, 1, 0],
      [2, 1, 1, 0],
      [2, 0, 1, 0],
      [1, 1, 1, 0],
      [1, 0, 1, 0],
      [null, 1, 0, 1],
      [null, 0, 0, 1],
      [1, 1, 1, 0],
    ]);
    expect((await corrections()).map(({ data }) => [data['previousTotalCost'], data['totalCost']])).toEqual([
      ['10', '20'],
      ['20', '10'],
      ['10', null],
      [null, '10'],
    ]);
  });

  it('makes no correction for an equal cost from another source', async () => {
    await spend('a', { pricing: perToken(1) });
    const moved: Pricing = { costOf: (spent) => ({ ...perToken(1).costOf(spent), priceSource: 'override:/' }) };
    expect(await again(moved)).toMatchObject({ matched: 1, recalculated: 0 });
  });

  it('is limited to its scope', async () => {
    await spend('a', { userPath: '/team/x' });
    await spend('b', { userPath: '/team' });
    await spend('c', { userPath: '/teams' });
    await spend('d', { userPath: '/', provider: 'other', model: 'big' });
    const matched = async (scope: RecalculationScope) => (await again(unpriced, scope)).matched;
    expect(await matched({})).toBe(4);
    expect(await matched({ userPath: '/team' as UserPath })).toBe(2);
    expect(await matched({ userPath: '/' as UserPath })).toBe(4);
    expect(await matched({ models: [{ provider: 'other', model: 'big' }] })).toBe(1);
    expect(await matched({ models: [{ provider: 'local-type', model: 'tiny' }] })).toBe(3);
    expect(await matched({ models: [{ provider: 'local', model: 'big' }] })).toBe(0);
    expect(await matched({ models: [] })).toBe(0);
    const now = Date.now();
    expect(await matched({ from: now - 60_000, until: now + 60_000 })).toBe(4);
    expect(await matched({ from: now + 60_000 })).toBe(0);
    expect(await matched({ until: now - 60_000 })).toBe(0);
  });

  it('corrects more than goes into one append', async () => {
    for (let i = 0; i < 300; i++) await spend(`e${i}`);
    expect(await again(perToken(1))).toMatchObject({ matched: 300, recalculated: 300 });
    expect(await again(perToken(1))).toMatchObject({ matched: 300, recalculated: 0 });
  });

  it('ends early when it is aborted, and does the rest the next time', async () => {
    for (let i = 0; i < 20; i++) await spend(`e${i}`);
    const stop = new AbortController();
    let priced = 0;
    const pricing: Pricing = {
      costOf(spent) {
        priced += 1;
        if (priced === 5) stop.abort();
        return perToken(1).costOf(spent);
      },
    };
    const first = await again(pricing, {}, stop.signal);
    expect(first).toMatchObject({ status: 'partial', matched: 5, recalculated: 5 });
    expect(await again(perToken(1))).toMatchObject({ status: 'ok', matched: 20, recalculated: 15 });
  });

  it('corrects an exchange that got an event after its usage', async () => {
    await spend('a');
    await spend('b');
    const later = { type: 'exchange.told', schema: 1, data: {}, context } as const;
    await opened.log.append([{ stream: streamName('exchange', 'a'), events: [later], expectedRevision: 0n }]);
    expect(await again(perToken(1))).toMatchObject({ matched: 2, recalculated: 2 });
    expect(await again(perToken(1))).toMatchObject({ matched: 2, recalculated: 0 });
    expect(await again(perToken(2))).toMatchObject({ matched: 2, recalculated: 2 });
  });

  it('is done once at a time', async () => {
    await spend('a');
    const run = createRecalculator(perToken(1), (work) => work(opened.log));
    const job = { scope: {}, context, signal: never };
    const first = run(job);
    await expect(run(job)).rejects.toMatchObject({ status: 409, code: 'recalculation_running' });
    expect(await first).toMatchObject({ recalculated: 1 });
    expect(await run(job)).toMatchObject({ recalculated: 0 });
  });

  it('leaves corrections made meanwhile by another run to the next time', async () => {
    await spend('a');
    await spend('b');
    const [one, other] = await Promise.all([again(perToken(1)), again(perToken(1))]);
    expect(one.recalculated + other.recalculated).toBe(2);
    expect(await corrections()).toHaveLength(2);
  });
});

describe('the newest corrections', () => {
  const word = (totalCost: string, revision: bigint) => ({
    costs: { inputCost: null, outputCost: null, totalCost, priceSource: 'config' },
    revision,
  });

  it('are kept as far as there is room, and others are reported as unsure', () => {
    const corrections = new NewestCorrections(2);
    corrections.note(streamName('exchange', 'a'), word('1', 3n));
    corrections.note(streamName('exchange', 'b'), word('2', 3n));
    corrections.note(streamName('exchange', 'c'), word('3', 3n));
    corrections.note(streamName('exchange', 'a'), word('4', 4n));
    expect(corrections.of(streamName('exchange', 'a'))).toEqual(word('4', 4n));
    expect(corrections.of(streamName('exchange', 'b'))).toEqual(word('2', 3n));
    expect(corrections.of(streamName('exchange', 'c'))).toBe('unsure');
    expect(corrections.of(streamName('exchange', 'd'))).toBeUndefined();
  });
});

describe('the set of seen streams', () => {
  it('has every name added, and few others by mistake', () => {
    const seen = new SeenNames();
    for (let i = 0; i < 20_000; i++) seen.add(streamName('exchange', `0199-${i}`));
    let mistaken = 0;
    for (let i = 0; i < 20_000; i++) {
      expect(seen.mayHave(streamName('exchange', `0199-${i}`))).toBe(true);
      if (seen.mayHave(streamName('exchange', `other-${i}`))) mistaken += 1;
    }
    expect(mistaken).toBeLessThan(200);
  });
});

describe('the models of a selector', () => {
  const known = {
    knows: (provider: string) => provider === 'openai',
    find: (selector: string) => (selector === 'tiny' ? { provider: 'local', model: 'tiny' } : undefined),
    behind: (alias: string) => (alias === 'fast' ? [{ provider: 'a', model: 'b' }] : undefined),
  };

  it.each([
    ['fast', [{ provider: 'a', model: 'b' }]],
    ['openai/gpt/4', [{ provider: 'openai', model: 'gpt/4' }]],
    ['tiny', [{ provider: 'local', model: 'tiny' }]],
    ['gone/model', [{ provider: 'gone', model: 'model' }]],
    ['nobody', undefined],
    ['/', undefined],
    ['openai/', undefined],
  ])('%s', (selector, models) => {
    expect(selectedModels(selector, known)).toEqual(models);
  });
});
