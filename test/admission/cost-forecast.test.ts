import { describe, expect, test } from 'vitest';
import { CostForecaster } from '../../src/commands/admission/cost-forecast.ts';
import { unknownUsage } from '../../src/commands/model-request/usage.ts';
import type { Pricing } from '../../src/commands/pricing/pricing.ts';
import { requestFor, targetOf } from './request.ts';

const tiny = targetOf('local', 'tiny');

/** Nano-dollars for a token of input, for one of output, and for each request; the cost of other models is unknown. */
function priced(input: number, output: number, request = 0): Pricing {
  return {
    costOf: ({ model, usage }) => ({
      totalCost:
        model === 'tiny'
          ? String(request + (usage.inputTokens ?? 0) * input + (usage.outputTokens ?? 0) * output)
          : null,
    }),
  } as Pricing;
}

const spent = (inputTokens: number, outputTokens: number, totalCost: string | null = '1') => ({
  usage: { ...unknownUsage, inputTokens, outputTokens },
  totalCost,
});

describe('the forecast of a request', () => {
  test('is estimated from its size and its limits, before any request was observed', () => {
    const forecaster = new CostForecaster(priced(1, 10));
    const request = requestFor({ bodyBytes: 300, json: { max_completion_tokens: 50 } });
    expect(forecaster.forecast(request)).toEqual({ least: 0, likely: 100 + 500, most: 100 + 500, learned: false });
    expect(forecaster.forecast(requestFor({ bodyBytes: 300 })).likely).toBe(100 + 10_240);
  });

  test('is known when it is a price per request', () => {
    const forecaster = new CostForecaster(priced(0, 0, 7));
    expect(forecaster.forecast(requestFor({}))).toEqual({ least: 7, likely: 7, most: 7, learned: true });
  });

  test('is the highest cost of recent requests of its size', () => {
    const forecaster = new CostForecaster(priced(1, 10));
    const request = requestFor({ bodyBytes: 300 });
    forecaster.learn(tiny, request, spent(30, 20));
    forecaster.learn(tiny, request, spent(60, 10));
    const { likely, learned } = forecaster.forecast(requestFor({ bodyBytes: 600 }));
    expect(learned).toBe(true);
    expect(likely).toBe(120 + 200);
  });

  test('fades towards the usual cost', () => {
    const forecaster = new CostForecaster(priced(0, 1));
    forecaster.learn(tiny, requestFor({}), spent(0, 1000));
    for (let request = 0; request < 200; request++) forecaster.learn(tiny, requestFor({}), spent(0, 10));
    expect(forecaster.forecast(requestFor({})).likely).toBeLessThan(15);
  });

  test('is kept for a model in use, however many others are observed', () => {
    const forecaster = new CostForecaster(priced(0, 1));
    forecaster.learn(tiny, requestFor({}), spent(0, 1000));
    for (let other = 0; other < 20_000; other++) {
      forecaster.forecast(requestFor({}));
      forecaster.learn(targetOf('local', `other-${other}`), requestFor({}), spent(0, 1));
    }
    const { likely, learned } = forecaster.forecast(requestFor({}));
    expect([likely, learned]).toEqual([1000, true]);
  });

  test('is never more than the request allows', () => {
    const forecaster = new CostForecaster(priced(0, 1));
    forecaster.learn(tiny, requestFor({}), spent(0, 1000));
    expect(forecaster.forecast(requestFor({ json: { max_tokens: 5 } })).likely).toBe(5);
  });

  test('counts every requested answer', () => {
    const forecaster = new CostForecaster(priced(0, 1));
    expect(forecaster.forecast(requestFor({ json: { max_tokens: 5, n: 3 } })).likely).toBe(15);
  });

  test('counts numbers as text, which some providers accept', () => {
    const forecaster = new CostForecaster(priced(0, 1));
    expect(forecaster.forecast(requestFor({ json: { max_tokens: 5, n: '3' } })).likely).toBe(15);
    expect(forecaster.forecast(requestFor({ json: { max_tokens: 5, best_of: '1_0' } })).likely).toBe(50);
    expect(forecaster.forecast(requestFor({ json: { max_tokens: '8000', n: 2 } }))).toMatchObject({
      likely: 2048,
      most: 16_000,
    });
    // Others ignore such a limit.
    expect(forecaster.forecast(requestFor({ json: { max_tokens: '5' } })).most).toBe(1024);
    expect(forecaster.ofBatch(tiny, '/v1/chat/completions', { max_tokens: '8000' }, 0).outputTokens).toBe(8000);
    expect(forecaster.ofBatch(tiny, '/v1/chat/completions', { max_tokens: '5' }, 0).outputTokens).toBe(1024);
  });

  test('counts every answer that is made, although fewer are returned', () => {
    const forecaster = new CostForecaster(priced(0, 1));
    expect(forecaster.forecast(requestFor({ json: { max_tokens: 5, best_of: 20, n: 2 } })).likely).toBe(100);
  });

  test('is at most that of the longest answer that the request allows, however short others were', () => {
    const forecaster = new CostForecaster(priced(0, 1));
    forecaster.learn(tiny, requestFor({}), spent(0, 20));
    expect(forecaster.forecast(requestFor({ json: { max_tokens: 8000, n: 2 } }))).toMatchObject({
      likely: 40,
      most: 16_000,
    });
    expect(forecaster.forecast(requestFor({}))).toMatchObject({ likely: 20, most: 20 });
  });

  test('counts the earlier turns of its conversation', () => {
    const forecaster = new CostForecaster(priced(1, 0));
    expect(forecaster.forecast(requestFor({ bodyBytes: 300 }), { likely: 30_000, most: () => undefined }).likely).toBe(
      30_100,
    );
  });

  test('has no output where none is made', () => {
    const forecaster = new CostForecaster(priced(0, 1));
    expect(forecaster.forecast(requestFor({ endpoint: '/v1/embeddings' })).likely).toBe(0);
  });

  test('is that of the dearest candidate', () => {
    const forecaster = new CostForecaster(priced(0, 1));
    const unknown = targetOf('router', 'unknown', 'openrouter');
    const json = { max_tokens: 5 };
    expect(forecaster.forecast(requestFor({ json, candidates: [tiny, unknown] })).likely).toBeUndefined();
    forecaster.learn(unknown, requestFor({}), spent(1, 1, '3'));
    expect(forecaster.forecast(requestFor({ json, candidates: [tiny, unknown] })).likely).toBe(5);
  });

  test('is unknown where the provider reports the cost, until it has done so', () => {
    const forecaster = new CostForecaster(priced(0, 1));
    const request = requestFor({ candidates: [targetOf('router', 'unknown', 'openrouter')] });
    expect(forecaster.forecast(request)).toEqual({ least: 0, likely: undefined, most: undefined, learned: false });
    forecaster.learn(targetOf('router', 'unknown', 'openrouter'), request, spent(1, 1, '3'));
    expect(forecaster.forecast(request)).toEqual({ least: 0, likely: 3, most: 3, learned: true });
  });

  test('is zero for a model whose cost is never reported', () => {
    const forecaster = new CostForecaster(priced(0, 1));
    const request = requestFor({ candidates: [targetOf('local', 'unknown')] });
    expect(forecaster.forecast(request)).toEqual({ least: 0, likely: 0, most: 0, learned: true });
  });

  test('includes units other than tokens', () => {
    const pricing = { costOf: ({ units }) => ({ totalCost: String((units?.outputImages ?? 0) * 40) }) } as Pricing;
    const request = requestFor({ units: { outputImages: 2 } });
    expect(new CostForecaster(pricing).forecast(request)).toEqual({ least: 80, likely: 80, most: 80, learned: true });
  });

  test('is that of others of its kind where the model is not read', () => {
    const forecaster = new CostForecaster(priced(1, 1, 1));
    const passed = (endpoint: string) => requestFor({ candidates: [targetOf('local', '')], endpoint });
    forecaster.learn(targetOf('local', ''), passed('/p'), spent(1, 1, '9'));
    expect(forecaster.forecast(passed('/p'))).toEqual({ least: 0, likely: 9, most: 9, learned: true });
    expect(forecaster.forecast(passed('/v1/files')).likely).toBe(0);
  });

  test('is zero where tokens are only counted', () => {
    const forecaster = new CostForecaster(priced(1, 1, 1));
    expect(forecaster.forecast(requestFor({ endpoint: '/v1/messages/count_tokens' })).likely).toBe(0);
  });

  test('is zero for a request without a model', () => {
    const forecaster = new CostForecaster(priced(1, 1, 1));
    expect(forecaster.forecast(requestFor({ candidates: [targetOf('local', '')] })).likely).toBe(0);
  });
});

test('what a request can still cost is known from the counted input and its limit, unless it is one of several calls', () => {
  const forecaster = new CostForecaster(priced(1, 10));
  const bound = (json: Record<string, unknown>, type: string, sent?: number) => {
    const target = targetOf('local', 'tiny', type);
    const usage = { ...unknownUsage, inputTokens: 30 };
    return forecaster.boundOfCounted(target, requestFor({ json, candidates: [target] }), usage, sent);
  };
  expect(bound({ max_tokens: 5 }, 'anthropic')).toBe(30 + 50);
  expect(bound({ max_tokens: 5 }, 'anthropic', 4)).toBe(30 + 40);
  expect(bound({ max_tokens: 5, n: 3 }, 'gemini')).toBe(30 + 150);
  expect(bound({ max_tokens: 5, n: 3 }, 'anthropic')).toBeUndefined();
  expect(bound({}, 'anthropic')).toBeUndefined();
});
