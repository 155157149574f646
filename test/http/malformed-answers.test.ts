/** A 200 that is no answer, in each dialect: another target is called, else the client gets 502. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ScriptedProvider, startScriptedProvider } from '../support/scripted-provider.ts';
import { pairsOf, someOf } from '../support/seed.ts';
import { saved } from '../support/several-providers.ts';
import { eventsOfExchange, eventsUntil, exchangeOf, user, withGateway } from '../support/with-gateway.ts';

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
      ...{ OLLAMA_BASE_URL: url, OLLAMA_MODELS: 'bad,good' },
      RETRY_MAX_RETRIES: '0',
      CIRCUIT_BREAKER_ENABLED: 'false',
    },
  };
}, 2);
afterAll(() => scripted.close());

beforeAll(async () => {
  for (const provider of ['openai', 'deepseek', 'anthropic', 'ollama']) {
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
    const { type, text } = /"model":"bad"|name="model"\r\n\r\nbad/.test(body.toString()) ? bad : good;
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
const embeddings = { object: 'list', data: [{ object: 'embedding', index: 0, embedding: [0.5] }], usage };

/** No answer of any route. */
const NOTHING = ['null', '[]', '"x"', '7', '{}', 'true', '[{}]', '', 'hello'];
const choice = (message: unknown) => JSON.stringify({ choices: [{ index: 0, message, finish_reason: 'stop' }] });
const NO_CHOICE = [
  '{"choices":[]}',
  '{"choices":null}',
  '{"choices":[null]}',
  '{"choices":[{"index":0,"finish_reason":"stop"}]}',
];
const NO_MESSAGE = [
  ...NO_CHOICE,
  choice(null),
  choice({ role: 'assistant', content: 5 }),
  choice({ role: 'assistant', content: {} }),
  choice({ role: 'assistant', content: null, tool_calls: [null] }),
];
const NO_TEXT = '{"object":"text_completion","choices":[{"index":0,"text":null,"finish_reason":"stop"}]}';
const NO_CONTENT = ['{"content":null}', '{"content":"x"}', '{"content":[null]}', '{"content":[{}]}'];
const NO_OUTPUT = [
  '{"status":"completed"}',
  '{"status":"completed","output":null}',
  '{"output":[null]}',
  '{"status":"completed","output":[{}]}',
  '{"status":"failed","output":5}',
];
const vectors = (...data: unknown[]) => JSON.stringify({ data: data.map((embedding) => ({ embedding })) });
const NO_VECTORS = [
  ...['{"data":[7]}', '{"data":7}', '{"data":[]}', '{"data":[{}]}'],
  ...[vectors([]), vectors(''), vectors([null]), vectors(['x']), vectors(null), vectors([[]]), vectors([1], [2])],
];
const NO_IMAGE = [
  '{"data":[]}',
  '{"data":null}',
  '{"data":[null]}',
  '{"data":[{"b64_json":""}]}',
  '{"data":[{"url":5}]}',
];
const NO_COUNT = ['{"input_tokens":null}', '{"input_tokens":"5"}', '{"input_tokens":-1}'];

const chat = { messages: user('Say hello.'), max_tokens: 9 };
const completion = (content: unknown, more = {}) =>
  JSON.stringify({
    id: 'c',
    choices: [{ index: 0, message: { role: 'assistant', content, ...more }, finish_reason: 'stop' }],
  });
const call = { id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } };
const { prompt, input, image } = {
  prompt: { prompt: 'Say hello.' },
  input: { input: 'hello' },
  image: { prompt: 'a cat' },
};

interface Route {
  readonly path: string;
  readonly provider: string;
  readonly body: object;
  readonly good: unknown;
  readonly malformed: readonly string[];
  /** Unusual answers that pass. */
  readonly odd?: readonly string[];
}

const oddChats = [
  completion(null, { tool_calls: [call] }),
  completion(null, { refusal: 'No.' }),
  completion(undefined, { tool_calls: [call] }),
  completion('', { tool_calls: null }),
  completion([{ type: 'text', text: 'Hello.' }]),
];
const oddMessages = [JSON.stringify({ ...itself, content: [] })];
const oddResponses = [
  ...['incomplete', 'failed', 'in_progress', 'queued', 'completed'].map((status) =>
    JSON.stringify({ ...response, status }),
  ),
  '{"id":"resp_1","object":"response","status":"failed","output":null,"error":{"code":"server_error","message":"x"}}',
  '{"id":"resp_1","object":"response","status":"queued"}',
];
const transcript = { text: 'Hello.' };
const count = { input_tokens: 5 };

