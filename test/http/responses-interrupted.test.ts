/**
 * `POST /v1/responses` whose provider's stream ends before the answer does: an error for every client, and never an
 * item that looks finished. For each dialect that a provider may speak, and for each kind of item.
 */
import { afterAll, describe, expect, it } from 'vitest';
import type { Answered } from '../support/answered.ts';
import { type ScriptedProvider, startScriptedProvider } from '../support/scripted-provider.ts';
import {
  dataOf,
  eventsOf,
  eventsOfExchange,
  eventsUntil,
  exchangeOf,
  json,
  readUntil,
  withGateway,
} from '../support/with-gateway.ts';
import { checkStream } from '../translate/openai-shape.ts';

const PATH = '/v1/responses';
const KEY = 'sk-of-the-provider';
let scripted: ScriptedProvider;

const gateway = withGateway(async () => {
  scripted = await startScriptedProvider();
  answers('text/event-stream', []);
  const openAi = { OPENAI_BASE_URL: scripted.url, OPENAI_API_KEY: KEY };
  const anthropic = { ANTHROPIC_BASE_URL: scripted.url, ANTHROPIC_API_KEY: KEY };
  return {
    simulated: false,
    env: {
      ...{ ...openAi, ...anthropic, LLAMACPP_BASE_URL: scripted.url, OLLAMA_BASE_URL: scripted.url },
      ...{ RETRY_MAX_RETRIES: '0', CIRCUIT_BREAKER_ENABLED: 'false' },
    },
  };
});
afterAll(() => scripted.close());

type End = 'breaks off' | 'ends';

/** Every model request is answered with these frames, and then with the end of the connection. */
function answers(contentType: string, frames: readonly string[], end: End = 'ends'): void {
  scripted.script(({ method, path, headers }, response) => {
    if (isMissing(path, headers.authorization)) return void response.writeHead(404).end('{}');
    if (path === '/api/tags') return void response.end('{"models":[{"model":"scripted"}]}');
    if (path === '/api/show') return void response.end('{"capabilities":["completion","tools"],"model_info":{}}');
    if (path.startsWith('/v1/models?')) return void response.end('{"data":[{"id":"scripted","type":"model"}]}');
    if (method === 'GET') return void response.writeHead(404).end('{}');
    response.writeHead(200, { 'content-type': contentType });
    response.write(frames.join(''), () => (end === 'ends' ? response.end() : response.destroy()));
  });
}

/** Only the provider with a key has responses of its own. */
const isMissing = (path: string, authorization: string | undefined) =>
  path === PATH && authorization !== `Bearer ${KEY}`;

const frame = (data: object) => `data: ${JSON.stringify(data)}\n\n`;
const named = (type: string, data: object) => `event: ${type}\n${frame({ type, ...data })}`;

const says = (delta: object) => frame({ choices: [{ index: 0, delta }] });
const called = (index: number, given: object) => says({ tool_calls: [{ index, ...given }] });
const chat = {
  text: [says({ content: 'Hel' }), says({ content: 'lo' })],
  call: [
    called(0, { id: 'call_1', type: 'function', function: { name: 'rm', arguments: '' } }),
    called(0, { function: { arguments: '{"path":"/a' } }),
  ],
  reasoning: [says({ reasoning_content: 'Hm' })],
};

const block = (content_block: object, deltas: readonly object[]) => [
  named('message_start', { message: { id: 'msg_1', role: 'assistant', content: [], usage: { input_tokens: 1 } } }),
  named('content_block_start', { index: 0, content_block }),
  ...deltas.map((delta) => named('content_block_delta', { index: 0, delta })),
];
const messages = {
  text: block({ type: 'text', text: '' }, [
    { type: 'text_delta', text: 'Hel' },
    { type: 'text_delta', text: 'lo' },
  ]),
  call: block({ type: 'tool_use', id: 'call_1', name: 'rm', input: {} }, [
    { type: 'input_json_delta', partial_json: '{"path":' },
    { type: 'input_json_delta', partial_json: '"/a' },
  ]),
  reasoning: block({ type: 'thinking', thinking: '' }, [{ type: 'thinking_delta', thinking: 'Hm' }]),
};

const line = (message: object) =>
  `${JSON.stringify({ model: 'scripted', message: { role: 'assistant', content: '', ...message }, done: false })}\n`;
const ollama = {
  text: [line({ content: 'Hel' }), line({ content: 'lo' })],
  call: [line({ tool_calls: [{ function: { name: 'rm', arguments: { path: '/a' } } }] })],
  reasoning: [line({ thinking: 'Hm' })],
};

