/** Comments before the first event of a stream: the provider's and the gateway's own. They are no part of an answer. */
import type { ServerResponse } from 'node:http';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { guard, saveGuardrail, withGuardrails } from '../support/guarded.ts';
import { startScriptedProvider } from '../support/scripted-provider.ts';
import { saved, withProviders } from '../support/several-providers.ts';
import { errorOf, eventsOf, eventsOfExchange, exchangeOf, user } from '../support/with-gateway.ts';

const COMMENT = ': OPENROUTER PROCESSING\n\n';
const KEEP_ALIVE = ': keep-alive\n\n';

const chatty = await startScriptedProvider();
chatty.list('chatty');
// Anthropic's listing has a query.
chatty.script((_request, response) => {
  response.writeHead(200, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ data: [{ id: 'chatty', type: 'model' }], has_more: false }));
});
afterAll(() => chatty.close());

const { gateway, counted } = withProviders(
  {
    next: { models: ['next'] },
    next_native: { type: 'openai', models: ['next'] },
    next_claude: { type: 'anthropic', models: ['next'] },
  },
  {
    env: {
      ...withGuardrails,
      LLAMACPP_CHATTY_BASE_URL: chatty.url,
      OPENAI_CHATTY_BASE_URL: chatty.url,
      OPENAI_CHATTY_API_KEY: 'a-key-for-tests',
      ANTHROPIC_CHATTY_BASE_URL: chatty.url,
      ANTHROPIC_CHATTY_API_KEY: 'a-key-for-tests',
      RETRY_MAX_RETRIES: '0',
      CIRCUIT_BREAKER_ENABLED: 'false',
    },
  },
);

const types = { llamacpp: 'next', openai: 'next-native', anthropic: 'next-claude' } as const;
type Type = keyof typeof types;

beforeAll(async () => {
  for (const type of Object.keys(types) as Type[]) {
    const first = { provider: `${type}-chatty`, model: 'chatty' };
    const targets = [first, { provider: `${type}-${types[type]}`, model: 'next' }];
    await saved(gateway, { source: type, targets, strategy: 'failover' });
    await saved(gateway, { source: `${type}-alone`, targets: [first] });
  }
  const config = { rules: 'hello => hello', roles: ['assistant'] };
  await saveGuardrail(gateway, { name: 'words', type: 'string_replace', config });
  await guard(gateway, '/arriving', [{ ref: 'words', phase: 'stream' }]);
  await guard(gateway, '/collected', [{ ref: 'words', phase: 'response' }]);
});

afterEach(() => {
  vi.useRealTimers();
});

const failures: Record<Type, string> = {
  llamacpp: 'data: {"error":{"message":"Overloaded.","type":"server_error","code":503}}\n\n',
  openai: 'data: {"error":{"message":"Overloaded.","type":"server_error","code":503}}\n\n',
  anthropic: 'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded."}}\n\n',
};

const dialects = {
  '/v1/chat/completions': { messages: user('Say hello.') },
  '/v1/responses': { input: 'Say hello.' },
  '/v1/messages': { messages: user('Say hello.'), max_tokens: 100 },
};
type Path = keyof typeof dialects;
const paths = Object.keys(dialects) as Path[];
const userPaths = ['/none', '/arriving', '/collected'];

/** Whether the client's text is a whole answer of its dialect. */
const ends: Record<Path, RegExp> = {
  '/v1/chat/completions': /data: \[DONE\]\n\n$/,
  '/v1/responses': /event: response\.completed\n/,
  '/v1/messages': /event: message_stop\n/,
};

const stream = (path: Path, model: string, userPath = '/none') =>
  gateway.post(
    path,
    { model, ...dialects[path], stream: true },
    {
      headers: { 'x-gateway-user-path': userPath },
    },
  );

const events = (response: ServerResponse) => response.writeHead(200, { 'content-type': 'text/event-stream' });

/** The provider's head and comment reach the gateway before the rest, which is sent when the promise resolves. */
function answersWith(...pieces: readonly string[]): void {
  chatty.script(async (_request, response) => {
    events(response);
    for (const piece of pieces) {
      await new Promise((sent) => response.write(piece, sent));
      // A time: pieces arrive one by one.
      await new Promise((later) => setTimeout(later, 5));
    }
    response.end();
  });
}

const inEveryWay = paths.flatMap((path) =>
  (Object.keys(types) as Type[]).flatMap((type) => userPaths.map((userPath) => ({ path, type, userPath }))),
);

describe('a comment of the provider before an error', () => {
  test.each(inEveryWay)('does not end the failover of $path with $type, guardrails $userPath', async (way) => {
    const { path, type, userPath } = way;
    answersWith(COMMENT, COMMENT, failures[type]);
    counted();
    const answer = await stream(path, type, userPath);
    const text = await answer.text();
    expect({ status: answer.status, text }).toMatchObject({ status: 200 });
    expect(text).toMatch(ends[path]);
    expect(text).not.toMatch(/OPENROUTER|Overloaded/);
    expect(Object.values(counted()).reduce((sum, count) => sum + count, 0)).toBe(1);
  });

  test.each(inEveryWay)('leaves the status of the error to $path with $type, guardrails $userPath', async (way) => {
    answersWith(COMMENT, failures[way.type]);
    const answer = await stream(way.path, `${way.type}-alone`, way.userPath);
    expect(answer.status, await answer.text()).toBeGreaterThanOrEqual(500);
  });

  test.each([
    ['a ping', 'event: ping\ndata: {"type":"ping"}\n\n'],
    ['blank data', 'data:\n\n'],
    ['an event without data', 'event: processing\nid: 7\nretry: 3000\n\n'],
  ])('does not end the failover either when it is %s', async (_name, filler) => {
    answersWith(filler, failures.anthropic);
    expect(await (await stream('/v1/messages', 'anthropic')).text()).toMatch(ends['/v1/messages']);
  });

  test('is followed by the next target also when the stream just ends', async () => {
    answersWith(COMMENT);
    expect(await (await stream('/v1/chat/completions', 'llamacpp')).text()).toMatch(ends['/v1/chat/completions']);
  });
});

