/** The model named in an answer, and in the usage of the answer: the same for every dialect of the client. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ScriptedProvider, startScriptedProvider } from '../support/scripted-provider.ts';
import { saved } from '../support/several-providers.ts';
import { dataOf, eventsUntil, exchangeOf, user, withGateway } from '../support/with-gateway.ts';

const TOLD = 'scripted-2026-11-01';
const types = ['llamacpp', 'anthropic', 'ollama', 'openai'] as const;
type Type = (typeof types)[number];
const answerIds: Readonly<Record<Type, string | undefined>> = {
  llamacpp: 'chatcmpl-upstream',
  anthropic: 'msg_upstream',
  ollama: undefined,
  openai: 'chatcmpl-upstream',
};

const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
const tokens = { input_tokens: 1, output_tokens: 1, total_tokens: 2 };
const choice = { index: 0, finish_reason: 'stop' };
const message = { id: 'msg_upstream', type: 'message', role: 'assistant', model: TOLD, stop_reason: 'end_turn' };
const item = {
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  status: 'completed',
  content: [{ type: 'output_text', text: 'ok', annotations: [] }],
};
const response = {
  id: 'resp_upstream',
  provider: 'elsewhere',
  object: 'response',
  created_at: 1,
  status: 'completed',
  model: TOLD,
  output: [item],
  usage: tokens,
};

const sse = (events: readonly object[]) => events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('');

/** A whole answer and a stream, by request path. */
const answers: Readonly<Record<string, readonly [whole: object, stream: string]>> = {
  '/v1/chat/completions': [
    {
      id: 'chatcmpl-upstream',
      object: 'chat.completion',
      created: 1,
      model: TOLD,
      choices: [{ ...choice, message: { role: 'assistant', content: 'ok' } }],
      usage,
    },
    `${sse([
      {
        id: 'chatcmpl-upstream',
        object: 'chat.completion.chunk',
        created: 1,
        model: TOLD,
        choices: [{ index: 0, delta: { role: 'assistant', content: 'ok' }, finish_reason: null }],
      },
      {
        id: 'chatcmpl-upstream',
        object: 'chat.completion.chunk',
        created: 1,
        model: TOLD,
        choices: [{ ...choice, delta: {} }],
        usage,
      },
    ])}data: [DONE]\n\n`,
  ],
  '/v1/messages': [
    { ...message, content: [{ type: 'text', text: 'ok' }], usage: tokens },
    sse([
      { type: 'message_start', message: { ...message, stop_reason: null, content: [], usage: tokens } },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: 'ok' } },
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 1 } },
      { type: 'message_stop' },
    ]),
  ],
  '/api/chat': [
    { model: TOLD, message: { role: 'assistant', content: 'ok' }, done: true, prompt_eval_count: 1, eval_count: 1 },
    `${JSON.stringify({ model: TOLD, message: { role: 'assistant', content: 'ok' }, done: true, prompt_eval_count: 1, eval_count: 1 })}\n`,
  ],
  '/v1/responses': [
    response,
    sse([
      { type: 'response.created', sequence_number: 0, response: { ...response, status: 'in_progress', output: [] } },
      { type: 'response.completed', sequence_number: 1, response },
    ]),
  ],
};

let scripted: ScriptedProvider;
const gateway = withGateway(async () => {
  scripted = await startScriptedProvider();
  scripted.script((request, reply) => {
    const json = (body: object) =>
      reply.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    if (request.path.startsWith('/v1/models?'))
      return json({ data: [{ id: 'scripted', type: 'model' }], has_more: false });
    if (request.path === '/api/tags') return json({ models: [{ model: 'scripted' }] });
    if (request.path === '/api/show') return json({ capabilities: ['completion'] });
    const [whole, stream] = answers[request.path] ?? [];
    if (whole === undefined) return reply.writeHead(404).end('{}');
    if (JSON.parse(request.body.toString()).stream !== true) return json(whole);
    const type = request.path === '/api/chat' ? 'application/x-ndjson' : 'text/event-stream';
    return reply.writeHead(200, { 'content-type': type }).end(stream);
  });
  const env: Record<string, string> = { RETRY_MAX_RETRIES: '0' };
  for (const type of types) {
    env[`${type.toUpperCase()}_BASE_URL`] = scripted.url;
    env[`${type.toUpperCase()}_API_KEY`] = 'a-key';
  }
  return { simulated: false, env };
});
beforeAll(async () => {
  for (const type of types)
    await saved(gateway, { source: `quick ${type}`, targets: [{ provider: type, model: 'scripted' }] });
});
afterAll(() => scripted.close());

const requests = {
  '/v1/chat/completions': { messages: user('hi') },
  '/v1/messages': { messages: user('hi'), max_tokens: 9 },
  '/v1/responses': { input: 'hi' },
};
const routes = Object.keys(requests) as (keyof typeof requests)[];

/** Every model that the answer names. */
function modelsIn(text: string, stream: boolean): unknown[] {
  const parts = stream ? dataOf(text) : [JSON.parse(text)];
  return parts.flatMap(({ model, message: begun, response: reported }) => {
    const named = [model, begun?.model, reported?.model].filter((one) => one !== undefined);
    return named;
  });
}

describe.each(types)('an answer of %s through an alias', (type) => {
  it.each(routes.flatMap((route) => [[route, false] as const, [route, true] as const]))(
    'names the model of the provider on %s (stream: %s), and the alias and the provider in headers',
    async (route, stream) => {
      const answer = await gateway.post(route, { model: `quick ${type}`, ...requests[route], stream });
      const text = await answer.text();
      expect(answer.status, text).toBe(200);
      expect(answer.headers.get('x-requested-model')).toBe(`quick%20${type}`);
      expect(answer.headers.get('x-provider')).toBe(type);
      if (route === '/v1/responses' && !stream) expect(JSON.parse(text).provider).toBe(type);
      const models = modelsIn(text, stream);
      expect(models.length).toBeGreaterThan(0);
      expect(new Set(models)).toEqual(new Set([TOLD]));
    },
  );

  it.each(routes.flatMap((route) => [[route, false] as const, [route, true] as const]))(
    'has its id in the usage of a request on %s (stream: %s)',
    async (route, stream) => {
      const answer = await gateway.post(route, { model: `quick ${type}`, ...requests[route], stream });
      await answer.text();
      const reported = `stream=exchange-${exchangeOf(answer)}`;
      const events = await eventsUntil(gateway, reported, (event) => event.type === 'usage.recorded');
      const native = route === '/v1/responses' && (type === 'openai' || type === 'llamacpp');
      const id = native ? 'resp_upstream' : answerIds[type];
      expect(events.at(-1)?.data['providerId']).toBe(id);
    },
  );
});

it('an answer returned again under its idempotency key names the same models', async () => {
  const ask = () =>
    gateway.post(
      '/v1/messages',
      { model: 'quick llamacpp', ...requests['/v1/messages'] },
      { headers: { 'idempotency-key': 'the-same' } },
    );
  const first = await (await ask()).text();
  const again = await ask();
  expect(again.headers.get('idempotent-replayed')).toBe('true');
  expect(again.headers.get('x-requested-model')).toBe('quick%20llamacpp');
  expect(again.headers.get('x-provider')).toBe('llamacpp');
  expect(await again.text()).toBe(first);
});

it('an answer that does not come from a model names none', async () => {
  const answer = await gateway.fetch('/p/llamacpp/v1/nothing');
  expect(answer.headers.get('x-requested-model')).toBeNull();
});