let ids = 0;
type Event = { type: string; [member: string]: unknown };
function native(item: { id: string; type: string }, events: readonly Event[], more: object = {}): string[] {
  const response = { id: `resp_${++ids}`, object: 'response', status: 'in_progress', output: [], error: null, ...more };
  return [
    { type: 'response.created', response },
    { type: 'response.in_progress', response },
    { type: 'response.output_item.added', output_index: 0, item: { ...item, status: 'in_progress' } },
    ...events.map((event) => ({ item_id: item.id, output_index: 0, ...event })),
  ].map((event, sequence_number) => named(event.type, { ...event, sequence_number }));
}
const responses = {
  text: () =>
    native({ id: 'msg_1', type: 'message', ...{ role: 'assistant', content: [] } }, [
      {
        type: 'response.content_part.added',
        content_index: 0,
        part: { type: 'output_text', text: '', annotations: [] },
      },
      { type: 'response.output_text.delta', content_index: 0, delta: 'Hel' },
      { type: 'response.output_text.delta', content_index: 0, delta: 'lo' },
    ]),
  call: () =>
    native({ id: 'fc_1', type: 'function_call', ...{ call_id: 'call_1', name: 'rm', arguments: '' } }, [
      { type: 'response.function_call_arguments.delta', delta: '{"path":' },
      { type: 'response.function_call_arguments.delta', delta: '"/a' },
    ]),
  reasoning: () =>
    native({ id: 'rs_1', type: 'reasoning', ...{ summary: [] } }, [
      { type: 'response.reasoning_summary_part.added', summary_index: 0, part: { type: 'summary_text', text: '' } },
      { type: 'response.reasoning_summary_text.delta', summary_index: 0, delta: 'Hm' },
    ]),
};

