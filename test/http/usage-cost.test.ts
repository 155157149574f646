/** Usage as each kind of provider reports it, its place in the record, and its cost. */
import { afterAll, describe, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import type { Answered } from '../support/answered.ts';
import { newKey, put } from '../support/managed-keys.ts';
import { type ScriptedProvider, startScriptedProvider } from '../support/scripted-provider.ts';
import { eventsOfExchange, eventsUntil, exchangeOf, readUntil, user, withGateway } from '../support/with-gateway.ts';

const KEY = 'sk-of-all';
const ollama = createSimulatedProvider();
let scripted: ScriptedProvider;
const gateway = withGateway(async () => {
  scripted = await startScriptedProvider();
  const { url } = scripted;
  return {
    simulated: { models: ['claude-sonnet-4-6', 'simulated-small'] },
    register: (own) => ({ LLAMACPP_BASE_URL: own, ANTHROPIC_BASE_URL: own, ANTHROPIC_API_KEY: KEY }),
    env: {
      CONFIGURED_PROVIDER_MODELS_MODE: 'merge',
      OPENAI_BASE_URL: url,
      OPENAI_API_KEY: KEY,
      OPENAI_MODELS: 'gpt-4o-mini-2024-07-18,gpt-audio,text-embedding-3-small,tts-1,whisper-1,gpt-image-1',
      XAI_BASE_URL: url,
      XAI_API_KEY: KEY,
      OPENROUTER_BASE_URL: url,
      OPENROUTER_API_KEY: KEY,
      GEMINI_BASE_URL: url,
      GEMINI_API_KEY: KEY,
      GEMINI_MODELS: 'gemini-2.5-pro',
      OLLAMA_BASE_URL: new URL(await ollama.listen()).origin,
      RETRY_MAX_RETRIES: '0',
      CIRCUIT_BREAKER_ENABLED: 'false',
    },
  };
});
afterAll(async () => {
  await scripted.close();
  await ollama.close();
});

/** The recorded usage of an exchange. */
async function usageOf(id: string): Promise<Answered> {
  const events = await eventsOfExchange(gateway, id);
  const found = events.find(({ type }) => type === 'usage.recorded');
  if (found === undefined) throw new Error(`no usage among ${events.map(({ type }) => type).join(', ')}`);
  return found.data;
}

async function spentOn(path: string, body: object, init?: RequestInit): Promise<Answered> {
  const answer = await gateway.post(path, body, init);
  const text = await answer.text();
  expect({ status: answer.status, text }).toMatchObject({ status: 200 });
  return usageOf(exchangeOf(answer));
}

/** The scripted provider answers any request with this. */
function answersWith(json: object): void {
  scripted.script((_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(json));
  });
}

function completion(usage: object | undefined): object {
  const message = { role: 'assistant', content: 'Hello.' };
  return { id: 'c', object: 'chat.completion', choices: [{ index: 0, message, finish_reason: 'stop' }], usage };
}

const chat = (model: string) => ({ model, messages: user('Hello?') });
const CHAT = '/v1/chat/completions';

describe('a request that is passed on unchanged', () => {
  const passed = async (path: string, body: object) => {
    const answer = await gateway.post(path, body);
    const text = await answer.text();
    expect({ status: answer.status, text }).toMatchObject({ status: 200 });
    const stream = `stream=exchange-${exchangeOf(answer)}`;
    return (await eventsUntil(gateway, stream, ({ type }) => type === 'usage.recorded')).at(-1)?.data;
  };

  it('costs the price of the model that its answer names', async () => {
    const usage = { prompt_tokens: 1000, completion_tokens: 100, total_tokens: 1100 };
    answersWith({ ...completion(usage), model: 'gpt-4o-mini-2024-07-18' });
    expect(await passed('/p/openai/chat/completions', chat('gpt-4o-mini'))).toMatchObject({
      model: 'gpt-4o-mini-2024-07-18',
      endpoint: '/p/openai/chat/completions',
      raw: usage,
      totalCost: '210000',
    });
  });

  it('costs the usage of all events of a stream together', async () => {
    const events = [
      {
        type: 'message_start',
        message: { model: 'claude-sonnet-4-6', usage: { input_tokens: 1000, output_tokens: 1 } },
      },
      { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 100 } },
      { type: 'message_stop' },
    ];
    scripted.script((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.end(events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(''));
    });
    const spent = await passed('/p/openrouter/messages', {});
    expect(spent).toMatchObject({ model: 'claude-sonnet-4-6', inputTokens: 1000, outputTokens: 100 });
  });
});

