/** An answer whose provider reports no usage, or one that cannot be read, costs an estimate of its texts. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Answered } from '../support/answered.ts';
import { at, setBudget, setPrice, spentOf, usagesIn } from '../support/batches.ts';
import { type ScriptedProvider, startScriptedProvider } from '../support/scripted-provider.ts';
import { errorOf, eventsOfExchange, eventsUntil, exchangeOf, user, withGateway } from '../support/with-gateway.ts';

const KEY = 'sk-of-all';
let scripted: ScriptedProvider;
const gateway = withGateway(async () => {
  scripted = await startScriptedProvider();
  const { url } = scripted;
  return {
    simulated: false,
    env: {
      CONFIGURED_PROVIDER_MODELS_MODE: 'merge',
      ...{ OPENAI_BASE_URL: url, OPENAI_API_KEY: KEY, OPENAI_MODELS: 'm' },
      ...{ GROQ_BASE_URL: url, GROQ_API_KEY: KEY, GROQ_MODELS: 'm' },
      ...{ DEEPSEEK_BASE_URL: url, DEEPSEEK_API_KEY: KEY, DEEPSEEK_MODELS: 'm' },
      ...{ GEMINI_BASE_URL: url, GEMINI_API_KEY: KEY, GEMINI_MODELS: 'm' },
      ...{ XAI_BASE_URL: url, XAI_API_KEY: KEY, XAI_MODELS: 'm' },
      ...{ ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: KEY, ANTHROPIC_MODELS: 'm' },
      ...{ OLLAMA_BASE_URL: new URL(url).origin, OLLAMA_MODELS: 'm' },
      RETRY_MAX_RETRIES: '0',
      CIRCUIT_BREAKER_ENABLED: 'false',
    },
  };
}, 5);
afterAll(() => scripted.close());

const PROVIDERS = ['openai', 'groq', 'deepseek', 'gemini', 'xai', 'anthropic', 'ollama'];
beforeAll(async () => {
  for (const name of PROVIDERS) {
    await setPrice(gateway, `${name}/m`, { input_per_mtok: 1000, output_per_mtok: 1000 });
  }
});

/** 60 characters, 15 tokens. */
const TEXT = 'Sixty characters of text, which a model wrote as an answer. ';
const PROMPT = 'tell me everything you know now '.repeat(20);

/** The answer in each dialect of a provider, with the reported usage. */
const answers = {
  chat: (usage: unknown) => ({
    id: 'c',
    object: 'chat.completion',
    choices: [{ index: 0, message: { role: 'assistant', content: TEXT }, finish_reason: 'stop' }],
    ...{ model: 'm', usage },
  }),
  completion: (usage: unknown) => ({
    ...{ id: 'c', object: 'text_completion', choices: [{ index: 0, text: TEXT, finish_reason: 'stop' }] },
    ...{ model: 'm', usage },
  }),
  responses: (usage: unknown) => ({
    ...{ id: 'resp_1', object: 'response', status: 'completed', model: 'm' },
    output: [{ type: 'message', id: 'msg_1', content: [{ type: 'output_text', text: TEXT, annotations: [] }] }],
    usage,
  }),
  messages: (usage: unknown) => ({
    ...{ id: 'msg_1', type: 'message', role: 'assistant', model: 'm', stop_reason: 'end_turn' },
    ...{ content: [{ type: 'text', text: TEXT }], usage },
  }),
  embeddings: (usage: unknown) => ({
    ...{ object: 'list', model: 'm', data: [{ object: 'embedding', index: 0, embedding: [0.5] }], usage },
  }),
};
type AnswerKind = keyof typeof answers;

interface Route {
  readonly path: string;
  readonly body: object;
  readonly of: AnswerKind;
}

