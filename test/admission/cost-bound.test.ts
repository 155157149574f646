import { describe, expect, it } from 'vitest';
import { boundOfCounted, costBoundOf } from '../../src/commands/admission/cost-bound.ts';
import { type TokenUsage, unknownUsage } from '../../src/commands/model-request/usage.ts';
import type { ModelPricing } from '../../src/commands/pricing/model-pricing.ts';
import { PriceBook } from '../../src/commands/pricing/price-book.ts';
import type { Pricing, UsageCost } from '../../src/commands/pricing/pricing.ts';
import { type RequestFacts, requestFor, targetOf } from './request.ts';

interface Rates {
  readonly input?: number;
  readonly cacheWrite?: number;
  readonly output?: number;
  readonly reasoning?: number;
  readonly perRequest?: number;
}

/** Nano-dollars for each token of each model; the price of other models is unknown. */
function priced(models: Record<string, Rates>): Pricing {
  return {
    costOf({ model, usage }): UsageCost {
      const rates = models[model];
      if (rates === undefined) return { inputCost: null, outputCost: null, totalCost: null };
      const { input = 0, cacheWrite = input, output = 0, reasoning = output, perRequest = 0 } = rates;
      const written = usage.cacheWriteInputTokens ?? 0;
      const thought = usage.reasoningTokens ?? 0;
      const inputCost = perRequest + ((usage.inputTokens ?? 0) - written) * input + written * cacheWrite;
      const outputCost = ((usage.outputTokens ?? 0) - thought) * output + thought * reasoning;
      return {
        inputCost: String(inputCost),
        outputCost: String(outputCost),
        totalCost: String(inputCost + outputCost),
      };
    },
  };
}

const messages = [{ role: 'user', content: 'hello' }];
const limited = { messages, max_tokens: 50 };

function boundOf(
  facts: RequestFacts,
  rates: Record<string, Rates> = { tiny: { input: 1, output: 10 } },
  earlier?: number,
) {
  const request = requestFor({ bodyBytes: 300, json: limited, ...facts });
  return costBoundOf({ ...request, json: request.parsedRequest.json, earlierTokens: earlier }, priced(rates))();
}

