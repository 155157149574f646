import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readUsage, type TokenUsage, unknownUsage } from '../../src/commands/model-request/usage.ts';
import { costAt } from '../../src/commands/pricing/cost-of-usage.ts';
import { type ModelPricing, type Price, priceOf } from '../../src/commands/pricing/model-pricing.ts';
import type { PricedUsage } from '../../src/commands/pricing/pricing.ts';

function priced(pricing: ModelPricing): Price {
  const price = priceOf([{ source: 'config', pricing }]);
  if (price === undefined) throw new Error('it says nothing');
  return price;
}

type GatewayCompanions = Omit<PricedUsage, 'provider' | 'providerType' | 'model' | 'endpoint' | 'usage'>;

function costOf(pricing: ModelPricing, usage: Partial<TokenUsage>, beside: GatewayCompanions = {}) {
  return costAt(priced(pricing), {
    endpoint: '/v1/chat/completions',
    usage: { ...unknownUsage, source: 'provider', ...usage },
    ...beside,
  });
}

const chat: ModelPricing = { input_per_mtok: 2.5, output_per_mtok: 10, cached_input_per_mtok: 1.25 };

describe('the cost of usage', () => {
  it('is its tokens at their rates, in nano-dollars', () => {
    expect(costOf(chat, { inputTokens: 1000, outputTokens: 100 })).toEqual({
      inputCost: '2500000',
      outputCost: '1000000',
      totalCost: '3500000',
      price: chat,
      priceSource: 'config',
    });
  });

  it('subtracts cached input from the plain input', () => {
    const cost = costOf(chat, { inputTokens: 1000, cachedInputTokens: 800, outputTokens: 0 });
    expect(cost).toMatchObject({ inputCost: '1500000', outputCost: '0', totalCost: '1500000' });
  });

  it('charges cached input as plain input where it has no rate', () => {
    const { cached_input_per_mtok: _, ...plain } = chat;
    expect(costOf(plain, { inputTokens: 1000, cachedInputTokens: 800, outputTokens: 0 }).inputCost).toBe('2500000');
  });

  it('prices cache writes for an hour apart from those for five minutes', () => {
    const pricing = { ...chat, cache_write_per_mtok: 3, cache_write_1h_per_mtok: 5 };
    const usage = { inputTokens: 100, cacheWriteInputTokens: 60, cacheWrite1hInputTokens: 20, outputTokens: 0 };
    // 40 plain at 2.5, 40 at 3, 20 at 5.
    expect(costOf(pricing, usage).inputCost).toBe(String(40 * 2500 + 40 * 3000 + 20 * 5000));
  });

  it('prices thinking, audio and images apart where they have rates', () => {
    const pricing = {
      input_per_mtok: 1,
      output_per_mtok: 2,
      reasoning_output_per_mtok: 3,
      audio_input_per_mtok: 40,
      audio_output_per_mtok: 80,
      image_input_per_mtok: 10,
      output_image_per_mtok: 30,
    };
    const usage = {
      inputTokens: 100,
      audioInputTokens: 10,
      imageInputTokens: 20,
      outputTokens: 100,
      reasoningTokens: 10,
      audioOutputTokens: 20,
      imageOutputTokens: 30,
    };
    expect(costOf(pricing, usage)).toMatchObject({
      inputCost: String(70 * 1000 + 10 * 40_000 + 20 * 10_000),
      outputCost: String(40 * 2000 + 10 * 3000 + 20 * 80_000 + 30 * 30_000),
    });
  });

  it('has a caveat when audio or images are charged as text without a rate of their own', () => {
    const { caveat } = costOf(chat, { inputTokens: 10, audioInputTokens: 5, outputTokens: 10, imageOutputTokens: 5 });
    expect(caveat).toBe('without a rate of their own: audio input tokens, image output tokens');
  });

  it('names the counts that have no place in it', () => {
    const usage = readUsage({
      input_tokens: 10,
      output_tokens: 5,
      input_tokens_details: { video_tokens: 3, text_tokens: 7 },
      server_tool_use: { web_search_requests: 2 },
      citation_tokens: 0,
    });
    expect(costOf(chat, usage).caveat).toBe(
      'not priced: input_tokens_details.video_tokens, server_tool_use.web_search_requests',
    );
  });

  it('is not known where nothing was reported', () => {
    expect(costOf(chat, unknownUsage)).toMatchObject({
      inputCost: null,
      outputCost: null,
      totalCost: null,
      priceSource: 'config',
      caveat: 'the provider reported no usage',
    });
  });

  it('is zero where everything is free, whatever was reported', () => {
    const free = { input_per_mtok: 0, output_per_mtok: 0 };
    expect(costOf(free, unknownUsage)).toMatchObject({ inputCost: '0', outputCost: '0', totalCost: '0' });
    expect(costOf(free, { inputTokens: 5, outputTokens: 5 })).toMatchObject({ totalCost: '0' });
  });

  it('is not known where a used side has no rate', () => {
    expect(costOf({ input_per_mtok: 1 }, { inputTokens: 10, outputTokens: 5 })).toMatchObject({
      inputCost: '10000',
      outputCost: null,
      totalCost: null,
      caveat: expect.stringContaining('no rate for output'),
    });
  });

  it('is not known when the total includes an output that is not reported', () => {
    expect(costOf(chat, { inputTokens: 10, totalTokens: 30 })).toMatchObject({
      inputCost: '25000',
      outputCost: null,
      totalCost: null,
      caveat: expect.stringContaining('no rate for output, or its tokens are not reported'),
    });
    expect(costOf(chat, { inputTokens: 10, totalTokens: 10 }).totalCost).toBe('25000');
  });

  it('needs no rate for an absent output: embeddings', () => {
    expect(costOf({ input_per_mtok: 0.02 }, { inputTokens: 1000 })).toMatchObject({ totalCost: '20000' });
  });

  it('charges for requests, characters, images and seconds', () => {
    expect(costOf({ per_request: 0.005 }, { inputTokens: 10, outputTokens: 5 }).totalCost).toBe('5000000');
    expect(costOf({ per_character_input: 0.000015 }, unknownUsage, { units: { inputCharacters: 20 } }).totalCost).toBe(
      '300000',
    );
    expect(costOf({ per_image: 0.04 }, unknownUsage, { units: { outputImages: 2 } }).totalCost).toBe('80000000');
    expect(costOf({ per_second_input: 0.0001 }, { inputSeconds: 12.5 }).totalCost).toBe('1250000');
  });

  it('is not known where all rates are for units that are not counted', () => {
    expect(costOf({ per_page: 0.001 }, { inputTokens: 10, outputTokens: 1 })).toMatchObject({
      totalCost: null,
      caveat: 'not counted: per_page',
    });
  });

  it('charges a whole request at the rates of its size', () => {
    const pricing: ModelPricing = {
      input_per_mtok: 4,
      output_per_mtok: 8,
      tiers: [
        { up_to_tokens: 100, input_per_mtok: 1, output_per_mtok: 2 },
        { up_to_mtok: 0.0002, input_per_mtok: 2 },
      ],
    };
    const at = (inputTokens: number) => costOf(pricing, { inputTokens, outputTokens: 10 });
    expect(at(100)).toMatchObject({ inputCost: '100000', outputCost: '20000' });
    expect(at(200)).toMatchObject({ inputCost: '400000', outputCost: '80000' });
    expect(at(201)).toMatchObject({ inputCost: '804000', outputCost: '80000', price: { input_per_mtok: 4 } });
  });

  it('charges several answers at the rates of their average size, and says so', () => {
    const pricing: ModelPricing = {
      input_per_mtok: 4,
      output_per_mtok: 8,
      tiers: [{ up_to_tokens: 100, input_per_mtok: 1, output_per_mtok: 2 }],
    };
    const usage = { inputTokens: 1000, outputTokens: 10 };
    expect(costOf(pricing, usage, { answers: 10 })).toMatchObject({
      inputCost: '1000000',
      outputCost: '20000',
      caveat: 'priced by the average size of 10 answers',
    });
    expect(costOf(pricing, usage, { answers: 9 })).toMatchObject({ inputCost: '4000000', outputCost: '80000' });
  });

  it('charges parallel calls at the rates of the size of one, and a price per request for each', () => {
    const pricing: ModelPricing = {
      input_per_mtok: 4,
      output_per_mtok: 8,
      per_request: 1,
      tiers: [{ up_to_tokens: 100, input_per_mtok: 1, output_per_mtok: 2 }],
    };
    const cost = costOf(pricing, { inputTokens: 300, outputTokens: 10 }, { calls: 3 });
    expect(cost).toMatchObject({ inputCost: '3000300000', outputCost: '20000' });
    expect(cost.caveat).toBeUndefined();
  });

  it('charges batches at batch rates, and names another service in a caveat', () => {
    const batch = { ...chat, batch_input_per_mtok: 1.25, batch_output_per_mtok: 5 };
    const usage = (service_tier: string) => readUsage({ input_tokens: 100, output_tokens: 10, service_tier });
    expect(costOf(batch, usage('batch'))).toMatchObject({ inputCost: '125000', outputCost: '50000' });
    expect(costOf(chat, usage('batch')).caveat).toBe("service tier 'batch' priced as standard");
    expect(costOf(chat, usage('priority')).caveat).toBe("service tier 'priority' priced as standard");
    expect(costOf(chat, usage('standard')).caveat).toBeUndefined();
  });

  it('has a caveat when the answer broke off', () => {
    expect(costOf(chat, { inputTokens: 10, outputTokens: 1 }, { isPartial: true })).toMatchObject({
      totalCost: '35000',
      caveat: 'the answer broke off',
    });
  });
});