const SSE = 'text/event-stream';
type Kind = 'text' | 'call' | 'reasoning';
const providers: Readonly<Record<string, (kind: Kind) => { type: string; frames: readonly string[] }>> = {
  'openai/scripted': (kind) => ({ type: SSE, frames: responses[kind]() }),
  'llamacpp/scripted': (kind) => ({ type: SSE, frames: chat[kind] }),
  'anthropic/scripted': (kind) => ({ type: SSE, frames: messages[kind] }),
  'ollama/scripted': (kind) => ({ type: 'application/x-ndjson', frames: ollama[kind] }),
};
const partial: Readonly<Record<Kind, object>> = {
  text: { type: 'message', status: 'incomplete', content: [{ type: 'output_text', text: 'Hello' }] },
  call: { type: 'function_call', status: 'incomplete', name: 'rm', arguments: expect.stringMatching(/^\{"path":"\/a/) },
  reasoning: { type: 'reasoning', status: 'incomplete', summary: [{ type: 'summary_text', text: 'Hm' }] },
};
const models = Object.keys(providers);
const kinds: readonly Kind[] = ['text', 'call', 'reasoning'];

const tools = [{ type: 'function', name: 'rm', parameters: { type: 'object', properties: {} } }];
const stored = (id: string, below = '') => gateway.fetch(`${PATH}/${id}${below}`);

async function stream(body: object) {
  const answer = await gateway.post(PATH, { input: 'hi', tools, stream: true, ...body });
  expect(answer.status, await answer.clone().text()).toBe(200);
  const text = await answer.text();
  return { text, events: dataOf(text), exchange: exchangeOf(answer) };
}

/** The stream ends as a failure, and no item looks finished. @returns the failed response */
function failedIn(text: string): Answered {
  const events = dataOf(text);
  const types = events.map(({ type }) => type);
  expect(types.slice(-2)).toEqual(['error', 'response.failed']);
  expect(types.filter((type) => type.endsWith('.done') || /completed|incomplete/.test(type))).toEqual([]);
  expect(events.map(({ sequence_number: number }) => number)).toEqual(events.map((_, index) => index));
  expect(eventsOf(text).at(-1)?.data).toBe('[DONE]');
  const [error, { response }] = events.slice(-2);
  expect(error).toMatchObject({ code: error.error.code, message: error.error.message, param: null });
  expect(response).toMatchObject({ status: 'failed', incomplete_details: null, completed_at: null });
  expect(response.error).toEqual({ type: error.error.type, code: error.code, message: error.message });
  return response;
}

describe.each(models)('a response of %s', (model) => {
  const type = model.split('/', 1)[0] ?? '';

  for (const end of ['breaks off', 'ends'] as const) {
    it.each(kinds)(`whose stream ${end} within its %s fails, and is stored as failed`, async (kind) => {
      const { type: contentType, frames } = providers[model]?.(kind) ?? { type: '', frames: [] };
      answers(contentType, frames, end);
      const { text, events, exchange } = await stream({ model });
      const response = failedIn(text);
      expect(response).toMatchObject({ error: { type: 'provider_error', code: 'stream_incomplete' } });
      expect(response.output).toMatchObject([partial[kind]]);
      expect(events.at(-2)).toMatchObject({ error: { provider: type } });
      if (type !== 'openai') checkStream(events);
      expect(await json(await stored(response.id))).toEqual(response);
      expect(await (await stored(response.id, '?stream=true')).text()).toBe(text);
      const logged = await eventsOfExchange(gateway, exchange);
      expect(logged.find(({ type: named }) => named === 'exchange.failed')?.data).toMatchObject({
        reason: 'stream_broken',
        code: 'stream_incomplete',
        responseId: response.id,
      });
    });
  }

  it('that is resumed in the middle includes its failure', async () => {
    const { type: contentType, frames } = providers[model]?.('text') ?? { type: '', frames: [] };
    answers(contentType, frames, 'breaks off');
    const { events } = await stream({ model });
    const { id } = events.at(-1)?.response ?? {};
    const rest = dataOf(await (await stored(id, '?stream=true&starting_after=2')).text());
    expect(rest).toEqual(events.slice(3));
  });
});

describe.each(models.slice(1))('a background response of %s', (model) => {
  it.each([
    ['as a stream', true],
    ['in one piece', false],
  ])('made %s fails when its provider breaks off', async (_how, streamed) => {
    const { type: contentType, frames } = providers[model]?.('call') ?? { type: '', frames: [] };
    answers(contentType, frames, 'breaks off');
    const answer = await gateway.post(PATH, { model, input: 'hi', tools, background: true, stream: streamed });
    const text = await answer.text();
    const id = streamed ? failedIn(text).id : JSON.parse(text).id;
    const followed = await (await stored(id, '?stream=true')).text();
    const response = failedIn(followed);
    expect(response).toMatchObject({ id, status: 'failed', background: true });
    expect(await json(await stored(id))).toEqual(response);
    if (streamed) expect(response.output).toMatchObject([partial.call]);
  });
});

describe('a background response that its provider continues', () => {
  const model = 'openai/scripted';

  it('ends a stream that breaks off with an error, and stays in progress', async () => {
    answers(SSE, native({ id: 'msg_1', type: 'message' }, [], { background: true }), 'breaks off');
    const { text, events } = await stream({ model, background: true });
    const [created] = events;
    expect(events.at(-1)).toMatchObject({
      type: 'error',
      sequence_number: 2,
      code: 'stream_incomplete',
      message: expect.stringContaining('retrieve it by its id'),
      error: { type: 'provider_error', provider: 'openai' },
    });
    expect(eventsOf(text).at(-1)?.data).toBe('[DONE]');
    expect(await json(await stored(created.response.id))).toMatchObject({ status: 'in_progress' });
  });

  it('ends a retrieved stream that breaks off with an error', async () => {
    const frames = native({ id: 'msg_1', type: 'message' }, [], { background: true });
    answers(SSE, frames, 'breaks off');
    const { events } = await stream({ model, background: true });
    scripted.script((_request, response) => {
      response.writeHead(200, { 'content-type': SSE });
      response.write(`${frames.join('')}data: [DONE]\n\n`, () => response.destroy());
    });
    const text = await (await stored(events[0].response.id, '?stream=true')).text();
    expect(dataOf(text).at(-1)).toMatchObject({ type: 'error', sequence_number: 2, code: 'stream_incomplete' });
    expect(text.match(/\[DONE\]/g)).toHaveLength(1);
  });
});

describe('a native response', () => {
  const model = 'openai/scripted';

  it('whose provider sends its end marker without a terminal event fails', async () => {
    answers(SSE, [...responses.text(), 'data: [DONE]\n\n']);
    const { text } = await stream({ model });
    expect(failedIn(text)).toMatchObject({ error: { code: 'stream_incomplete' } });
    expect(text.match(/\[DONE\]/g)).toHaveLength(1);
  });

  it('that was cut before its first event fails with all that is known of it', async () => {
    answers(SSE, [': waiting\n\n', frame({ type: 'response.heartbeat', sequence_number: 0 })], 'breaks off');
    const { text } = await stream({ model, metadata: { a: 'b' } });
    expect(dataOf(text).at(-1)).toMatchObject({ type: 'response.failed', response: { metadata: { a: 'b' } } });
  });

  it('keeps the items that were done, and the parts of one that was not', async () => {
    const item = { id: 'msg_1', type: 'message', role: 'assistant', content: [] };
    const part = { type: 'output_text', text: '', annotations: [] };
    const second = { output_index: 1, item_id: 'ctc_1' };
    const whole = { ...item, status: 'completed', content: [{ ...part, text: 'One.' }] };
    const events = [
      { type: 'response.content_part.added', content_index: 0, part },
      { type: 'response.output_text.delta', content_index: 0, delta: 'One.' },
      { type: 'response.output_item.done', item: whole },
      { type: 'response.output_item.added', ...second, item: { id: 'ctc_1', type: 'custom_tool_call', input: '' } },
      { type: 'response.custom_tool_call_input.delta', ...second, delta: 'rm -r' },
      {
        type: 'response.output_item.added',
        output_index: 2,
        item: { id: 'ws_1', type: 'web_search_call', status: 'searching' },
      },
    ];
    answers(SSE, native(item, events), 'breaks off');
    const { events: seen } = await stream({ model });
    expect(seen.at(-1)?.response.output).toEqual([
      whole,
      { id: 'ctc_1', type: 'custom_tool_call', input: 'rm -r', status: 'incomplete' },
      { id: 'ws_1', type: 'web_search_call', status: 'failed' },
    ]);
  });
});

describe('a response that its client abandons', () => {
  it.each(models)('is cancelled, with its output so far: %s', async (model) => {
    const { type: contentType, frames } = providers[model]?.('text') ?? { type: '', frames: [] };
    scripted.script(({ path, headers }, response) => {
      if (isMissing(path, headers.authorization)) return void response.writeHead(404).end('{}');
      response.writeHead(200, { 'content-type': contentType });
      response.write(frames.join(''));
    });
    const left = new AbortController();
    const body = { model, input: 'hi', stream: true };
    const answer = await gateway.post(PATH, body, { signal: left.signal });
    await readUntil(answer, '"lo"');
    left.abort();
    const logged = await eventsUntil(
      gateway,
      `stream=exchange-${exchangeOf(answer)}`,
      ({ type }) => type === 'client.disconnected',
    );
    const { responseId } = logged.at(-1)?.data ?? {};
    const response = await json(await stored(String(responseId)));
    expect(response).toMatchObject({ status: 'cancelled', incomplete_details: null, error: null });
    expect(response.output).toMatchObject([partial.text]);
    const types = dataOf(await (await stored(response.id, '?stream=true')).text()).map(({ type }) => type);
    expect(types.slice(-2)).toEqual(['error', 'response.failed']);
    expect(types).not.toContain('response.output_item.done');
  });
});

describe('a tool call that a limit cuts off', () => {
  it('is incomplete in the response, and not announced as done', async () => {
    const end = frame({ choices: [{ index: 0, delta: {}, finish_reason: 'length' }] });
    answers(SSE, [...chat.text, ...chat.call, end, 'data: [DONE]\n\n']);
    const { events } = await stream({ model: 'llamacpp/scripted' });
    const { type, response } = events.at(-1) ?? {};
    expect(type).toBe('response.incomplete');
    expect(response.incomplete_details).toEqual({ reason: 'max_output_tokens' });
    expect(response.output).toMatchObject([{ ...partial.text, status: 'completed' }, partial.call]);
    const done = events.filter(({ type: one }) => one === 'response.output_item.done');
    expect(done.map(({ item }) => item.type)).toEqual(['message']);
    expect(events.map(({ type: one }) => one)).not.toContain('response.function_call_arguments.done');
  });
});

describe('previous_response_id of a response that failed within a tool call', () => {
  it('leaves the incomplete call out of the replay', async () => {
    answers('text/event-stream', [...chat.text, ...chat.call], 'breaks off');
    const model = 'llamacpp/scripted';
    const failed = await gateway.post(PATH, { model, input: 'hi', stream: true });
    const { response } = dataOf(await failed.text()).at(-1);
    expect(response).toMatchObject({
      status: 'failed',
      output: [{ type: 'message' }, { type: 'function_call', status: 'incomplete', arguments: '{"path":"/a' }],
    });

    answers('text/event-stream', [...chat.text, frame({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] })]);
    const next = { model, input: 'go on', previous_response_id: response.id, stream: true };
    const answer = await gateway.post(PATH, next);
    expect(dataOf(await answer.text()).at(-1)).toMatchObject({ type: 'response.completed' });
    const { messages: sent } = JSON.parse(scripted.last().body.toString());
    expect(sent.map(({ role }: { role: string }) => role)).toEqual(['user', 'assistant', 'user']);
    expect(JSON.stringify(sent)).not.toContain('tool_calls');
  });
});
