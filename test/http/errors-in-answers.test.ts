/** A provider that fails while it answers: an error in each dialect, and a failed exchange on the record. */
import type { ServerResponse } from 'node:http';
import { afterAll, describe, expect, it } from 'vitest';
import { startScriptedProvider } from '../support/scripted-provider.ts';
import { dataOf, errorOf, eventsOf, eventsOfExchange, exchangeOf, user, withGateway } from '../support/with-gateway.ts';

const started = startScriptedProvider();
const gateway = withGateway(async () => {
  const { url } = await started;
  return {
    simulated: false as const,
    env: {
      LLAMACPP_BASE_URL: url,
      OPENAI_BASE_URL: url,
      OPENAI_API_KEY: 'a-key-for-tests',
      ANTHROPIC_BASE_URL: url,
      ANTHROPIC_API_KEY: 'a-key-for-tests',
      OLLAMA_BASE_URL: url.replace('/v1', ''),
      OLLAMA_MODELS: 'scripted',
      RETRY_MAX_RETRIES: '0',
      CIRCUIT_BREAKER_ENABLED: 'false',
    },
  };
}, 2);
afterAll(async () => (await started).close());

const MESSAGE = 'The model ran out of memory.';
const SILENT = 'error without details';
const NOT_JSON = 'sent a stream event that is not JSON';
const EARLY = 'before the answer was complete';

interface Answering {
  readonly type: 'text/event-stream' | 'application/x-ndjson';
  readonly frames: readonly string[];
}

const sse = (data: object, event?: string) => `${event ? `event: ${event}\n` : ''}data: ${JSON.stringify(data)}\n\n`;
const chunk = (delta: object, finish: string | null = null, more: object = {}) => ({
  id: 'c',
  object: 'chat.completion.chunk',
  created: 1,
  model: 'scripted',
  choices: [{ index: 0, delta, finish_reason: finish, ...more }],
});
const hello = sse(chunk({ role: 'assistant', content: 'Hello' }));
const done = 'data: [DONE]\n\n';
const error = { code: 502, message: MESSAGE };
const events = (...frames: string[]): Answering => ({ type: 'text/event-stream', frames });
const lines = (...frames: object[]): Answering => ({
  type: 'application/x-ndjson',
  frames: frames.map((line) => `${JSON.stringify(line)}\n`),
});