const chat = (provider: string) => ({ model: `${provider}/m`, messages: user(PROMPT) });
const routes: Record<string, Route> = {
  'a chat completion': { path: '/v1/chat/completions', body: chat('openai'), of: 'chat' },
  'a chat completion of Anthropic': { path: '/v1/chat/completions', body: chat('anthropic'), of: 'messages' },
  'a text completion': { path: '/v1/completions', body: { model: 'openai/m', prompt: PROMPT }, of: 'completion' },
  'a response': { path: '/v1/responses', body: { model: 'openai/m', input: PROMPT }, of: 'responses' },
  'a translated response': { path: '/v1/responses', body: { model: 'deepseek/m', input: PROMPT }, of: 'chat' },
  'a message': { path: '/v1/messages', body: { ...chat('anthropic'), max_tokens: 99 }, of: 'messages' },
  'a translated message': { path: '/v1/messages', body: { ...chat('deepseek'), max_tokens: 99 }, of: 'chat' },
  'an embedding': { path: '/v1/embeddings', body: { model: 'openai/m', input: PROMPT }, of: 'embeddings' },
  "a chat completion of a provider's own API": {
    path: '/p/openai/v1/chat/completions',
    body: { ...chat('openai'), model: 'm' },
    of: 'chat',
  },
};

function sideNames(of: AnswerKind): readonly [string, string] {
  return of === 'messages' || of === 'responses'
    ? ['input_tokens', 'output_tokens']
    : ['prompt_tokens', 'completion_tokens'];
}

async function recordedUsage(exchange: string): Promise<Answered | undefined> {
  const events = await eventsUntil(gateway, `stream=exchange-${exchange}`, ({ type }) => type === 'usage.recorded');
  return usagesIn(events)[0];
}

async function usageAfter(path: string, body: object, init?: RequestInit) {
  const answer = await gateway.post(path, body, init);
  const text = await answer.text();
  expect({ status: answer.status, text }).toMatchObject({ status: 200 });
  const usage = await recordedUsage(exchangeOf(answer));
  return { usage, text };
}

function answersWith(text: string, type = 'application/json'): void {
  scripted.script((_request, response) => response.writeHead(200, { 'content-type': type }).end(text));
}

/** JSON texts of a number that counts nothing. */
const UNREADABLE = ['null', '"12"', '1.5', '-5', '1e308', '9007199254740994', '[]', '{}', 'true'];

const nothingOf = ['', 'null', '[]', '7', '"12 tokens"', '{}', '{"total_tokens": 15}'];

describe.each(Object.entries(routes))('%s', (_name, { path, body, of }) => {
  const [input, output] = sideNames(of);
  const isEmbedding = of === 'embeddings';
  const withUsage = (usage: string) =>
    JSON.stringify(answers[of]('USAGE')).replace(usage === '' ? ',"usage":"USAGE"' : '"USAGE"', usage);

  it.each(nothingOf)('costs an estimate when its usage is %j', async (reported) => {
    answersWith(withUsage(reported));
    const { usage } = await usageAfter(path, body);
    expect(usage).toMatchObject({ estimated: true, inputTokens: null, outputTokens: null });
    expect(usage?.estimatedInputTokens).toBeGreaterThan(150);
    expect(usage?.estimatedOutputTokens).toBe(isEmbedding ? 0 : 15);
    expect(Number(usage?.totalCost)).toBe((Number(usage?.estimatedInputTokens) + (isEmbedding ? 0 : 15)) * 1_000_000);
    expect(usage?.caveat).toMatch(/^estimated: /);
  });

  it.each(UNREADABLE)('costs the reported input and the estimated output when its output is %s', async (count) => {
    answersWith(withUsage(`{"${input}": 100, "${output}": ${count}}`));
    const { usage } = await usageAfter(path, body);
    expect(usage).toMatchObject({ estimated: true, inputTokens: 100, outputTokens: null, estimatedInputTokens: 100 });
    if (count !== 'null') {
      expect(usage?.contradiction).toContain(`${output} is no count`);
      expect(usage?.raw).toHaveProperty(output);
    }
    expect(Number(usage?.totalCost)).toBe((isEmbedding ? 100 : 115) * 1_000_000);
  });

  it.each(UNREADABLE)('costs the estimated input and the reported output when its input is %s', async (count) => {
    answersWith(withUsage(`{"${input}": ${count}, "${output}": 7}`));
    const { usage } = await usageAfter(path, body);
    expect(usage).toMatchObject({ estimated: true, inputTokens: null, outputTokens: 7, estimatedOutputTokens: 7 });
    expect(usage?.estimatedInputTokens).toBeGreaterThan(150);
  });
});

