/** A 200 that is no answer, in each dialect: another target is called, else the client gets 502. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ScriptedProvider, startScriptedProvider } from '../support/scripted-provider.ts';
import { saved } from '../support/several-providers.ts';
import { eventsOfExchange, exchangeOf, user, withGateway } from '../support/with-gateway.ts';

const KEY = 'sk-of-all';
let scripted: ScriptedProvider;
const gateway = withGateway(async () => {
  scripted = await startScriptedProvider();
  const { url } = scripted;
  return {
    simulated: false,
    env: {
      CONFIGURED_PROVIDER_MODELS_MODE: 'merge',
      ...{ OPENAI_BASE_URL: url, OPENAI_API_KEY: KEY, OPENAI_MODELS: 'bad,good' },
      ...{ DEEPSEEK_BASE_URL: url, DEEPSEEK_API_KEY: KEY, DEEPSEEK_MODELS: 'bad,good' },
      ...{ ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: KEY, ANTHROPIC_MODELS: 'bad,good' },
      RETRY_MAX_RETRIES: '0',
      CIRCUIT_BREAKER_ENABLED: 'false',
    },
  };
}, 2);
afterAll(() => scripted.close());

beforeAll(async () => {
  for (const provider of ['openai', 'deepseek', 'anthropic']) {
    const targets = ['bad', 'good'].map((model) => ({ provider, model }));
    await saved(gateway, { source: `both-${provider}`, targets, strategy: 'failover' });
  }
});

interface Answer {
  readonly type: string;
  readonly text: string;
}
const json = (text: string): Answer => ({ type: 'application/json', text });
const events = (text: string): Answer => ({ type: 'text/event-stream', text });

/** The model `bad` gives one answer, the model `good` the other. */
function answersWith(bad: Answer, good: Answer): void {
  scripted.script(({ body }, response) => {
    const { type, text } = JSON.parse(body.toString()).model === 'bad' ? bad : good;
    response.writeHead(200, { 'content-type': type }).end(text);
  });
}

const message = { role: 'assistant', content: 'Hello.' };
const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
const chatAnswer = { id: 'c', choices: [{ index: 0, message, finish_reason: 'stop' }], usage };
const chatEvents = [
  `data: ${JSON.stringify({ id: 'c', choices: [{ index: 0, delta: message, finish_reason: 'stop' }] })}`,
  'data: [DONE]',
  '',
].join('\n\n');
const itself = { id: 'msg_1', type: 'message', content: [{ type: 'text', text: 'Hello.' }], stop_reason: 'end_turn' };
const response = { id: 'resp_1', object: 'response', status: 'completed', output: [] };
const text = {
  id: 'c',
  object: 'text_completion',
  choices: [{ index: 0, text: 'Hello.', finish_reason: 'stop' }],
  usage,
};
const NO_TEXT = '{"object":"text_completion","choices":[{"index":0,"text":null,"finish_reason":"stop"}]}';
const embeddings = { object: 'list', data: [{ object: 'embedding', index: 0, embedding: [0.5] }], usage };

const NOTHING = ['null', '[]', '"x"', '7', '{}'];
const NO_CHOICE = [
  ...NOTHING,
  '{"choices":[]}',
  '{"choices":null}',
  '{"choices":[{"index":0,"finish_reason":"stop"}]}',
];
const NO_MESSAGE = '{"choices":[{"index":0,"message":null,"finish_reason":"stop"}]}';

