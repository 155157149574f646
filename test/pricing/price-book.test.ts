import { describe, expect, it } from 'vitest';
import { readUsage, unknownUsage } from '../../src/commands/model-request/usage.ts';
import {
  configuredPrices,
  type ModelPricing,
  type PriceOverride,
  pricingSchema,
} from '../../src/commands/pricing/model-pricing.ts';
import { PriceBook, type PriceSnapshot } from '../../src/commands/pricing/price-book.ts';
import { priceSnapshot } from '../../src/commands/pricing/price-snapshot.ts';
import type { SavedObjects } from '../../src/projections/administered.ts';

interface Given {
  overrides?: Record<string, ModelPricing>;
  configured?: Record<string, ModelPricing>;
  snapshot?: Record<string, ModelPricing>;
}

/** A book in which a provider `<type>-1` is of that type. */
function bookOf({ overrides = {}, configured = {}, snapshot = {} }: Given) {
  const said: SavedObjects<PriceOverride> = { version: 0, byKey: new Map() };
  const set = (selector: string, pricing: ModelPricing) => {
    said.byKey.set(selector, { value: { selector, pricing }, createdAt: 0, updatedAt: 0, revision: 0 });
    said.version += 1;
  };
  for (const [selector, pricing] of Object.entries(overrides)) set(selector, pricing);
  const table: PriceSnapshot = { date: '2026-01-01', find: (type, model) => snapshot[`${type}/${model}`] };
  const book = new PriceBook({
    overrides: { state: said },
    configured: (provider, model) => configured[`${provider}/${model}`],
    snapshot: table,
    typeOf: (name) => (name.endsWith('-1') ? name.slice(0, -2) : undefined),
  });
  return { book, set };
}

function costOf(book: PriceBook, raw: unknown, model = 'small', type = 'openai') {
  const spent = { provider: `${type}-1`, providerType: type, model, endpoint: '/v1/chat/completions' };
  return book.costOf({ ...spent, usage: readUsage(raw) });
}

const raw = { prompt_tokens: 1000, completion_tokens: 0, total_tokens: 1000 };
const at = (dollars: number) => ({ input_per_mtok: dollars, output_per_mtok: dollars });