describe('a stream', () => {
  const chunks = (usage: string) => [
    { choices: [{ index: 0, delta: { content: TEXT }, finish_reason: null }] },
    { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
    `{"choices": [], "usage": ${usage}}`,
    '[DONE]',
  ];
  const events = (list: readonly (object | string)[]) =>
    list.map((one) => `data: ${typeof one === 'string' ? one : JSON.stringify(one)}\n\n`).join('');

  it.each(['null', '{}', '{"total_tokens": 5}'])('costs an estimate when its usage is %s', async (reported) => {
    answersWith(events(chunks(reported)), 'text/event-stream');
    const { usage } = await usageAfter('/v1/chat/completions', { ...chat('openai'), stream: true });
    expect(usage).toMatchObject({ estimated: true, estimatedOutputTokens: 15 });
  });

  it.each(UNREADABLE)('costs the reported input and the estimated output when its output is %s', async (count) => {
    answersWith(
      events(chunks(`{"prompt_tokens": 100, "completion_tokens": ${count}, "total_tokens": 100}`)),
      'text/event-stream',
    );
    for (const [path, body] of [
      ['/v1/chat/completions', chat('openai')],
      ['/v1/responses', { model: 'deepseek/m', input: PROMPT }],
    ] as const) {
      const { usage } = await usageAfter(path, { ...body, stream: true });
      expect(usage).toMatchObject({ estimated: true, inputTokens: 100, outputTokens: null, totalCost: '115000000' });
    }
  });

  it('of messages costs the estimated output when the last report has none that can be read', async () => {
    const list = [
      {
        type: 'message_start',
        message: { id: 'msg_1', type: 'message', model: 'm', content: [], usage: { input_tokens: 100 } },
      },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: TEXT } },
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: -5 } },
      { type: 'message_stop' },
    ];
    answersWith(
      list.map((one) => `event: ${one.type}\ndata: ${JSON.stringify(one)}\n\n`).join(''),
      'text/event-stream',
    );
    for (const path of ['/v1/messages', '/v1/chat/completions']) {
      const { usage } = await usageAfter(path, { ...chat('anthropic'), max_tokens: 99, stream: true });
      expect(usage).toMatchObject({ estimated: true, inputTokens: 100, outputTokens: null, totalCost: '115000000' });
    }
  });
});

describe('an answer of Ollama', () => {
  it.each(['"12"', '-5', '1.5', 'null'])('costs an estimate where its count of output is %s', async (count) => {
    const line = { model: 'm', message: { role: 'assistant', content: TEXT }, done: true, done_reason: 'stop' };
    answersWith(JSON.stringify({ ...line, prompt_eval_count: 100, eval_count: 'N' }).replace('"N"', count));
    const { usage } = await usageAfter('/v1/chat/completions', chat('ollama'));
    expect(usage).toMatchObject({ estimated: true, inputTokens: 100, outputTokens: null, totalCost: '115000000' });
  });
});

describe('the arguments of a call', () => {
  it('are a part of the estimated output', async () => {
    const input = { city: 'Paris'.repeat(40) };
    answersWith(
      JSON.stringify({ ...answers.messages(undefined), content: [{ type: 'tool_use', id: 't', name: 'n', input }] }),
    );
    const { usage } = await usageAfter('/v1/messages', { ...chat('anthropic'), max_tokens: 99 });
    expect(usage?.estimatedOutputTokens).toBeGreaterThan(50);
  });
});