describe('the bound of the cost of a request', () => {
  it('is a token per byte and the longest answer, at the dearest rates that apply', () => {
    expect(boundOf({})).toBe(300 + 100 + 500);
    expect(boundOf({ json: { ...limited, n: 3 } })).toBe(400 + 1500);
    expect(boundOf({}, { tiny: { input: 1, cacheWrite: 2, output: 10, reasoning: 12 } })).toBe(400 + 600);
    const cached = { ...limited, system: [{ type: 'text', text: 'x', cache_control: { type: 'ephemeral' } }] };
    expect(boundOf({ json: cached }, { tiny: { input: 1, cacheWrite: 2, output: 10 } })).toBe(800 + 500);
    const tools = [{ type: 'function', function: { name: 'f', parameters: { type: 'object' } } }];
    expect(boundOf({ json: { ...limited, tools } })).toBe(1300 + 500);
  });

  it('is that of the dearest candidate', () => {
    const candidates = [targetOf('local', 'tiny'), targetOf('local', 'large')];
    expect(boundOf({ candidates }, { tiny: { output: 1 }, large: { output: 4 } })).toBe(200);
    expect(boundOf({ candidates }, { tiny: { output: 1 } })).toBe(50);
  });

  it('is that of the dearest tier that the request can end in', () => {
    /** 100 nano-dollars for a token of an answer to up to `end` tokens, 1 beyond. */
    const tiered = (end: number): Pricing => ({
      costOf({ usage }): UsageCost {
        const outputCost = String((usage.outputTokens ?? 0) * ((usage.inputTokens ?? 0) <= end ? 100 : 1));
        return { inputCost: '0', outputCost, totalCost: outputCost };
      },
      tierEnds: () => [end],
    });
    const request = { ...requestFor({ bodyBytes: 300, json: limited }), json: limited };
    for (const end of [1, 50, 399, 400, 1000, 5_000_000]) expect(costBoundOf(request, tiered(end))()).toBe(5000);
  });

  it('counts the earlier turns', () => {
    const json = { input: 'hi', max_output_tokens: 50, previous_response_id: 'resp_1' };
    expect(boundOf({ json, endpoint: '/v1/responses' }, undefined, 40)).toBe(400 + 40 + 500);
    expect(boundOf({ json, endpoint: '/v1/responses' })).toBeUndefined();
  });

  it.each([
    ['/v1/chat/completions', 'vllm', ['max_completion_tokens', 'max_tokens']],
    ['/v1/chat/completions', 'llamacpp', ['max_completion_tokens', 'max_tokens', 'n_predict']],
    ['/v1/chat/completions', 'ollama', ['max_completion_tokens', 'max_tokens', 'num_predict']],
    ['/v1/completions', 'vllm', ['max_tokens']],
    ['/v1/responses', 'vllm', ['max_output_tokens']],
    ['/v1/messages', 'anthropic', ['max_tokens']],
  ])('has only the limits of its own API: %s of %s', (endpoint, type, names) => {
    const candidates = [targetOf('local', 'tiny', type)];
    const bound = (json: Record<string, unknown>) => boundOf({ candidates, endpoint, json });
    const all = ['max_completion_tokens', 'max_tokens', 'max_output_tokens', 'n_predict', 'num_predict'];
    expect(all.filter((name) => bound({ [name]: 5 }) !== undefined)).toEqual(names);
    const isOllama = type === 'ollama';
    expect(bound({ options: { num_predict: 5 } })).toBe(isOllama ? 400 + 50 : undefined);
    const [own = ''] = names;
    for (const value of [7, -1, 0.5, '7']) {
      expect(bound({ [own]: 5, max_new_tokens: value })).toBe(400 + 50);
      const ofOllama = value === 7 ? 400 + 70 : undefined;
      expect(bound({ [own]: 5, options: { num_predict: value } })).toBe(isOllama ? ofOllama : 400 + 50);
    }
  });

  it('counts the limits that a translation for the provider passes on', () => {
    const bound = (type: string, endpoint: string, json: Record<string, unknown>) =>
      boundOf({ candidates: [targetOf('local', 'tiny', type)], endpoint, json });
    const messages = { max_tokens: 5, max_completion_tokens: 7 };
    expect(bound('vllm', '/v1/messages', messages)).toBe(400 + 70);
    expect(bound('anthropic', '/v1/messages', messages)).toBe(400 + 50);
    const response = { max_output_tokens: 5, max_tokens: 7 };
    expect(bound('vllm', '/v1/responses', response)).toBe(400 + 70);
    expect(bound('openai', '/v1/responses', response)).toBe(400 + 50);
    expect(bound('vllm', '/v1/responses', { max_output_tokens: 5, max_tokens: -1 })).toBeUndefined();
  });

  it('counts each answer that may be generated', () => {
    expect(boundOf({ json: { ...limited, n: 3, best_of: 5 } })).toBe(400 + 2500);
    expect(boundOf({ json: { ...limited, n: 5000 } })).toBe(400 + 2_500_000);
    const endpoint = '/v1/completions';
    expect(boundOf({ endpoint, json: { prompt: ['a', 'b'], max_tokens: 50 } })).toBe(400 + 1000);
    expect(boundOf({ endpoint, json: { prompt: [1, 2, 3], max_tokens: 50 } })).toBe(400 + 500);
    expect(boundOf({ endpoint, json: { prompt: [1, 'b'], max_tokens: 50 } })).toBe(400 + 1000);
  });

  it('does not exist where the provider may read another value of a member', () => {
    const part = (members: object) => ({ messages: [{ role: 'user', content: [{ text: 'hi', ...members }] }] });
    const bound = (members: object) => boundOf({ json: { ...limited, ...part(members) } });
    expect(bound({ type: 'text', Text_Id: 1 })).toBe(400 + 500);
    expect(bound({ type: 'text', Type: 'image_url' })).toBeUndefined();
    expect(bound({ TYPE: 'text', Type: 'image_url' })).toBeUndefined();
    expect(bound({ kind: 1, '\u212aind': 2 })).toBeUndefined();
    expect(boundOf({ json: { ...limited, Max_Tokens: 1000 } })).toBeUndefined();
    const request = requestFor({ json: limited });
    const tiny = priced({ tiny: { input: 1, output: 10 } });
    expect(costBoundOf({ ...request, json: limited, isAmbiguous: true }, tiny)()).toBeUndefined();
  });

  it('needs no limit of the answer where the price does not depend on it', () => {
    expect(boundOf({ json: { messages } }, { tiny: { perRequest: 7 } })).toBe(7);
    expect(boundOf({ json: { input: 'x' }, endpoint: '/v1/embeddings' })).toBe(400);
    expect(boundOf({ endpoint: '/v1/audio/speech' }, { tiny: { perRequest: 7 } })).toBe(7);
  });

  it.each([
    ['without a limit of the answer', { messages }],
    ['with a limit that is not a number of tokens', { messages, max_tokens: -1 }],
    ['with a limit as text', { messages, max_tokens: '1000' }],
    ['with a fraction as limit', { messages, max_tokens: 10.5 }],
    ['with a limit and another one as text', { ...limited, max_completion_tokens: '1000' }],
    ['with a number of answers as text', { ...limited, n: '10' }],
    ['with a list as number of answers', { ...limited, n: [10] }],
    ['with no answers', { ...limited, n: 0 }],
    ['with a number of generated answers as text', { ...limited, best_of: '10' }],
    ['with an image', { ...limited, messages: [{ role: 'user', content: [{ type: 'image_url', image_url: {} }] }] }],
    [
      'with a document in a tool result',
      { ...limited, messages: [{ content: [{ content: [{ type: 'document' }] }] }] },
    ],
    ['with a tool that the provider runs', { ...limited, tools: [{ type: 'web_search' }] }],
    ['with a search', { ...limited, web_search_options: {} }],
    ['with audio in the answer', { ...limited, modalities: ['text', 'audio'] }],
    ['with a stored prompt', { ...limited, prompt: { id: 'pmpt_1' } }],
    ['with items named by their id alone', { ...limited, input: [{ id: 'msg_1' }] }],
    ['with items named by id', { ...limited, input: [{ type: 'item_reference', id: 'msg_1' }] }],
  ])('does not exist for a request %s', (_name, json) => {
    expect(boundOf({ json })).toBeUndefined();
  });

  it('does not exist on a provider’s own API, nor where only the provider knows its price', () => {
    expect(boundOf({ candidates: [targetOf('local', '')] })).toBeUndefined();
    expect(boundOf({ candidates: [targetOf('router', 'unknown', 'openrouter')] })).toBeUndefined();
    expect(boundOf({ candidates: [targetOf('local', 'unknown')] })).toBe(0);
  });
});