const rate = fc.integer({ min: 0, max: 500_000_000 }).map((millionths) => millionths / 1e6);
const tokens = fc.integer({ min: 0, max: 3_000_000 });
const flat = fc.record({ input_per_mtok: rate, output_per_mtok: rate, cached_input_per_mtok: rate });

describe('the law of costs', () => {
  it('a cost is exact to half a nano-dollar a side, and the sum of its sides', () => {
    fc.assert(
      fc.property(flat, tokens, tokens, (pricing, inputTokens, outputTokens) => {
        const cost = costOf(pricing, { inputTokens, outputTokens });
        const pico = (dollars: number, count: number) => BigInt(Math.round(dollars * 1e6)) * BigInt(count);
        const off = (reported: string | null, exact: bigint) => BigInt(reported ?? -1) * 1000n - exact;
        for (const [reported, exact] of [
          [cost.inputCost, pico(pricing.input_per_mtok, inputTokens)],
          [cost.outputCost, pico(pricing.output_per_mtok, outputTokens)],
        ] as const) {
          const difference = off(reported, exact);
          expect(difference > -500n && difference <= 500n).toBe(true);
        }
        expect(BigInt(cost.totalCost ?? -1)).toBe(BigInt(cost.inputCost ?? 0) + BigInt(cost.outputCost ?? 0));
      }),
    );
  });

  it('sums of many do not drift', () => {
    fc.assert(
      fc.property(flat, fc.array(fc.tuple(tokens, tokens), { minLength: 1, maxLength: 200 }), (pricing, requests) => {
        let reported = 0n;
        let exact = 0n;
        for (const [inputTokens, outputTokens] of requests) {
          reported += BigInt(costOf(pricing, { inputTokens, outputTokens }).totalCost ?? 0) * 1000n;
          exact += BigInt(Math.round(pricing.input_per_mtok * 1e6)) * BigInt(inputTokens);
          exact += BigInt(Math.round(pricing.output_per_mtok * 1e6)) * BigInt(outputTokens);
        }
        const drift = reported > exact ? reported - exact : exact - reported;
        expect(drift <= 1000n * BigInt(requests.length)).toBe(true);
      }),
    );
  });

  it('more tokens never cost less', () => {
    fc.assert(
      fc.property(flat, tokens, tokens, tokens, tokens, (pricing, input, output, moreInput, moreOutput) => {
        const less = costOf(pricing, { inputTokens: input, outputTokens: output });
        const more = costOf(pricing, { inputTokens: input + moreInput, outputTokens: output + moreOutput });
        expect(BigInt(more.totalCost ?? -1) >= BigInt(less.totalCost ?? -1)).toBe(true);
      }),
    );
  });

  it('reading from the cache is never dearer than not, where its rate is no higher', () => {
    fc.assert(
      fc.property(flat, tokens, fc.double({ min: 0, max: 1, noNaN: true }), (pricing, inputTokens, share) => {
        fc.pre(pricing.cached_input_per_mtok <= pricing.input_per_mtok);
        const cachedInputTokens = Math.floor(inputTokens * share);
        const cached = costOf(pricing, { inputTokens, outputTokens: 0, cachedInputTokens });
        const fresh = costOf(pricing, { inputTokens, outputTokens: 0, cachedInputTokens: 0 });
        expect(BigInt(cached.totalCost ?? -1) <= BigInt(fresh.totalCost ?? -1)).toBe(true);
      }),
    );
  });

  it('nothing is ever charged below zero, whatever a provider reports', () => {
    const odd = fc.record({
      inputTokens: tokens,
      outputTokens: tokens,
      cachedInputTokens: tokens,
      cacheWriteInputTokens: tokens,
      cacheWrite1hInputTokens: tokens,
      reasoningTokens: tokens,
      audioInputTokens: tokens,
      audioOutputTokens: tokens,
    });
    fc.assert(
      fc.property(flat, rate, odd, (pricing, other, usage) => {
        const dear = {
          ...pricing,
          cache_write_per_mtok: other,
          audio_input_per_mtok: other,
          reasoning_output_per_mtok: other,
        };
        const { inputCost, outputCost } = costOf(dear, usage);
        expect(BigInt(inputCost ?? -1) >= 0n && BigInt(outputCost ?? -1) >= 0n).toBe(true);
      }),
    );
  });
});