describe('the usage of a provider', () => {
  it("of OpenAI's kind is priced by all its details, at the price of the snapshot", async () => {
    const usage = {
      prompt_tokens: 1000,
      completion_tokens: 100,
      total_tokens: 1100,
      prompt_tokens_details: { cached_tokens: 600, audio_tokens: 0 },
      completion_tokens_details: {
        reasoning_tokens: 64,
        audio_tokens: 0,
        accepted_prediction_tokens: 3,
        rejected_prediction_tokens: 4,
      },
    };
    answersWith(completion(usage));
    expect(await spentOn(CHAT, chat('openai/gpt-4o-mini-2024-07-18'))).toEqual({
      provider: 'openai',
      providerType: 'openai',
      model: 'gpt-4o-mini-2024-07-18',
      endpoint: CHAT,
      providerId: 'c',
      inputTokens: 1000,
      outputTokens: 100,
      totalTokens: 1100,
      cachedInputTokens: 600,
      cacheWriteInputTokens: null,
      cacheWrite1hInputTokens: null,
      reasoningTokens: 64,
      audioInputTokens: 0,
      audioOutputTokens: 0,
      imageInputTokens: null,
      imageOutputTokens: null,
      acceptedPredictionTokens: 3,
      rejectedPredictionTokens: 4,
      source: 'provider',
      raw: usage,
      price: { input_per_mtok: 0.15, output_per_mtok: 0.6, cached_input_per_mtok: 0.075 },
      priceSource: expect.stringMatching(/^snapshot:\d{4}-\d\d-\d\d$/),
      inputCost: '105000',
      outputCost: '60000',
      totalCost: '165000',
    });
  });

  it('of an audio answer is priced as audio', async () => {
    answersWith(
      completion({
        prompt_tokens: 100,
        completion_tokens: 50,
        prompt_tokens_details: { audio_tokens: 80 },
        completion_tokens_details: { audio_tokens: 40 },
      }),
    );
    expect(await spentOn(CHAT, chat('openai/gpt-audio'))).toMatchObject({
      audioInputTokens: 80,
      audioOutputTokens: 40,
      inputCost: String(20 * 2500 + 80 * 32_000),
      outputCost: String(10 * 10_000 + 40 * 64_000),
    });
  });

  it('of embeddings has no output', async () => {
    answersWith({ object: 'list', data: [{ embedding: [1] }], usage: { prompt_tokens: 500, total_tokens: 500 } });
    const body = { model: 'openai/text-embedding-3-small', input: 'some words' };
    expect(await spentOn('/v1/embeddings', body)).toMatchObject({
      inputTokens: 500,
      outputTokens: null,
      inputCost: '10000',
      outputCost: '0',
      totalCost: '10000',
    });
  });

  it('that includes its cost: xAI, with reasoning counted as output', async () => {
    const usage = {
      prompt_tokens: 32,
      completion_tokens: 9,
      total_tokens: 135,
      completion_tokens_details: { reasoning_tokens: 94 },
      cost_in_usd_ticks: 37_756_000,
    };
    answersWith(completion(usage));
    const spent = await spentOn(CHAT, chat('xai/scripted'));
    expect(spent).toMatchObject({
      outputTokens: 103,
      reasoningTokens: 94,
      inputCost: null,
      outputCost: null,
      totalCost: '3775600',
      priceSource: 'provider_reported',
    });
    expect(spent).not.toHaveProperty('price');
  });

  it('that includes its cost: OpenRouter, in a stream too', async () => {
    const usage = { prompt_tokens: 194, completion_tokens: 2, total_tokens: 196, cost: 0.00095 };
    scripted.script((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('data: {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\n');
      response.end(`data: ${JSON.stringify({ choices: [], usage })}\n\ndata: [DONE]\n\n`);
    });
    expect(await spentOn(CHAT, { ...chat('openrouter/scripted'), stream: true })).toMatchObject({
      inputTokens: 194,
      totalCost: '950000',
      priceSource: 'provider_reported',
    });
  });

  it('that reports reasoning only in the total: Gemini, at the rates of a long request', async () => {
    answersWith(completion({ prompt_tokens: 250_000, completion_tokens: 100, total_tokens: 250_500 }));
    expect(await spentOn(CHAT, chat('gemini/gemini-2.5-pro'))).toMatchObject({
      outputTokens: 500,
      reasoningTokens: 400,
      inputCost: '625000000',
      outputCost: '7500000',
      price: { input_per_mtok: 2.5, output_per_mtok: 15 },
    });
  });

  it.each([
    ['chat completions', CHAT, {}],
    ['messages', '/v1/messages', { max_tokens: 100 }],
  ])("of Anthropic's kind, requested in %s, includes cached tokens", async (_language, path, more) => {
    const marked = [
      { type: 'text', text: `${path} is a long story to be kept. `.repeat(20), cache_control: { type: 'ephemeral' } },
      { type: 'text', text: 'Go on.' },
    ];
    const body = { model: 'anthropic/claude-sonnet-4-6', messages: [{ role: 'user', content: marked }], ...more };
    const written = await spentOn(path, body);
    const read = await spentOn(path, body);
    expect(written.cacheWriteInputTokens).toBeGreaterThan(50);
    expect(read).toMatchObject({ cachedInputTokens: written.cacheWriteInputTokens, inputTokens: written.inputTokens });
    const plain = written.inputTokens - written.cacheWriteInputTokens;
    expect(written.inputCost).toBe(String(plain * 3000 + written.cacheWriteInputTokens * 3750));
    expect(read.inputCost).toBe(String(plain * 3000 + read.cachedInputTokens * 300));
    expect(read.outputCost).toBe(String(read.outputTokens * 15_000));
  });

  it('without a price has token counts and an unknown cost', async () => {
    for (const model of ['llamacpp/simulated-small', 'ollama/simulated-small']) {
      const spent = await spentOn(CHAT, chat(model));
      expect(spent).toMatchObject({
        inputTokens: expect.any(Number),
        outputTokens: expect.any(Number),
        source: 'provider',
        inputCost: null,
        outputCost: null,
        totalCost: null,
      });
      expect(spent).not.toHaveProperty('priceSource');
    }
  });

  it('that reports nothing is unknown, not zero, and its cost is an estimate', async () => {
    answersWith(completion(undefined));
    expect(await spentOn(CHAT, chat('openai/gpt-4o-mini-2024-07-18'))).toMatchObject({
      inputTokens: null,
      source: 'unknown',
      totalCost: expect.stringMatching(/^[1-9]\d*$/),
      caveat: 'estimated: the provider reported no usage',
    });
  });

  it('that charges for characters, images and seconds', async () => {
    scripted.script((_request, response) => response.writeHead(200, { 'content-type': 'audio/mpeg' }).end('sound'));
    const speech = { model: 'openai/tts-1', voice: 'alloy', input: 'Twenty characters ok' };
    expect(await spentOn('/v1/audio/speech', speech)).toMatchObject({ inputCharacters: 20, totalCost: '300000' });

    answersWith({ created: 1, data: [{ b64_json: 'AA==' }, { b64_json: 'AA==' }] });
    const image = { model: 'openai/gpt-image-1', prompt: 'A boat', n: 2 };
    const set = await gateway.fetch(
      '/admin/model-pricing-overrides',
      put({ selector: 'openai/gpt-image-1', pricing: { per_image: 0.04, input_per_mtok: 0, output_per_mtok: 0 } }),
    );
    expect(set.status).toBe(200);
    expect(await spentOn('/v1/images/generations', image)).toMatchObject({ outputImages: 2, totalCost: '80000000' });

    answersWith({ text: 'words', usage: { type: 'duration', seconds: 9 } });
    const form = new FormData();
    form.set('model', 'openai/whisper-1');
    form.set('file', new Blob(['sound']), 'a.mp3');
    const answer = await gateway.fetch('/v1/audio/transcriptions', { method: 'POST', body: form });
    expect(answer.status).toBe(200);
    expect(await usageOf(exchangeOf(answer))).toMatchObject({ inputSeconds: 9, totalCost: '900000' });
  });
});