describe('the bound of a request whose provider has counted the input', () => {
  const bound = (usage: Partial<TokenUsage>, pricing: Pricing) => {
    const { candidates, endpoint, units } = requestFor({});
    const counted = { usage: { ...unknownUsage, ...usage }, outputTokens: 50 };
    return boundOfCounted(candidates[0] ?? targetOf('local', 'tiny'), { endpoint, units }, counted, pricing);
  };

  it('is the counted input, also of the prompt cache, and the longest answer at the dearest rate', () => {
    const rates = { tiny: { input: 1, cacheWrite: 2, output: 10, reasoning: 12 } };
    expect(bound({ inputTokens: 80, outputTokens: 1 }, priced(rates))).toBe(80 + 600);
    expect(bound({ inputTokens: 80, cacheWriteInputTokens: 30 }, priced(rates))).toBe(50 + 60 + 600);
    expect(bound({ inputTokens: 80 }, priced({}))).toBeUndefined();
  });

  it('is that of the tier in which the counted input is', () => {
    const tiered: Pricing = {
      costOf: ({ usage: { inputTokens, outputTokens } }) => {
        const rate = (inputTokens ?? 0) > 100 ? 3 : 1;
        const [input, output] = [(inputTokens ?? 0) * rate, (outputTokens ?? 0) * rate];
        return { inputCost: String(input), outputCost: String(output), totalCost: String(input + output) };
      },
    };
    expect(bound({ inputTokens: 100 }, tiered)).toBe(150);
    expect(bound({ inputTokens: 101 }, tiered)).toBe(453);
  });
});

describe('the bound at a price that changes', () => {
  const limit = { ...requestFor({ bodyBytes: 300, json: limited }), json: limited };

  it('follows the price, for requests and for batches', () => {
    let pricing: ModelPricing = { input_per_mtok: 1, output_per_mtok: 2, batch_output_per_mtok: 0 };
    let version = 1;
    const prices = new PriceBook({
      overrides: {
        get state() {
          return { version, byKey: new Map([['tiny', { value: { selector: 'tiny', pricing } }]]) } as never;
        },
      },
      configured: () => undefined,
      snapshot: { date: '2026-01-01', find: () => undefined },
      typeOf: () => 'vllm',
    });
    const bound = (pricedAs?: string) => costBoundOf({ ...limit, ...(pricedAs && { pricedAs }) }, prices)();
    for (const [rates, expected, ofBatch] of [
      [pricing, 400_000 + 100_000, 400_000],
      [{ output_per_mtok: 2, input_per_mtok: 0, reasoning_output_per_mtok: 3 }, 150_000, 150_000],
      [{ input_per_mtok: 1 }, undefined, undefined],
      [{ input_per_mtok: 0, output_per_mtok: 0 }, 0, 0],
    ] as const) {
      pricing = rates;
      version += 1;
      for (let again = 0; again < 2; again++) {
        expect([bound(), bound('/v1/batches')]).toEqual([expected, ofBatch]);
      }
    }
  });
});
