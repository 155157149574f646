/** Usage of local servers' own APIs under `/p`, and the budgets that it fills. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type ScriptedProvider, startScriptedProvider } from '../support/scripted-provider.ts';
import { errorOf, eventsUntil, exchangeOf, json, user, withGateway } from '../support/with-gateway.ts';

let server: ScriptedProvider;
const gateway = withGateway(async () => {
  server = await startScriptedProvider();
  const root = server.url.slice(0, -'/v1'.length);
  return {
    simulated: false,
    env: {
      ...{ OLLAMA_BASE_URL: root, LLAMACPP_BASE_URL: server.url, SGLANG_BASE_URL: server.url },
      ...{ VLLM_BASE_URL: server.url, VLLM_MODELS: 'scripted,dear', CONFIGURED_PROVIDER_MODELS_MODE: 'merge' },
      ...{ OLLAMA_MODELS: 'scripted', BUDGETS_MAX_WAIT: '100ms' },
    },
  };
}, 3);
afterAll(() => server.close());

/** US dollars for one token of an answer; one of input costs a hundredth. */
const TOKEN = 0.001;
const JSON_TYPE = 'application/json; charset=utf-8';
const LINES = 'application/x-ndjson';
const EVENTS = 'text/event-stream';

beforeAll(async () => {
  const pricing = { input_per_mtok: 10, output_per_mtok: TOKEN * 1_000_000 };
  for (const type of ['ollama', 'llamacpp', 'sglang']) {
    const override = { selector: `${type}/scripted`, pricing };
    const answer = await gateway.post('/admin/model-pricing-overrides', override, { method: 'PUT' });
    expect(answer.status).toBe(200);
  }
  for (const [model, times] of [
    ['scripted', 1],
    ['dear', 2],
  ] as const) {
    const pricing = { input_per_mtok: 10, output_per_mtok: times * TOKEN * 1_000_000 };
    const override = { selector: `vllm/${model}`, pricing };
    const answer = await gateway.post('/admin/model-pricing-overrides', override, { method: 'PUT' });
    expect(answer.status).toBe(200);
  }
});

const lines = (...parts: object[]) => parts.map((part) => `${JSON.stringify(part)}\n`).join('');
const events = (...parts: object[]) => parts.map((part) => `data: ${JSON.stringify(part)}\n\n`).join('');

function budget(userPath: string, amount: number) {
  const path = `/admin/budgets/${encodeURIComponent(userPath)}/daily`;
  return gateway.post(path, { amount }, { method: 'PUT' });
}

async function row(userPath: string) {
  const { budgets } = await json(await gateway.fetch('/admin/budgets'));
  return budgets.find(({ user_path }: { user_path: string }) => user_path === userPath);
}

const at = (path: string, body: object | string, userPath = '/free') =>
  gateway.post(`/p/${path}`, body, { headers: { 'x-gateway-user-path': userPath } });

const answers = (type: string, body: string) =>
  server.script((_request, response) => response.writeHead(200, { 'content-type': type }).end(body));

async function usageOf(answer: Response) {
  const isUsage = ({ type }: { type: string }) => type === 'usage.recorded';
  return (await eventsUntil(gateway, `stream=exchange-${exchangeOf(answer)}`, isUsage)).find(isUsage)?.data;
}

const ollama = (more: object) => ({ model: 'scripted', created_at: '2026-01-01T00:00:00Z', ...more });
const counts = { done: true, done_reason: 'stop', prompt_eval_count: 20, eval_count: 7 };
const told = ollama({ message: { role: 'assistant', content: 'told' }, done: false });
const timed = { tokens_predicted: 7, tokens_evaluated: 20, stop: true };
const meta = { id: 'a', prompt_tokens: 20, completion_tokens: 7, cached_tokens: 4 };

describe('the usage that a server reports in its own API', () => {
  test.each([
    ['ollama/api/chat', JSON_TYPE, JSON.stringify({ ...told, ...counts })],
    ['ollama/api/chat', LINES, lines(told, ollama({ message: { content: '' }, ...counts }))],
    ['ollama/api/generate', JSON_TYPE, JSON.stringify(ollama({ response: 'told', ...counts }))],
    [
      'ollama/api/generate',
      LINES,
      lines(ollama({ response: 'told', done: false }), ollama({ response: '', ...counts })),
    ],
    ['llamacpp/completion', JSON_TYPE, JSON.stringify({ content: 'told', ...timed })],
    [
      'llamacpp/completion',
      EVENTS,
      events({ content: 'told', stop: false, tokens_predicted: 1, tokens_evaluated: 20 }, { content: '', ...timed }),
    ],
    ['llamacpp/infill', JSON_TYPE, JSON.stringify({ content: 'told', ...timed })],
    [
      'llamacpp/completion',
      JSON_TYPE,
      JSON.stringify([
        { index: 0, content: 'a', stop: true, tokens_predicted: 3, tokens_evaluated: 8 },
        { index: 1, content: 'b', stop: true, tokens_predicted: 4, tokens_evaluated: 12 },
      ]),
    ],
    ['sglang/generate', JSON_TYPE, JSON.stringify({ text: 'told', meta_info: meta })],
    [
      'sglang/generate',
      EVENTS,
      `${events({ text: 'to', meta_info: { ...meta, completion_tokens: 1 } }, { text: 'told', meta_info: meta })}data: [DONE]\n\n`,
    ],
  ])('is recorded and charged: %s, %s', async (path, type, body) => {
    answers(type, body);
    const answer = await at(path, { model: 'scripted', prompt: 'hi' });
    expect(await answer.text()).toBe(body);
    expect(answer.headers.get('content-type')).toBe(type);
    expect(await usageOf(answer)).toMatchObject({
      ...{ model: 'scripted', inputTokens: 20, outputTokens: 7 },
      totalCost: '7200000',
    });
  });

  test.each([['embed', { embeddings: [[1, 2]], prompt_eval_count: 20 }]])(
    'of vectors is input alone: %s',
    async (path, body) => {
      answers(JSON_TYPE, JSON.stringify(ollama(body)));
      const answer = await at(`ollama/api/${path}`, { model: 'scripted', input: 'hi' });
      await answer.text();
      expect(await usageOf(answer)).toMatchObject({ inputTokens: 20, totalCost: '200000' });
    },
  );

  test.each([
    ['ollama/api/chat', LINES, lines(told, told, ollama({ message: { content: '' }, done: true }))],
    ['ollama/api/generate', JSON_TYPE, JSON.stringify(ollama({ response: 'told told', done: true }))],
    ['llamacpp/completion', JSON_TYPE, JSON.stringify({ content: 'told told', stop: true })],
    ['sglang/generate', JSON_TYPE, JSON.stringify({ text: 'told told', meta_info: { id: 'a' } })],
  ])('is estimated where it is missing: %s, %s', async (path, type, body) => {
    answers(type, body);
    const answer = await at(path, { model: 'scripted', prompt: 'hi' });
    expect(await answer.text()).toBe(body);
    const { estimatedOutputTokens, outputTokens, totalCost } = await usageOf(answer);
    expect(estimatedOutputTokens ?? outputTokens).toBeGreaterThan(1);
    expect(Number(totalCost)).toBeGreaterThan(1_000_000);
  });
});