const routes: readonly Route[] = [
  {
    path: '/v1/chat/completions',
    provider: 'openai',
    body: chat,
    good: chatAnswer,
    malformed: NO_MESSAGE,
    odd: oddChats,
  },
  {
    path: '/v1/chat/completions',
    provider: 'anthropic',
    body: chat,
    good: itself,
    malformed: NO_CONTENT,
    odd: oddMessages,
  },
  { path: '/v1/messages', provider: 'anthropic', body: chat, good: itself, malformed: NO_CONTENT, odd: oddMessages },
  { path: '/v1/messages', provider: 'deepseek', body: chat, good: chatAnswer, malformed: NO_MESSAGE, odd: oddChats },
  { path: '/v1/responses', provider: 'openai', body: input, good: response, malformed: NO_OUTPUT, odd: oddResponses },
  { path: '/v1/responses', provider: 'deepseek', body: input, good: chatAnswer, malformed: NO_MESSAGE, odd: oddChats },
  {
    path: '/v1/embeddings',
    provider: 'openai',
    body: input,
    good: embeddings,
    malformed: NO_VECTORS,
    odd: [
      vectors('AACAPw=='),
      vectors([1, 0]),
      vectors([
        [1, 0],
        [0, 1],
      ]),
    ],
  },
  {
    path: '/v1/embeddings',
    provider: 'openai',
    body: { input: ['a', 'b'] },
    good: JSON.parse(vectors([1, 2], [3, 4])),
    malformed: [vectors([1]), vectors([1], [2, 3]), vectors([1], [2], [3])],
    odd: [vectors('AACAPw==', 'AACAPw==')],
  },
  {
    path: '/v1/embeddings',
    provider: 'ollama',
    body: input,
    good: { embeddings: [[1, 2]] },
    malformed: ['{"embeddings":[]}', '{"embeddings":[[]]}', '{"embeddings":[[1],[2]]}', '{"embeddings":[null]}'],
  },
  {
    path: '/v1/chat/completions',
    provider: 'ollama',
    body: chat,
    good: { message, done: true, done_reason: 'stop' },
    malformed: ['{"message":null}', '{"message":{"content":5}}', `{"message":${JSON.stringify(message)},"done":false}`],
    odd: ['{"message":{"role":"assistant","content":""},"done":true,"done_reason":"stop"}'],
  },
  {
    path: '/v1/completions',
    provider: 'openai',
    body: prompt,
    good: text,
    malformed: [...NO_CHOICE, NO_TEXT],
    odd: ['{"generated_text":"Hello."}', NO_TEXT.replace('null', '""')],
  },
  {
    path: '/v1/images/generations',
    provider: 'openai',
    body: image,
    good: { data: [{ b64_json: 'AAAA' }] },
    malformed: NO_IMAGE,
    odd: ['{"data":[{"url":"https://example.com/a.png","b64_json":null}]}', '{"images":["AAAA"]}'],
  },
  {
    path: '/v1/images/edits',
    provider: 'openai',
    body: { ...image, images: [{ image_url: 'data:image/png;base64,AAAA' }] },
    good: { data: [{ b64_json: 'AAAA' }] },
    malformed: NO_IMAGE,
  },
  {
    path: '/v1/audio/speech',
    provider: 'openai',
    body: { ...input, voice: 'v' },
    good: { audio: 'AAAA' },
    malformed: [],
  },
  {
    path: '/v1/audio/transcriptions',
    provider: 'openai',
    body: {},
    good: transcript,
    malformed: ['{"text":5}'],
    odd: ['"x"', '{"text":""}'],
  },
  {
    path: '/v1/audio/translations',
    provider: 'openai',
    body: {},
    good: transcript,
    malformed: ['{"text":5}'],
    odd: ['"x"'],
  },
  { path: '/v1/responses/input_tokens', provider: 'openai', body: input, good: count, malformed: NO_COUNT },
  {
    path: '/v1/messages/count_tokens',
    provider: 'anthropic',
    body: chat,
    good: count,
    malformed: [...NO_COUNT, '{"x":1}'],
  },
  {
    path: '/v1/responses/compact',
    provider: 'openai',
    body: input,
    good: { id: 'resp_1', object: 'response.compaction', output: [{ type: 'compaction', encrypted_content: 'x' }] },
    malformed: ['{"output":null}', '{"output":[{}]}', '{"output":[null]}'],
  },
];

/** A form where the endpoint takes one: its file is first, so that all of it is held and can be sent twice. */
function post({ path, body }: Route, model: string): Promise<Response> {
  if (!/transcriptions|translations/.test(path)) return gateway.post(path, { ...body, model });
  const form = new FormData();
  form.set('file', new Blob(['a']), 'a.wav');
  form.set('model', model);
  return gateway.fetch(path, { method: 'POST', body: form });
}