describe('the price in force', () => {
  it('is none without any source, and the cost is not known', () => {
    expect(costOf(bookOf({}).book, raw)).toEqual({ inputCost: null, outputCost: null, totalCost: null });
  });

  it('is that of the most specific override, or of the snapshot without one', () => {
    const { book, set } = bookOf({ snapshot: { 'openai/small': at(1) } });
    const now = () => costOf(book, raw);
    expect(now()).toMatchObject({ totalCost: '1000000', priceSource: 'snapshot:2026-01-01' });
    set('/', at(3));
    expect(now()).toMatchObject({ totalCost: '3000000', priceSource: 'override:/' });
    set('openai-1/', at(4));
    expect(now()).toMatchObject({ totalCost: '4000000', priceSource: 'override:openai-1/' });
    set('small', at(5));
    expect(now()).toMatchObject({ totalCost: '5000000', priceSource: 'override:small' });
    set('openai-1/small', at(6));
    expect(now()).toMatchObject({ totalCost: '6000000', priceSource: 'override:openai-1/small' });
    expect(costOf(book, raw, 'other')).toMatchObject({ priceSource: 'override:openai-1/' });
    expect(costOf(book, raw, 'small', 'groq')).toMatchObject({ priceSource: 'override:small' });
  });

  it('is that of the configuration before that of the snapshot', () => {
    const { book } = bookOf({ snapshot: { 'openai/small': at(1) }, configured: { 'openai-1/small': at(2) } });
    expect(costOf(book, raw)).toMatchObject({ totalCost: '2000000', priceSource: 'config' });
  });

  it('takes each rate from the highest-ranking source that has it, and lists the sources', () => {
    const { book } = bookOf({
      overrides: { small: { cached_input_per_mtok: 0.5 } },
      configured: { 'openai-1/small': { output_per_mtok: 9 } },
      snapshot: { 'openai/small': at(1) },
    });
    expect(costOf(book, raw)).toMatchObject({
      price: { input_per_mtok: 1, output_per_mtok: 9, cached_input_per_mtok: 0.5 },
      priceSource: 'override:small+config+snapshot:2026-01-01',
    });
  });

  it('applies an override of a rate in all tiers of lower-ranking sources', () => {
    const tiers = [{ up_to_tokens: 2000, ...at(1) }];
    const { book } = bookOf({ overrides: { small: at(7) }, snapshot: { 'openai/small': { ...at(2), tiers } } });
    expect(costOf(book, raw)).toMatchObject({ totalCost: '7000000', priceSource: 'override:small' });
  });

  it('of a model whose id has a slash is not that of a provider of that name', () => {
    const { book } = bookOf({ overrides: { 'openai/gpt-oss-20b': at(1) } });
    expect(costOf(book, raw, 'openai/gpt-oss-20b', 'groq').totalCost).toBeNull();
  });

  it("is the provider's reported cost before any table", () => {
    const { book } = bookOf({ overrides: { '/': at(1) } });
    expect(costOf(book, { ...raw, cost: 0.00123 }, 'any', 'openrouter')).toEqual({
      inputCost: null,
      outputCost: null,
      totalCost: '1230000',
      priceSource: 'provider_reported',
    });
    const own = { ...raw, cost: 0.001, is_byok: true, cost_details: { upstream_inference_cost: 0.02 } };
    expect(costOf(book, own, 'any', 'openrouter').totalCost).toBe('21000000');
    expect(costOf(book, { ...raw, cost_in_usd_ticks: 37_756_000 }, 'grok', 'xai').totalCost).toBe('3775600');
    expect(costOf(book, { ...raw, cost: 5 }, 'small', 'openai')).toMatchObject({ priceSource: 'override:/' });
  });

  it.each([-1, Number.NaN, 1e12, 'a lot', null])('ignores a reported cost of %s', (cost) => {
    const { book } = bookOf({ overrides: { '/': at(1) } });
    expect(costOf(book, { ...raw, cost }, 'any', 'openrouter')).toMatchObject({ priceSource: 'override:/' });
  });

  it('is a number to compare models by, and none where no price is known', () => {
    const { book, set } = bookOf({ snapshot: { 'openai/small': { input_per_mtok: 1, output_per_mtok: 4 } } });
    expect(book.priceOf('openai-1', 'small')).toBe(5);
    expect(book.rates('openai-1', 'small')).toEqual({ inputPerMtok: 1, outputPerMtok: 4, perRequest: 0 });
    expect(book.priceOf('openai-1', 'other')).toBeUndefined();
    expect(book.priceOf('stranger', 'small')).toBeUndefined();
    set('small', { input_per_mtok: 2 });
    expect(book.priceOf('openai-1', 'small')).toBe(6);
  });

  it('is that of the current type of the provider', () => {
    const { book } = bookOf({ snapshot: { 'openai/small': at(1), 'groq/small': at(2) } });
    const asType = (providerType: string) =>
      book.costOf({ provider: 'mine', providerType, model: 'small', endpoint: '/v1/x', usage: readUsage(raw) });
    expect(asType('openai').totalCost).toBe('1000000');
    expect(asType('groq').totalCost).toBe('2000000');
    expect(asType('openai').totalCost).toBe('1000000');
  });

  it('is computed again rather than cached for all names that clients invent', () => {
    const { book } = bookOf({ overrides: { '/': at(1) } });
    for (let i = 0; i < 25_000; i++) costOf(book, raw, `made-up-${i}`);
    expect(costOf(book, raw, 'made-up-1')).toMatchObject({ totalCost: '1000000' });
  });
});