const callOpen = chunk({
  tool_calls: [{ index: 0, id: 'call_1', type: 'function', function: { name: 'rm', arguments: '{"path":"/a' } }],
});
const anthropicStart = [
  sse(
    { type: 'message_start', message: { id: 'm', type: 'message', role: 'assistant', content: [] } },
    'message_start',
  ),
  sse({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } }, 'content_block_start'),
  sse({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hello' } }, 'content_block_delta'),
];
const ollamaStart = { model: 'scripted', message: { role: 'assistant', content: 'Hello' }, done: false };

const failing: readonly [string, string, Answering, string][] = [
  ['llamacpp', 'an error alone', events(hello, sse({ error }), done), MESSAGE],
  ['llamacpp', 'an error beside a choice', events(hello, sse({ ...chunk({}, 'error'), error }), done), MESSAGE],
  ['llamacpp', 'an error as a text', events(hello, sse({ ...chunk({}, 'error'), error: MESSAGE }), done), MESSAGE],
  [
    'llamacpp',
    'a flat error',
    events(hello, sse({ object: 'error', message: MESSAGE, type: 'InternalServerError', code: 502 }), done),
    MESSAGE,
  ],
  ['llamacpp', 'a detail alone', events(hello, sse({ detail: MESSAGE }), done), MESSAGE],
  ['llamacpp', 'an error code beside a text', events(hello, sse({ text: MESSAGE, error_code: 50002 }), done), MESSAGE],
  ['llamacpp', 'an event called error', events(hello, sse({ message: MESSAGE, code: 502 }, 'error'), done), MESSAGE],
  ['llamacpp', 'a text in an event called error', events(hello, `event: error\ndata: ${MESSAGE}\n\n`, done), MESSAGE],
  ['llamacpp', 'a field called error', events(hello, `error: ${JSON.stringify(error)}\n\n`, done), MESSAGE],
  ['llamacpp', 'an error that is no data', events(hello, `${JSON.stringify({ error })}\n\n`, done), MESSAGE],
  ['llamacpp', 'an error within a choice', events(hello, sse(chunk({}, 'error', { error })), done), MESSAGE],
  ['llamacpp', 'the finish reason `error`', events(hello, sse(chunk({}, 'error')), done), SILENT],
  [
    'llamacpp',
    'an error within a tool call',
    events(sse(callOpen), sse({ ...chunk({}, 'error'), error }), done),
    MESSAGE,
  ],
  [
    'anthropic',
    'an error event',
    events(...anthropicStart, sse({ type: 'error', error: { type: 'api_error', message: MESSAGE } }, 'error')),
    MESSAGE,
  ],
  ['anthropic', 'an error without a type', events(...anthropicStart, sse({ error })), MESSAGE],
  ['ollama', 'an error line', lines(ollamaStart, { error: MESSAGE }), MESSAGE],
];

/** The end of the answer is missing, though the stream ends in an orderly way. */
const torn = 'data: {"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"ind\n\n';
const callGoesOn = chunk({ tool_calls: [{ index: 0, function: { arguments: '"}' } }] });
const toolOfAnthropic = [
  sse({ type: 'content_block_stop', index: 0 }, 'content_block_stop'),
  sse(
    { type: 'content_block_start', index: 1, content_block: { type: 'tool_use', id: 't', name: 'rm', input: {} } },
    'content_block_start',
  ),
  sse(
    { type: 'content_block_delta', index: 1, delta: { type: 'input_json_delta', partial_json: '{"path":"/a' } },
    'content_block_delta',
  ),
];
const stopOfAnthropic = sse({ type: 'message_stop' }, 'message_stop');
const incomplete: readonly [string, string, Answering, string][] = [
  ['llamacpp', 'a torn event in a text', events(hello, torn, sse(chunk({}, 'stop')), done), NOT_JSON],
  [
    'llamacpp',
    'a torn event in a tool call',
    events(sse(callOpen), torn, sse(callGoesOn), sse(chunk({}, 'tool_calls')), done),
    NOT_JSON,
  ],
  ['llamacpp', 'a text without a finish reason', events(hello, done), EARLY],
  ['llamacpp', 'half a tool call without a finish reason', events(sse(callOpen), done), EARLY],
  ['llamacpp', 'an empty finish reason', events(hello, sse(chunk({}, '')), done), EARLY],
  ['llamacpp', 'nothing but the end marker', events(done), EARLY],
  [
    'anthropic',
    'a torn event',
    events(
      ...anthropicStart,
      'event: content_block_delta\ndata: {"type":"content_bl\n\n',
      sse({ type: 'message_delta', delta: { stop_reason: 'end_turn' } }, 'message_delta'),
      stopOfAnthropic,
    ),
    NOT_JSON,
  ],
  [
    'ollama',
    'a line that is not JSON',
    {
      type: 'application/x-ndjson',
      frames: [
        `${JSON.stringify(ollamaStart)}\n`,
        '{{{\n',
        `${JSON.stringify({ ...ollamaStart, done: true, done_reason: 'stop' })}\n`,
      ],
    },
    NOT_JSON,
  ],
];
/** Clients of messages get the events of Anthropic unchanged, and detect a missing stop reason themselves. */
const incompleteTranslated: readonly [string, string, Answering, string][] = [
  ['anthropic', 'half a tool call and its end', events(...anthropicStart, ...toolOfAnthropic, stopOfAnthropic), EARLY],
];

const asking = {
  chat: ['/v1/chat/completions', {}],
  messages: ['/v1/messages', { max_tokens: 50 }],
} as const;

async function answering(send: (response: ServerResponse, path: string) => void): Promise<void> {
  (await started).script(({ path }, response) => {
    // A provider without `/v1/responses` receives a chat completion.
    if (path === '/v1/responses' && response.req.headers.authorization === undefined) response.writeHead(404).end('{}');
    else send(response, path);
  });
}

/** The pieces one by one, so that the first has been sent when the last arrives. */
async function streaming({ type, frames }: Answering): Promise<void> {
  await answering((response) => {
    response.writeHead(200, { 'content-type': type });
    const next = (rest: readonly string[]): void => {
      const [frame, ...more] = rest;
      if (frame === undefined) response.end();
      else response.write(frame, () => setImmediate(() => next(more)));
    };
    next(frames);
  });
}

async function expectFailed(answer: Response): Promise<void> {
  const types = (await eventsOfExchange(gateway, exchangeOf(answer))).map(({ type }) => type);
  expect(types).toContain('exchange.failed');
  expect(types).not.toContain('exchange.completed');
}

describe.each([...failing, ...incomplete])('%s that streams %s', (provider, _what, given, message) => {
  const model = `${provider}/scripted`;

  it.each(['chat', 'messages'] as const)('fails for a client of %s', async (dialect) => {
    await streaming(given);
    const [path, more] = asking[dialect];
    const answer = await gateway.post(path, { model, messages: user('hi'), stream: true, ...more });
    const text = await answer.text();
    if (answer.status === 200) {
      expect(dataOf(text).at(-1).error.message).toContain(message);
      expect(text).not.toContain('[DONE]');
      expect(text).not.toContain('message_stop');
      expect(text).not.toContain('end_turn');
      if (dialect === 'messages') expect(eventsOf(text).at(-1)?.event).toBe('error');
    } else {
      expect([answer.status, JSON.parse(text).error.message]).toEqual([502, expect.stringContaining(message)]);
    }
    await expectFailed(answer);
  });

  it('fails for a client of responses', async () => {
    await streaming(given);
    const answer = await gateway.post('/v1/responses', { model, input: 'hi', stream: true });
    const text = await answer.text();
    if (answer.status === 200) {
      const [reported, failed] = dataOf(text).slice(-2);
      expect(reported).toMatchObject({ type: 'error', message: expect.stringContaining(message) });
      expect(failed).toMatchObject({ type: 'response.failed', response: { status: 'failed' } });
      expect(text).not.toContain('response.completed');
      expect(text).not.toContain('function_call_arguments.done');
    } else {
      expect([answer.status, JSON.parse(text).error.message]).toEqual([502, expect.stringContaining(message)]);
    }
    await expectFailed(answer);
  });
});

it('a stream that begins with an error fails with it, although its provider keeps the connection open', async () => {
  await answering((response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write(sse({ error }));
  });
  const body = { model: 'llamacpp/scripted', messages: user('hi'), stream: true };
  const answer = await gateway.post('/v1/chat/completions', body);
  expect(await errorOf(answer, 502)).toMatchObject({ message: expect.stringContaining(MESSAGE) });
  await expectFailed(answer);
});

it.each(incompleteTranslated)(
  '%s that streams %s fails for clients of responses and chat',
  async (provider, _, given) => {
    await streaming(given);
    const model = `${provider}/scripted`;
    for (const [path, requestBody] of [
      ['/v1/responses', { model, input: 'hi', stream: true }],
      ['/v1/chat/completions', { model, messages: user('hi'), stream: true }],
    ] as const) {
      const answer = await gateway.post(path, requestBody);
      const text = await answer.text();
      expect(text).toContain(EARLY);
      expect(text).not.toContain('response.completed');
      expect(text).not.toContain('function_call_arguments.done');
      await expectFailed(answer);
    }
  },
);

const interruptions = ['abort', 'cancelled', 'insufficient_system_resource', 'MALFORMED_FUNCTION_CALL', 'new_reason'];
const ends = ['stop', 'eos', 'eos_token', 'end_turn', 'stop_sequence', 'STOP'];

describe('a chat stream with a finish reason', () => {
  const model = 'llamacpp/scripted';
  const translated = [
    ['/v1/responses', { model, input: 'hi', stream: true }],
    ['/v1/messages', { model, messages: user('hi'), max_tokens: 9, stream: true }],
  ] as const;

  it.each(interruptions)('of an interruption (%s) fails for clients of responses and messages', async (reason) => {
    await streaming(events(sse(callOpen), sse(chunk({}, reason)), done));
    for (const [path, requestBody] of translated) {
      const answer = await gateway.post(path, requestBody);
      const text = await answer.text();
      expect(text).toContain(EARLY);
      expect(text).not.toMatch(/response\.completed|arguments\.done|message_stop|"tool_use","stop/);
      await expectFailed(answer);
    }
  });

  it.each(ends)('of an end (%s) is complete', async (reason) => {
    await streaming(events(hello, sse(chunk({}, reason)), done));
    for (const [path, requestBody] of translated) {
      const text = await (await gateway.post(path, requestBody)).text();
      expect(text).toMatch(/response\.completed|"stop_reason":"end_turn"/);
    }
  });

  it('of an interruption is passed on to clients of chat completions', async () => {
    await streaming(events(hello, sse(chunk({}, 'abort')), done));
    const answer = await gateway.post('/v1/chat/completions', { model, messages: user('hi'), stream: true });
    expect(await answer.text()).toMatch(/"finish_reason":"abort".*\[DONE\]/s);
    const types = (await eventsOfExchange(gateway, exchangeOf(answer))).map(({ type }) => type);
    expect(types).toContain('exchange.completed');
  });

  it('that is another word for a limit is incomplete', async () => {
    await streaming(events(hello, sse(chunk({}, 'model_length')), done));
    const [responses, messages] = translated;
    expect(await (await gateway.post(...responses)).text()).toContain('"reason":"max_output_tokens"');
    expect(await (await gateway.post(...messages)).text()).toContain('"stop_reason":"max_tokens"');
  });
});

describe('an endpoint that is passed on unchanged', () => {
  const text = (finish: string | null, more: object = {}) => ({
    id: 'c',
    object: 'text_completion',
    choices: [{ index: 0, text: 'Hel', finish_reason: finish, ...more }],
  });

  it.each<[string, object, string]>([
    ['an error beside a choice', { ...text('error'), error }, MESSAGE],
    ['an error within a choice', text('error', { error }), MESSAGE],
    ['the finish reason `error`', text('error'), SILENT],
    ['a flat error', { object: 'error', message: MESSAGE, code: 502 }, MESSAGE],
    ['a detail alone', { detail: MESSAGE }, MESSAGE],
    ['an event called error', { message: MESSAGE, code: 502 }, MESSAGE],
    ['a torn event', {}, NOT_JSON],
  ])('fails when it streams %s', async (_what, last, message) => {
    const event = 'code' in last && !('object' in last) ? 'error' : undefined;
    await streaming(events(sse(text(null)), message === NOT_JSON ? torn : sse(last, event), done));
    const answer = await gateway.post('/v1/completions', { model: 'llamacpp/scripted', prompt: 'hi', stream: true });
    const said = await answer.text();
    const reported = answer.status === 200 ? dataOf(said).at(-1) : JSON.parse(said);
    expect(reported.error.message).toContain(message);
    expect(said).not.toContain('[DONE]');
    await expectFailed(answer);
  });
});

describe('a whole answer that reports an error', () => {
  const message = { role: 'assistant', content: 'Hel' };
  const whole = (finish: string, more: object, inChoice: object = {}) => ({
    id: 'c',
    object: 'chat.completion',
    created: 1,
    model: 'scripted',
    choices: [{ index: 0, message, finish_reason: finish, ...inChoice }],
    usage: { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 },
    ...more,
  });

  it.each<[string, object, string]>([
    ['beside a choice', whole('error', { error }), MESSAGE],
    ['within a choice', whole('error', {}, { error }), MESSAGE],
    ['as its finish reason', whole('error', {}), SILENT],
  ])('%s fails in each dialect, and its usage is recorded', async (_where, body, reported) => {
    await answering((response) => {
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    });
    const model = 'llamacpp/scripted';
    for (const [path, requestBody] of [
      ['/v1/chat/completions', { model, messages: user('hi') }],
      ['/v1/messages', { model, messages: user('hi'), max_tokens: 9 }],
      ['/v1/responses', { model, input: 'hi' }],
      ['/v1/completions', { model, prompt: 'hi' }],
    ] as const) {
      const answer = await gateway.post(path, requestBody);
      expect([path, answer.status]).toEqual([path, 502]);
      expect((JSON.parse(await answer.text()) as { error: { message: string } }).error.message).toContain(reported);
      const recorded = await eventsOfExchange(gateway, exchangeOf(answer));
      const usage = recorded.find(({ type }) => type === 'usage.recorded')?.data;
      expect(usage).toMatchObject({ inputTokens: 3, outputTokens: 4 });
    }
  });

  it.each(interruptions)('as the finish reason %s fails for clients of responses and messages', async (reason) => {
    await answering((response) => {
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(whole(reason, {})));
    });
    const model = 'llamacpp/scripted';
    for (const [path, requestBody] of [
      ['/v1/messages', { model, messages: user('hi'), max_tokens: 9 }],
      ['/v1/responses', { model, input: 'hi' }],
    ] as const) {
      const answer = await gateway.post(path, requestBody);
      expect([path, answer.status]).toEqual([path, 502]);
      expect(await answer.text()).toContain('interrupted');
      await expectFailed(answer);
    }
  });

  it('is returned with its own status', async () => {
    const body = whole('error', { error: { code: 429, message: 'slow down' } });
    await answering((response) => {
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    });
    const answer = await gateway.post('/v1/chat/completions', { model: 'llamacpp/scripted', messages: user('hi') });
    expect(await errorOf(answer, 429)).toMatchObject({ type: 'rate_limit_error', message: 'slow down' });
  });
});

describe('a provider of responses whose stream ends with response.failed', () => {
  it('is passed on unchanged, and recorded as a failed exchange', async () => {
    const response = { id: 'resp_1', object: 'response', created_at: 1, model: 'scripted', output: [] };
    const failed = { ...response, status: 'failed', error: { code: 'server_error', message: MESSAGE } };
    const frames = [
      sse({ type: 'response.created', sequence_number: 0, response: { ...response, status: 'in_progress' } }),
      sse({ type: 'response.failed', sequence_number: 1, response: failed }),
    ];
    await streaming(events(...frames));
    const answer = await gateway.post('/v1/responses', { model: 'openai/scripted', input: 'hi', stream: true });
    const received = dataOf(await answer.text());
    expect(received.map(({ type }) => type)).toEqual(['response.created', 'response.failed']);
    expect(received.at(-1).response.error).toMatchObject({ code: 'server_error', message: MESSAGE });
    await expectFailed(answer);
    const stored = await gateway.fetch('/v1/responses/resp_1');
    expect(JSON.parse(await stored.text())).toMatchObject({ status: 'failed' });
  });
});