const chat = { messages: user('Say hello.'), max_tokens: 9 };
const routes = [
  ['/v1/chat/completions', 'openai', chat, chatAnswer, [...NO_CHOICE, NO_MESSAGE]],
  ['/v1/completions', 'openai', { prompt: 'Say hello.' }, text, [...NO_CHOICE, NO_TEXT]],
  ['/v1/chat/completions', 'anthropic', chat, itself, NOTHING],
  ['/v1/messages', 'anthropic', chat, itself, NOTHING],
  ['/v1/messages', 'deepseek', chat, chatAnswer, [...NO_CHOICE, NO_MESSAGE]],
  ['/v1/responses', 'openai', { input: 'Say hello.' }, response, NOTHING],
  ['/v1/responses', 'deepseek', { input: 'Say hello.' }, chatAnswer, [...NO_CHOICE, NO_MESSAGE]],
  ['/v1/embeddings', 'openai', { input: 'hello' }, embeddings, [...NOTHING, '{"data":[7]}', '{"data":7}']],
] as const;

/** The translation to responses has a code of its own. */
const codeOf = (path: string, provider: string) =>
  path === '/v1/responses' && provider === 'deepseek' ? 'provider_error' : 'bad_provider_answer';

describe.each(routes)('%s of %s', (path, provider, body, good, malformed) => {
  it.each(malformed)('calls the next target after a 200 with %s', async (text) => {
    answersWith(json(text), json(JSON.stringify(good)));
    const answer = await gateway.post(path, { ...body, model: `both-${provider}` });
    expect(answer.status, await answer.text()).toBe(200);
    const recorded = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(recorded.filter(({ type }) => type === 'attempt.started')).toHaveLength(2);
    const failed = recorded.find(({ type }) => type === 'attempt.failed');
    expect(failed?.data).toMatchObject({ attempt: 1, code: codeOf(path, provider) });
  });

  it.each(malformed)('answers 502 when there is no other target after a 200 with %s', async (text) => {
    answersWith(json(text), json(text));
    const answer = await gateway.post(path, { ...body, model: `${provider}/bad` });
    const recorded = eventsOfExchange(gateway, exchangeOf(answer));
    expect(answer.status).toBe(502);
    expect(await answer.text()).toMatch(new RegExp(`rovider '${provider}' `));
    const end = (await recorded).find(({ type }) => type === 'exchange.failed');
    expect(end?.data).toMatchObject({ status: 502, code: codeOf(path, provider), reason: 'provider_error' });
  });
});

const streams = [
  ['/v1/chat/completions', 'openai', chat],
  ['/v1/completions', 'openai', { prompt: 'Say hello.' }],
  ['/v1/messages', 'anthropic', chat],
  ['/v1/messages', 'deepseek', chat],
  ['/v1/responses', 'openai', { input: 'Say hello.' }],
  ['/v1/responses', 'deepseek', { input: 'Say hello.' }],
] as const;
const noEvents = ['hello, world\n\n', '{"choices":[]}', '<html>\n<body>busy</body>\n</html>\n', ': busy\n\n: busy\n\n'];
const noObjects = ['data: hello\n\n', 'data: null\n\ndata: [DONE]\n\n', 'data: [1]\n\n', 'data: "x"\n\n'];

describe.each(streams)('a stream of %s of %s', (path, provider, body) => {
  it.each([...noEvents, ...noObjects])('that is %j is 502, and on record', async (text) => {
    answersWith(events(text), events(text));
    const answer = await gateway.post(path, { ...body, model: `${provider}/bad`, stream: true });
    expect(answer.status).toBe(502);
    expect(await answer.text()).toMatch(new RegExp(`rovider '${provider}' `));
    const recorded = await eventsOfExchange(gateway, exchangeOf(answer));
    const end = recorded.find(({ type }) => type === 'exchange.failed');
    expect(end?.data).toMatchObject({ status: 502, code: 'bad_provider_answer' });
  });
});

describe('a stream of chat completions', () => {
  it.each([...noEvents, ...noObjects])('that is %j calls the next target', async (text) => {
    answersWith(events(text), events(chatEvents));
    const answer = await gateway.post('/v1/chat/completions', { ...chat, model: 'both-openai', stream: true });
    expect(await answer.text()).toContain('Hello.');
    expect(answer.status).toBe(200);
  });
});