describe('an answer that no model generated', () => {
  it("of a provider's own API is not charged by an estimate", async () => {
    answersWith(JSON.stringify({ id: 'ftjob-1', object: 'fine_tuning.job', model: 'm', status: 'validating' }));
    const answer = await gateway.post('/p/openai/v1/fine_tuning/jobs', { model: 'm', training_file: 'f' });
    expect(answer.status).toBe(200);
    await answer.text();
    expect(usagesIn(await eventsOfExchange(gateway, exchangeOf(answer)))).toEqual([]);
  });
});

describe('a budget', () => {
  it.each(['', '[]', '{"prompt_tokens": "100", "completion_tokens": "5"}'])(
    'is spent by answers whose usage is %j, and then refuses',
    async (reported) => {
      const path = `/spent-${nothingOf.length}-${reported.length}`;
      // The prompt alone reserves 0.64, a token for each byte; an answer is estimated at 0.175.
      await setBudget(gateway, path, 2);
      answersWith(JSON.stringify(answers.chat('USAGE')).replace('"USAGE"', reported === '' ? 'null' : reported));
      let served = 0;
      let answer = await gateway.post('/v1/chat/completions', chat('openai'), at(path));
      for (; answer.status === 200 && served < 40; served++) {
        await answer.text();
        answer = await gateway.post('/v1/chat/completions', chat('openai'), at(path));
      }
      expect(await errorOf(answer, 429)).toMatchObject({ code: 'budget_exceeded' });
      expect(served).toBeLessThan(12);
      expect(await spentOf(gateway, path)).toBeGreaterThan(1);
    },
  );
});

describe('a total that input and output do not explain', () => {
  const reported = { prompt_tokens: 3, completion_tokens: 4, total_tokens: 999 };
  const note = '992 tokens of the total are neither input nor output';

  it.each(['openai', 'groq', 'deepseek', 'xai'])('costs nothing more at %s, and is on record', async (name) => {
    answersWith(JSON.stringify(answers.chat(reported)));
    const { usage } = await usageAfter('/v1/chat/completions', chat(name));
    expect(usage).toMatchObject({ inputTokens: 3, outputTokens: 4, totalTokens: 999, totalCost: '7000000' });
    expect(usage).toMatchObject({ contradiction: note, raw: reported, reasoningTokens: null });
    expect(usage?.caveat).toContain(note);
  });

  it.each([
    ['gemini', {}],
    ['xai', { completion_tokens_details: { reasoning_tokens: 992 } }],
  ])('is thinking at %s, whose documentation says so', async (name, details) => {
    answersWith(JSON.stringify(answers.chat({ ...reported, ...details })));
    const { usage } = await usageAfter('/v1/chat/completions', chat(name));
    expect(usage).toMatchObject({ inputTokens: 3, outputTokens: 996, reasoningTokens: 992, totalCost: '999000000' });
    expect(usage).not.toHaveProperty('contradiction');
  });

  it('below their sum is on record, too', async () => {
    answersWith(JSON.stringify(answers.chat({ ...reported, total_tokens: 5 })));
    const { usage } = await usageAfter('/v1/chat/completions', chat('openai'));
    expect(usage).toMatchObject({
      totalCost: '7000000',
      contradiction: 'the total is 2 tokens below input and output',
    });
  });
});

describe('more cached than input tokens', () => {
  it('leave 0 uncached tokens, and are on record as a contradiction', async () => {
    const details = { prompt_tokens_details: { cached_tokens: 271 } };
    answersWith(
      JSON.stringify(answers.chat({ prompt_tokens: 100, completion_tokens: 4, total_tokens: 104, ...details })),
    );
    const { usage } = await usageAfter('/v1/chat/completions', chat('openai'));
    expect(usage).toMatchObject({ cachedInputTokens: 271, contradiction: '271 cached tokens of 100 input tokens' });
  });
});