describe('the snapshot that comes with the gateway', () => {
  const find = (type: string, model: string) => priceSnapshot.find(type, model);

  it('is of a day', () => {
    expect(priceSnapshot.date).toMatch(/^\d{4}-\d\d-\d\d$/);
  });

  it('holds only prices that an administrator could have set too', () => {
    for (const [type, model] of [
      ['openai', 'gpt-4o-mini'],
      ['openai', 'gpt-5.5'],
      ['openai', 'gpt-image-1'],
      ['openai', 'whisper-1'],
      ['anthropic', 'claude-haiku-5-5'],
      ['gemini', 'gemini-2.5-pro'],
      ['gemini', 'gemini-2.5-flash'],
      ['groq', 'openai/gpt-oss-120b'],
      ['mistral', 'codestral-embed'],
      ['xai', 'grok-4.3'],
    ] as const) {
      expect(pricingSchema.safeParse(find(type, model))).toMatchObject({ success: true });
    }
  });

  it('finds a version by its date, and a variant with other prices by its own name', () => {
    expect(find('openai', 'gpt-4o-mini-2024-07-18')).toEqual(find('openai', 'gpt-4o-mini'));
    expect(find('anthropic', 'claude-haiku-4-5-20251001')).toEqual(find('anthropic', 'claude-haiku-4-5'));
    expect(find('openai', 'gpt-4o-2024-05-13')).toEqual({ input_per_mtok: 5, output_per_mtok: 15 });
  });

  it.each([
    ['openai', 'gpt-4o-of-my-own'],
    ['openai', 'constructor'],
    ['anthropic', 'gpt-4o'],
    ['llamacpp', 'gpt-4o'],
    ['ollama', 'llama3'],
    ['__proto__', 'toString'],
  ])('has no price for %s/%s', (type, model) => {
    expect(find(type, model)).toBeUndefined();
  });

  it('charges a long request at the rates of long requests, all of it', () => {
    const book = new PriceBook({
      overrides: { state: { version: 0, byKey: new Map() } },
      configured: () => undefined,
      snapshot: priceSnapshot,
      typeOf: () => 'gemini',
    });
    const cost = (inputTokens: number) => {
      const usage = { ...unknownUsage, source: 'provider' as const, inputTokens, outputTokens: 1000 };
      return book.costOf({ provider: 'g', providerType: 'gemini', model: 'gemini-2.5-pro', endpoint: '', usage });
    };
    expect(cost(200_000)).toMatchObject({ inputCost: '250000000', outputCost: '10000000' });
    expect(cost(200_001)).toMatchObject({ inputCost: '500002500', outputCost: '15000000' });
  });
});

describe('prices of the configuration', () => {
  const declared = (pricing: unknown) =>
    configuredPrices([{ name: 'local', models: [{ id: 'm', metadata: { pricing } }] }]);

  it('are found by provider and model', () => {
    const prices = declared({ currency: 'USD', input_per_mtok: 1, tiers: [{ up_to_mtok: 0.1, input_per_mtok: 0.5 }] });
    expect(prices.get('local')?.get('m')).toEqual({
      input_per_mtok: 1,
      tiers: [{ up_to_mtok: 0.1, input_per_mtok: 0.5 }],
    });
    expect(configuredPrices([{ name: 'local', models: [{ id: 'm' }] }]).size).toBe(0);
  });

  it.each([
    [{ input_per_mtok: -1 }, "at 'input_per_mtok': an amount cannot be negative"],
    [{ currency: 'EUR', input_per_mtok: 1 }, "at 'currency'"],
    [{ input_per_token: 1 }, 'is not valid'],
    ['cheap', 'is not valid'],
  ])('%j is refused with its place', (pricing, problem) => {
    expect(() => declared(pricing)).toThrow("providers.local.models: the pricing of 'm'");
    expect(() => declared(pricing)).toThrow(problem);
  });
});