const reactions: Readonly<Record<string, (route: Route, text: string) => Promise<void>>> = {
  async 'calls the next target'(route, text) {
    answersWith(json(text), json(JSON.stringify(route.good)));
    const answer = await post(route, `both-${route.provider}`);
    expect(answer.status, await answer.text()).toBe(200);
    const stream = `stream=exchange-${exchangeOf(answer)}`;
    const recorded = await eventsUntil(gateway, stream, ({ type }) => type === 'exchange.completed');
    expect(recorded.filter(({ type }) => type === 'attempt.started')).toHaveLength(2);
    const failed = recorded.find(({ type }) => type === 'attempt.failed');
    expect(failed?.data).toMatchObject({ attempt: 1, code: 'bad_provider_answer' });
  },

  async 'answers 502 when there is no other target'(route, text) {
    answersWith(json(text), json(text));
    const answer = await post(route, `${route.provider}/bad`);
    const recorded = eventsOfExchange(gateway, exchangeOf(answer));
    expect(answer.status).toBe(502);
    expect(await answer.text()).toMatch(new RegExp(`rovider '${route.provider}' `));
    const end = (await recorded).find(({ type }) => type === 'exchange.failed');
    expect(end?.data).toMatchObject({ status: 502, code: 'bad_provider_answer', reason: 'provider_error' });
  },
};
const wrong = routes.flatMap((route) =>
  [...NOTHING, ...route.malformed]
    .filter((text) => !route.odd?.includes(text))
    .flatMap((text) =>
      Object.entries(reactions).map(([reaction, test]) => ({ ...route, route, text, reaction, test })),
    ),
);
const someWrong = someOf(wrong, ({ route, text, reaction }) => [text, `${routes.indexOf(route)} ${reaction}`], 2);

it.each(someWrong)('$path of $provider $reaction after a 200 with $text', async ({ route, text, test }) => {
  await test(route, text);
});

describe.each(routes)('$path of $provider', (route) => {
  const { provider, good, odd = [] } = route;

  it('answers 502 to a redirect, also one with an answer as its body', async () => {
    scripted.script((_request, response) => {
      const headers = { 'content-type': 'application/json', location: 'http://127.0.0.1:1/elsewhere' };
      response.writeHead(307, headers).end(JSON.stringify(good));
    });
    const answer = await post(route, `${provider}/bad`);
    expect(answer.status).toBe(502);
    expect(answer.headers.has('location')).toBe(false);
    expect(await answer.text()).toContain(`'${provider}' answered with status 307`);
  });

  it.each([JSON.stringify(good), ...odd])('passes %s', async (text) => {
    answersWith(json(text), json(text));
    const answer = await post(route, `${provider}/bad`);
    expect(answer.status, await answer.text()).toBe(200);
  });
});

describe('objects that a provider creates', () => {
  const batch = { input_file_id: 'file-1', endpoint: '/v1/chat/completions', provider: 'openai' };
  const requests = [{ custom_id: 'a', params: { ...chat, model: 'anthropic/bad' } }];
  const created = [
    ['/v1/batches', () => gateway.post('/v1/batches', batch)],
    ['/v1/messages/batches', () => gateway.post('/v1/messages/batches', { requests })],
    [
      '/v1/files',
      () => {
        const form = new FormData();
        form.set('purpose', 'batch');
        form.set('file', new Blob(['{}']), 'a.jsonl');
        return gateway.fetch('/v1/files?provider=openai', { method: 'POST', body: form });
      },
    ],
  ] as const;
  it.each(created)('POST %s answers 502 where the provider returns none', async (_path, send) => {
    for (const text of [...NOTHING, '{"id":""}', '{"id":5}']) {
      scripted.script((_request, response) =>
        response.writeHead(200, { 'content-type': 'application/json' }).end(text),
      );
      const answer = await send();
      expect(answer.status, text).toBe(502);
      expect(await answer.text()).toContain('gave an answer without');
    }
  });

  it('have no other routes, and models have none but those above', async () => {
    /** Answered by the gateway itself, about an object that exists, or with a description of a call (SDP), which is not read. */
    const others =
      /^\/v1\/(conversations|realtime\/(client_secrets|calls)$|responses\/\{|batches\/\{|messages\/batches\/\{)/;
    const { paths } = (await (await gateway.fetch('/openapi.json')).json()) as { paths: Record<string, object> };
    const posts = Object.keys(paths).filter((path) => path.startsWith('/v1/') && 'post' in (paths[path] ?? {}));
    const known = new Set([...routes.map(({ path }) => path), ...created.map(([path]) => path)]);
    expect(posts.filter((path) => !others.test(path)).sort()).toEqual([...known].sort());
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

const wrongStreams = someOf(pairsOf(streams, [...noEvents, ...noObjects]), ([stream, text]) => [stream, text], 2).map(
  ([[path, provider, body], text]) => [path, provider, text, body] as const,
);

it.each(wrongStreams)('a stream of %s of %s that is %j is 502, and on record', async (path, provider, text, body) => {
  answersWith(events(text), events(text));
  const answer = await gateway.post(path, { ...body, model: `${provider}/bad`, stream: true });
  expect(answer.status).toBe(502);
  expect(await answer.text()).toMatch(new RegExp(`rovider '${provider}' `));
  const recorded = await eventsOfExchange(gateway, exchangeOf(answer));
  const end = recorded.find(({ type }) => type === 'exchange.failed');
  expect(end?.data).toMatchObject({ status: 502, code: 'bad_provider_answer' });
});

describe('a stream of chat completions', () => {
  it.each([...noEvents, ...noObjects])('that is %j calls the next target', async (text) => {
    answersWith(events(text), events(chatEvents));
    const answer = await gateway.post('/v1/chat/completions', { ...chat, model: 'both-openai', stream: true });
    expect(await answer.text()).toContain('Hello.');
    expect(answer.status).toBe(200);
  });
});