describe('the owner of usage', () => {
  it('has the user path, the labels and the session of the request', async () => {
    answersWith(completion({ prompt_tokens: 10, completion_tokens: 1, total_tokens: 11 }));
    const key = await newKey(gateway, { user_path: '/team/spends', labels: ['blue', 'night'] });
    const headers = { 'x-session-id': 'of-today' };
    const answer = await key.fetch(CHAT, { json: chat('openai/gpt-4o-mini-2024-07-18'), headers });
    expect(answer.status).toBe(200);
    await answer.text();
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    const received = events.find(({ type }) => type === 'request.received');
    expect(events.at(-1)).toMatchObject({
      type: 'usage.recorded',
      userPath: '/team/spends',
      actor: `key:${key.id}`,
      data: { labels: ['blue', 'night'], sessionId: received?.data.sessionId, totalCost: '2100' },
    });
    expect(received?.data).toMatchObject({ labels: ['blue', 'night'], sessionId: expect.stringMatching(/./) });
  });
});

describe('an answer that breaks off', () => {
  it('costs an estimate, when nothing was reported before', async () => {
    scripted.script((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('data: {"choices":[{"index":0,"delta":{"content":"Half"}}]}\n\n', () => response.destroy());
    });
    const answer = await gateway.post(CHAT, { ...chat('openai/gpt-4o-mini-2024-07-18'), stream: true });
    await answer.text();
    expect(await usageOf(exchangeOf(answer))).toMatchObject({
      source: 'unknown',
      partial: true,
      estimated: true,
      inputTokens: null,
      outputTokens: null,
      estimatedOutputTokens: 1,
      totalCost: expect.stringMatching(/^[1-9]/),
    });
  });

  it('costs what was reported until then, marked as incomplete', async () => {
    gateway.simulated.control.next({ holdAfterChunks: 3 }, { path: '/v1/messages' });
    const stop = new AbortController();
    const body = { model: 'anthropic/claude-sonnet-4-6', messages: user('A long tale'), max_tokens: 100, stream: true };
    const answer = await gateway.post('/v1/messages', body, { signal: stop.signal });
    await readUntil(answer, 'content_block');
    stop.abort();
    const spent = await usageOf(exchangeOf(answer));
    gateway.simulated.control.release();
    expect(spent).toMatchObject({ outputTokens: 1, source: 'provider', partial: true, caveat: 'the answer broke off' });
    expect(spent.totalCost).toBe(String(spent.inputTokens * 3000 + 15_000));
  });
});

describe('the live tail', () => {
  it('shows the cost of a request in dollars', async () => {
    answersWith(completion({ prompt_tokens: 1000, completion_tokens: 100, total_tokens: 1100 }));
    const answer = await gateway.post(CHAT, chat('openai/gpt-4o-mini-2024-07-18'));
    await eventsUntil(gateway, `stream=exchange-${exchangeOf(answer)}`, ({ type }) => type === 'usage.recorded');
    const live = await gateway.fetch(`/admin/live/logs?cursor=0&types=usage&request_id=${exchangeOf(answer)}`);
    const reported = await readUntil(live, 'total_cost');
    await live.body?.cancel().catch(() => {});
    expect(reported).toContain('"total_cost":0.00021');
  });
});