describe('a request to a server’s own API under a budget', () => {
  test.each([
    ['ollama/api/chat', { model: 'scripted', messages: user('hi'), options: { num_predict: 50 } }, 50],
    ['ollama/api/chat', { model: 'scripted', messages: user('hi'), max_tokens: 10 }, 32_768],
    ['ollama/api/generate', { model: 'scripted', prompt: 'hi', options: { num_predict: -1 } }, 32_768],
    ['ollama/v1/chat/completions', { model: 'scripted', messages: user('hi'), options: { num_predict: 9 } }, 32_768],
    ['llamacpp/completion', { prompt: 'hi', n_predict: 60 }, 60],
    ['llamacpp/completion', { prompt: ['a', 'b'], n_predict: 60 }, 120],
    ['llamacpp/infill', { input_prefix: 'a', input_suffix: 'b', n_predict: 70 }, 70],
    ['llamacpp/v1/chat/completions', { messages: user('hi'), max_tokens: 50, n_cmpl: 3 }, 150],
    ['llamacpp/v1/chat/completions', { model: '', messages: user('hi'), max_tokens: 50 }, 50],
    // The dearest of the listed models.
    ['vllm/v1/chat/completions', { messages: user('hi'), max_tokens: 50 }, 100],
    ['sglang/generate', { text: 'hi', sampling_params: { max_new_tokens: 80 } }, 80],
    ['sglang/generate', { text: ['a', 'b'], sampling_params: { max_new_tokens: 80, n: 2 } }, 320],
  ])('reserves its longest answer before the call: %s %j', async (path, body, tokens) => {
    const userPath = `/held/${JSON.stringify([path, body]).replace(/[^a-z0-9]+/gi, '-')}`;
    await budget(userPath, 100);
    const held = Promise.withResolvers<void>();
    server.script((_request, response) => {
      void held.promise.then(() => response.writeHead(200, { 'content-type': JSON_TYPE }).end('{}'));
    });
    const answer = at(path, body, userPath);
    await expect.poll(async () => (await row(userPath)).reserved).toBeGreaterThanOrEqual(tokens * TOKEN);
    expect((await row(userPath)).reserved).toBeLessThan((tokens + 5) * TOKEN);
    held.resolve();
    await (await answer).text();
  });

  test('fills the budget, and is refused when it is full', async () => {
    await budget('/filled', 0.1);
    answers(LINES, lines(told, ollama({ message: { content: '' }, ...counts, eval_count: 90 })));
    const body = { model: 'scripted', messages: user('hi'), options: { num_predict: 90 } };
    expect((await at('ollama/api/chat', body, '/filled')).status).toBe(200);
    await expect.poll(async () => (await row('/filled')).spent).toBeGreaterThan(0.09);
    expect((await errorOf(await at('ollama/api/chat', body, '/filled'), 429)).code).toBe('budget_exceeded');
  });

  test('is read behind a byte order mark', async () => {
    await budget('/marked', 0.1);
    const body = JSON.stringify({ model: 'scripted', messages: user('hi'), max_tokens: 5000 });
    const answer = await at('llamacpp/v1/chat/completions', `\ufeff${body}`, '/marked');
    expect((await errorOf(answer, 429)).code).toBe('budget_exceeded');
  });
});

test('a stream of JSON lines that breaks is cut, without an event of another format', async () => {
  server.script((_request, response) => {
    response.writeHead(200, { 'content-type': LINES });
    response.write(lines(told, told), () => response.destroy());
  });
  const answer = await at('ollama/api/chat', { model: 'scripted', messages: user('hi') });
  let text = '';
  await expect(
    (async () => {
      for await (const piece of answer.body ?? []) text += Buffer.from(piece).toString();
    })(),
  ).rejects.toThrow();
  expect(text).not.toContain('data:');
  expect(await usageOf(answer)).toMatchObject({ model: 'scripted', partial: true });
});