describe('a comment of the provider before the answer', () => {
  const answer = [
    'data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"hello"}}]}\n\n',
    'data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n',
    'data: [DONE]\n\n',
  ];

  test('is passed on unchanged, and is in the record and its replay', async () => {
    answersWith(COMMENT, COMMENT, ...answer);
    const headers = { 'idempotency-key': 'comments before the answer' };
    const body = { model: 'llamacpp-alone', ...dialects['/v1/chat/completions'], stream: true };
    const first = await gateway.post('/v1/chat/completions', body, { headers });
    const text = await first.text();
    expect(text).toBe([COMMENT, COMMENT, ...answer].join(''));
    const recorded = await eventsOfExchange(gateway, exchangeOf(first));
    const chunks = recorded.filter(({ type }) => type === 'chunk.received');
    expect(chunks.map(({ body: chunk }) => chunk).join('')).toBe(text);
    expect(await (await gateway.post('/v1/chat/completions', body, { headers })).text()).toBe(text);
  });

  test('is no first byte', async () => {
    let go = () => {};
    const pause = new Promise<void>((resolve) => {
      go = resolve;
    });
    chatty.script(async (_request, response) => {
      events(response).write(COMMENT);
      await pause;
      response.end(answer.join(''));
    });
    const began = performance.now();
    const answered = stream('/v1/chat/completions', 'llamacpp-alone');
    await vi.waitFor(() => expect(performance.now() - began).toBeGreaterThan(300));
    go();
    const recorded = await eventsOfExchange(gateway, exchangeOf(await answered));
    const completed = recorded.find(({ type }) => type === 'exchange.completed');
    expect(Number(Object(completed?.data).firstByteMs)).toBeGreaterThan(200);
  });

  test('is passed on before the answer when there are too many to hold', async () => {
    let go = () => {};
    const pause = new Promise<void>((resolve) => {
      go = resolve;
    });
    const many = COMMENT.repeat(20_000);
    chatty.script(async (_request, response) => {
      events(response).write(many);
      await pause;
      response.end(failures.llamacpp);
    });
    const answered = await stream('/v1/chat/completions', 'llamacpp');
    go();
    const text = await answered.text();
    expect(text.startsWith(COMMENT.repeat(1000))).toBe(true);
    expect(text).toMatch(ends['/v1/chat/completions']);
  });
});

describe("the gateway's own heartbeat before the first event", () => {
  /** A stream of which the client has got the head and a comment. */
  async function keptOpen(path: Path, model: string, failure: string, userPath: string) {
    let go = () => {};
    const pause = new Promise<void>((resolve) => {
      go = resolve;
    });
    chatty.script(async (_request, response) => {
      events(response).flushHeaders();
      await pause;
      response.end(failure);
    });
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    const before = vi.getTimerCount();
    const answered = stream(path, model, userPath);
    await vi.waitFor(() => expect(vi.getTimerCount()).toBeGreaterThan(before));
    vi.advanceTimersByTime(15_000);
    const answer = await answered;
    go();
    return { answer, text: await answer.text() };
  }

  test.each(inEveryWay)('does not end the failover of $path with $type, guardrails $userPath', async (way) => {
    const { path, type, userPath } = way;
    const { answer, text } = await keptOpen(path, type, failures[type], userPath);
    expect(answer.status).toBe(200);
    expect(answer.headers.get('content-type')).toMatch(/^text\/event-stream/);
    expect(text.startsWith(KEEP_ALIVE)).toBe(true);
    expect(text).toMatch(ends[path]);
    expect(text).not.toContain('Overloaded');
  });

  test.each(inEveryWay)('is followed by the error of $path with $type, guardrails $userPath', async (way) => {
    const { path, type, userPath } = way;
    const { answer, text } = await keptOpen(path, `${type}-alone`, failures[type], userPath);
    expect(answer.status).toBe(200);
    const error = eventsOf(text).find(({ data }) => data.includes('"error":{') || data.includes('"type":"error"'));
    expect(error?.data).toContain('Overloaded.');
    const recorded = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(recorded.at(-1)).toMatchObject({ type: 'exchange.failed' });
  });

  test('begins a stream with the headers that do not depend on the provider', async () => {
    const { answer } = await keptOpen('/v1/chat/completions', 'llamacpp', failures.llamacpp, '/none');
    const own = [...answer.headers.keys()].filter((name) => name.startsWith('x-') || name === 'content-type');
    expect(own).toEqual(['content-type', 'x-accel-buffering', 'x-exchange-id', 'x-request-id', 'x-requested-model']);
  });

  test('is followed by an error when the provider sends a failed response', async () => {
    const response = {
      id: 'resp_1',
      object: 'response',
      status: 'failed',
      error: { code: 'x', message: 'Overloaded.' },
    };
    const failed = `event: response.failed\ndata: ${JSON.stringify({ type: 'response.failed', response })}\n\n`;
    const { text } = await keptOpen('/v1/responses', 'openai-alone', failed, '/none');
    expect(text).toContain('event: error');
  });
});

test('an error without a comment before it keeps its status', async () => {
  answersWith(failures.llamacpp);
  await errorOf(await stream('/v1/chat/completions', 'llamacpp-alone'), 503);
});
