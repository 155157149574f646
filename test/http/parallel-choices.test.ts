/** `n` from 2 to 4 on chat completions, at providers whose API gives one choice: parallel calls, one exchange. */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import OpenAI from 'openai';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Answered } from '../support/answered.ts';
import { at, setBudget, setPrice } from '../support/batches.ts';
import { MASTER_KEY } from '../support/gateway.ts';
import { guard, saveGuardrail, withGuardrails } from '../support/guarded.ts';
import { type ScriptedRequest, startScriptedProvider } from '../support/scripted-provider.ts';
import { saved } from '../support/several-providers.ts';
import {
  dataOf,
  errorOf,
  eventsOfExchange,
  eventsUntil,
  exchangeOf,
  json,
  readUntil,
  user,
  withGateway,
} from '../support/with-gateway.ts';

const started = startScriptedProvider();
const gateway = withGateway(async () => {
  const { url, script } = await started;
  script(answerCall);
  return {
    register: (simulated) => ({ LLAMACPP_BASE_URL: simulated }),
    env: {
      ...withGuardrails,
      ANTHROPIC_BASE_URL: url,
      ANTHROPIC_API_KEY: 'a-key-for-tests',
      OLLAMA_BASE_URL: url.replace('/v1', ''),
      RETRY_MAX_RETRIES: '0',
      CIRCUIT_BREAKER_ENABLED: 'false',
      RESPONSE_CACHE_ENABLED: 'true',
    },
  };
}, 3);
afterAll(async () => (await started).close());

const CHAT = '/v1/chat/completions';
const WORDS = ['alpha', 'beta', 'gamma', 'delta'];

/** How a provider of the dialect writes an answer of one word. */
interface Dialect {
  readonly type: string;
  readonly model: string;
  readonly head: string;
  words(text: string): string;
  readonly end: string;
  whole(text: string): object;
  readonly failure: string;
}

const event = (type: string, more: object) => `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`;
const message = (content: object[], usage: object) => ({
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'scripted',
  content,
  usage,
});
const line = (more: object) =>
  `${JSON.stringify({ model: 'scripted', created_at: '2026-01-01T00:00:00Z', ...more })}\n`;
const ollamaEnd = { done: true, done_reason: 'stop', prompt_eval_count: 10, eval_count: 3 };

const anthropic: Dialect = {
  type: 'text/event-stream',
  model: 'anthropic/scripted',
  head:
    event('message_start', {
      message: message([], { input_tokens: 8, cache_read_input_tokens: 2, output_tokens: 1 }),
    }) +
    event('ping', {}) +
    event('content_block_start', { index: 0, content_block: { type: 'text', text: '' } }),
  words: (text) => event('content_block_delta', { index: 0, delta: { type: 'text_delta', text } }),
  end:
    event('content_block_stop', { index: 0 }) +
    event('message_delta', { delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 3 } }) +
    event('message_stop', {}),
  whole: (text) => ({
    ...message([{ type: 'text', text }], { input_tokens: 8, cache_read_input_tokens: 2, output_tokens: 3 }),
    stop_reason: 'end_turn',
  }),
  failure: event('error', { error: { type: 'overloaded_error', message: 'Overloaded' } }),
};
const ollama: Dialect = {
  type: 'application/x-ndjson',
  model: 'ollama/scripted',
  head: line({ message: { role: 'assistant', content: '' }, done: false }),
  words: (content) => line({ message: { role: 'assistant', content }, done: false }),
  end: line({ message: { role: 'assistant', content: '' }, ...ollamaEnd }),
  whole: (content) => ({ model: 'scripted', message: { role: 'assistant', content }, ...ollamaEnd }),
  failure: line({ error: 'Overloaded' }),
};

interface Call {
  readonly request: ScriptedRequest;
  readonly response: ServerResponse;
  /** When its connection was closed. */
  readonly closed: Promise<unknown>;
}

/** The calls since the beginning of the test. */
const calls: Call[] = [];
let answer: (call: number, response: ServerResponse) => unknown = () => {};
let arrived = () => {};

beforeEach(() => {
  calls.length = 0;
});

const LISTINGS: Readonly<Record<string, object>> = {
  '/v1/models': { data: [{ type: 'model', id: 'scripted' }] },
  '/api/tags': { models: [{ name: 'scripted', model: 'scripted' }] },
  '/api/show': {},
};

function answerCall(request: ScriptedRequest, response: ServerResponse): void {
  const listing = LISTINGS[request.path.split('?', 1)[0] ?? ''];
  if (listing !== undefined) {
    answerJson(response, listing);
    return;
  }
  calls.push({ request, response, closed: once(response, 'close') });
  answer(calls.length - 1, response);
  arrived();
}

/** Resolves with as many calls. */
async function callsOf(number: number): Promise<readonly Call[]> {
  while (calls.length < number) await new Promise<void>((resolve) => (arrived = resolve));
  return calls;
}

const answerJson = (response: ServerResponse, body: object, status = 200): void => {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
};
const begin = (response: ServerResponse, dialect: Dialect, text = '') => {
  response.writeHead(200, { 'content-type': dialect.type });
  response.flushHeaders();
  if (text !== '') response.write(text);
};
const wholly = (dialect: Dialect) => (call: number, response: ServerResponse) => {
  begin(response, dialect, dialect.head + dialect.words(`${WORDS[call]} `));
  response.end(dialect.words('end') + dialect.end);
};

let different = 0;
/** A prompt that no other test sends. */
const fresh = () => user(`Question ${++different}`);
const ask = (dialect: Pick<Dialect, 'model'>, more: object = {}, init?: RequestInit) =>
  gateway.post(CHAT, { model: dialect.model, messages: fresh(), n: 3, max_tokens: 50, ...more }, init);
const streaming = { stream: true, stream_options: { include_usage: true } };
const attemptsIn = (events: Awaited<ReturnType<typeof eventsOfExchange>>) =>
  events
    .filter(({ type }) => type.startsWith('attempt.'))
    .map(({ type, data }) => [type, data.provider ?? data.status, data.calls]);

/** The text of each choice, by its index. */
function textsIn(chunks: readonly Answered[]): string[] {
  const texts: string[] = [];
  for (const { index, delta } of chunks.flatMap(({ choices = [] }) => choices))
    texts[index] = (texts[index] ?? '') + (delta.content ?? '');
  return texts;
}

beforeAll(async () => {
  for (const [source, first] of [
    ['first-anthropic', 'anthropic'],
    ['first-ollama', 'ollama'],
  ]) {
    const targets = [
      { provider: first, model: 'scripted' },
      { provider: 'llamacpp', model: 'simulated-small' },
    ];
    await saved(gateway, { source, targets, strategy: 'failover' });
  }
});

describe.each([
  ['Anthropic', anthropic, 'first-anthropic'],
  ['Ollama', ollama, 'first-ollama'],
])('n choices of %s', (_name, dialect, failing) => {
  const usage = { prompt_tokens: 30, completion_tokens: 9, total_tokens: 39 };

  it('are one completion of parallel calls: one attempt, summed usage, choices 0 to n-1', async () => {
    answer = (call, response) => answerJson(response, dialect.whole(`${WORDS[call]}`));
    const response = await ask(dialect, { n: 4 });
    const body = await json(response);
    expect(body).toMatchObject({
      id: expect.stringMatching(/^chatcmpl-/),
      object: 'chat.completion',
      model: 'scripted',
    });
    expect(body.usage).toMatchObject({ prompt_tokens: 40, completion_tokens: 12, total_tokens: 52 });
    expect(body.choices.map(({ index, finish_reason }: Answered) => [index, finish_reason])).toEqual(
      [0, 1, 2, 3].map((index) => [index, 'stop']),
    );
    expect(body.choices.map(({ message }: Answered) => message.content).sort()).toEqual([...WORDS].sort());
    expect(calls.map(({ request }) => JSON.parse(request.body.toString())).filter((sent) => 'n' in sent)).toEqual([]);
    expect(new Set(calls.map(({ request }) => request.body.toString())).size).toBe(1);

    const events = await eventsOfExchange(gateway, exchangeOf(response));
    expect(attemptsIn(events)).toEqual([['attempt.started', dialect.model.split('/')[0], 4]]);
    const spent = events.filter(({ type }) => type === 'usage.recorded').map(({ data }) => data);
    expect(spent).toMatchObject([{ inputTokens: 40, outputTokens: 12, totalTokens: 52, calls: 4, source: 'provider' }]);
    const sent = await json(await gateway.fetch(`/admin/audit/provider-request?log_id=${exchangeOf(response)}`));
    expect(sent).toMatchObject({ attempt: 1, calls: 4 });
  });

  it('are one stream: chunks under their index as they arrive, one usage at the end', async () => {
    answer = (_call, response) => begin(response, dialect, dialect.head);
    const asked = ask(dialect, { ...streaming, n: 3 });
    const [first, second, third] = (await callsOf(3)) as [Call, Call, Call];
    second.response.write(dialect.words('b'));
    const response = await asked;
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    const until = async (part: string) => {
      while (!text.includes(part)) {
        const next = await reader?.read();
        if (next === undefined || next.done) throw new Error(`it ended without ${part}: ${text}`);
        text += next.value;
      }
    };
    await until('"b"');
    second.response.end(dialect.words('B') + dialect.end);
    await until('"stop"');
    first.response.write(dialect.words('a'));
    await until('"a"');
    third.response.end(dialect.words('c') + dialect.end);
    await until('"c"');
    first.response.end(dialect.words('A') + dialect.end);
    await until('[DONE]');
    const chunks = dataOf(text);
    expect(textsIn(chunks).sort()).toEqual(['aA', 'bB', 'c']);
    expect(chunks.filter((chunk) => chunk.usage)).toMatchObject([{ choices: [], usage }]);
    expect(chunks.at(-1).usage).toMatchObject(usage);
    expect(text.match(/\[DONE\]/g)).toHaveLength(1);
    expect(new Set(chunks.map(({ id, created, model }) => `${id} ${created} ${model}`)).size).toBe(1);
    const finished = chunks
      .flatMap(({ choices }) => choices)
      .filter(({ finish_reason }: Answered) => finish_reason !== null);
    expect(finished.map(({ index }: Answered) => index).sort()).toEqual([0, 1, 2]);
    const events = await eventsOfExchange(gateway, exchangeOf(response));
    expect(events.find(({ type }) => type === 'usage.recorded')?.data).toMatchObject({
      inputTokens: 30,
      outputTokens: 9,
      calls: 3,
    });
  });

  it('are read by the OpenAI client', async () => {
    answer = wholly(dialect);
    const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: MASTER_KEY, maxRetries: 0 });
    const stream = client.chat.completions.stream({
      model: dialect.model,
      messages: [{ role: 'user', content: `Question ${++different}` }],
      n: 3,
      ...streaming,
      stream: true,
    });
    const completion = await stream.finalChatCompletion();
    expect(completion.choices.map(({ index, message }) => `${index} ${message.content}`.slice(1)).sort()).toEqual([
      ' alpha end',
      ' beta end',
      ' gamma end',
    ]);
    expect(completion.choices.map(({ index }) => index)).toEqual([0, 1, 2]);
    expect(completion.usage).toMatchObject(usage);
  });

  it.each([{}, streaming])('are replayed from the record, and from the cache: %j', async (more) => {
    answer =
      more === streaming ? wholly(dialect) : (call, response) => answerJson(response, dialect.whole(`${WORDS[call]}`));
    const body = { model: dialect.model, messages: fresh(), n: 3, ...more };
    const first = await gateway.post(CHAT, body, { headers: { 'idempotency-key': `key-${different}` } });
    const text = await first.text();
    expect(calls).toHaveLength(3);
    const again = await gateway.post(CHAT, body, { headers: { 'idempotency-key': `key-${different}` } });
    expect(await again.text()).toBe(text);
    const audited = await json(await gateway.fetch(`/admin/audit/detail?log_id=${exchangeOf(first)}`));
    const { response_body: shown } = audited.data;
    expect(more === streaming ? shown : JSON.stringify(shown)).toBe(text);
    const cached = await gateway.post(CHAT, body);
    expect(cached.headers.get('x-cache')).toMatch(/^HIT/);
    const own = /"(?:id|created)":(?:"[^"]*"|\d+)/g;
    expect((await cached.text()).replaceAll(own, '')).toBe(text.replaceAll(own, ''));
    expect(calls).toHaveLength(3);
  });

  it.each([{}, streaming])(
    'fail over when one call fails before the first byte, and end the other calls: %j',
    async (more) => {
      answer = (call, response) => {
        if (call === 1) answerJson(response, { error: { type: 'api_error', message: 'out of order' } }, 500);
        else if (more === streaming) begin(response, dialect);
      };
      const response = await ask({ model: failing }, { n: 3, ...more });
      expect(response.status).toBe(200);
      const text = await response.text();
      const indices = (more === streaming ? dataOf(text) : [JSON.parse(text)]).flatMap(({ choices }) =>
        choices.map(({ index }: Answered) => index),
      );
      expect([...new Set(indices)]).toEqual([0, 1, 2]);
      await Promise.all(calls.map(({ closed }) => closed));
      const events = await eventsOfExchange(gateway, exchangeOf(response));
      expect(attemptsIn(events)).toEqual([
        ['attempt.started', dialect.model.split('/')[0], 3],
        ['attempt.failed', 500, undefined],
        ['attempt.started', 'llamacpp', undefined],
      ]);
    },
  );

  it('fail over when one stream reports an error, or ends, before the first byte', async () => {
    for (const failure of [dialect.failure, '']) {
      calls.length = 0;
      answer = (call, response) => {
        begin(response, dialect);
        if (call !== 2) return;
        if (failure === '') response.end();
        else response.write(failure);
      };
      const response = await ask({ model: failing }, streaming);
      expect(response.status).toBe(200);
      await response.text();
      await Promise.all(calls.filter((_, call) => failure !== '' || call !== 2).map(({ closed }) => closed));
      const events = await eventsOfExchange(gateway, exchangeOf(response));
      expect(attemptsIn(events).map(([type, what]) => `${type} ${what}`)).toEqual([
        `attempt.started ${dialect.model.split('/')[0]}`,
        expect.stringMatching(/^attempt.failed 5/),
        'attempt.started llamacpp',
      ]);
    }
  });

  it('fail over at once when a call fails in its answer while the others have not begun theirs', async () => {
    const json = (response: ServerResponse, text: string) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': 100 });
      response.write(text);
    };
    const failures: [object, (response: ServerResponse) => void][] = [
      [streaming, (response) => begin(response, dialect, dialect.failure)],
      [streaming, (response) => begin(response, dialect, dialect.head + dialect.failure)],
      [streaming, (response) => response.writeHead(200, { 'content-type': dialect.type }).end()],
      [streaming, (response) => response.writeHead(200, { 'content-type': dialect.type }).end(dialect.head)],
      [streaming, (response) => begin(response, dialect, dialect.head) ?? setImmediate(() => response.destroy())],
      [{}, (response) => answerJson(response, dialect.failure === '' ? {} : { error: { message: 'out of order' } })],
      [{}, (response) => response.writeHead(200, { 'content-type': 'application/json' }).end('null')],
      [{}, (response) => json(response, '{"cut') ?? setImmediate(() => response.destroy())],
    ];
    for (const [more, fail] of failures) {
      calls.length = 0;
      answer = (call, response) => {
        if (call === 1) fail(response);
        // Of the whole answers, one has its headers.
        else if (call === 2 && more !== streaming) json(response, '{');
      };
      const response = await ask({ model: failing }, { n: 3, ...more });
      expect(response.status).toBe(200);
      await response.text();
      await Promise.all(calls.map(({ closed }) => closed));
      const events = await eventsOfExchange(gateway, exchangeOf(response));
      expect(attemptsIn(events).map(([type, what]) => `${type} ${what}`)).toEqual([
        `attempt.started ${dialect.model.split('/')[0]}`,
        expect.stringMatching(/^attempt.failed (?:5\d\d|undefined)$/),
        'attempt.started llamacpp',
      ]);
    }
  });

  it('end with an error when one stream breaks, reports an error, or ends early, after the first byte', async () => {
    for (const fail of [
      (response: ServerResponse) => response.destroy(),
      (response: ServerResponse) => response.write(dialect.failure),
      (response: ServerResponse) => response.end(),
    ]) {
      calls.length = 0;
      answer = (call, response) => begin(response, dialect, dialect.head + dialect.words(`${WORDS[call]}`));
      const asked = ask({ model: failing }, streaming);
      await callsOf(3);
      const response = await asked;
      const [head, rest] = response.body?.tee() ?? [];
      await readUntil(new Response(head), 'alpha');
      const [, second] = calls;
      if (second !== undefined) fail(second.response);
      const chunks = dataOf(await new Response(rest).text());
      expect(chunks.at(-1)).toMatchObject({ error: { type: 'provider_error' } });
      await Promise.all(calls.map(({ closed }) => closed));
      const events = await eventsOfExchange(gateway, exchangeOf(response));
      expect(events.find(({ type }) => type === 'exchange.failed')?.data).toMatchObject({
        reason: 'stream_broken',
        status: 200,
      });
      expect(attemptsIn(events)).toHaveLength(1);
      expect(events.find(({ type }) => type === 'usage.recorded')?.data).toMatchObject({
        partial: true,
        estimated: true,
        calls: 3,
      });
    }
  });

  it('are all cancelled when the client disconnects, and cost what each had reported, else its estimate', async () => {
    const client = new AbortController();
    const messages = user('one two three four '.repeat(100));
    const abandon = async (n: number) => {
      calls.length = 0;
      answer = (_call, response) => begin(response, dialect, dialect.head + dialect.words('word '.repeat(40)));
      const asked = ask(dialect, { ...streaming, n, messages }, { signal: client.signal });
      await callsOf(n);
      return asked;
    };
    const response = await abandon(3);
    const record = exchangeOf(response);
    const [head] = response.body?.tee() ?? [];
    const seen = new Set<number>();
    const reader = head?.pipeThrough(new TextDecoderStream()).getReader();
    while (seen.size < 3) {
      const { value = '' } = (await reader?.read()) ?? {};
      for (const [, index] of value.matchAll(/"index":(\d),"delta":\{"content":"word/g)) seen.add(Number(index));
    }
    client.abort();
    await Promise.all(calls.map(({ closed }) => closed));
    const data = (await eventsOfExchange(gateway, record)).find(({ type }) => type === 'usage.recorded')?.data;
    const reported = dialect === anthropic ? [30, 3] : [null, null];
    expect(data).toMatchObject({ partial: true, estimated: true, calls: 3 });
    expect([data?.inputTokens, data?.outputTokens]).toEqual(reported);
    if (dialect === anthropic) expect(data?.estimatedInputTokens).toBe(30);
    else expect(data?.estimatedInputTokens).toSatisfy((tokens) => tokens > 3 * 450 && tokens < 3 * 600);
    expect(data?.estimatedOutputTokens).toBe(150);
  });

  it('cost the report of a call that has ended, and the estimate of one that has not, when the client disconnects', async () => {
    const client = new AbortController();
    answer = (_call, response) => begin(response, dialect, dialect.head + dialect.words('word '.repeat(40)));
    const messages = user(`${'one two three four '.repeat(100)} ${++different}`);
    const asked = ask(dialect, { ...streaming, n: 2, messages }, { signal: client.signal });
    const [first] = (await callsOf(2)) as [Call];
    first.response.end(dialect.end);
    const response = await asked;
    const [head] = response.body?.tee() ?? [];
    await readUntil(new Response(head), '"stop"');
    client.abort();
    const events = await eventsOfExchange(gateway, exchangeOf(response));
    const data = events.find(({ type }) => type === 'usage.recorded')?.data;
    expect(data).toMatchObject({ partial: true, estimated: true, calls: 2 });
    expect(data?.estimatedOutputTokens).toBe(3 + 50);
    const [least, most] = dialect === anthropic ? [10, 10] : [450, 600];
    expect(data?.estimatedInputTokens).toSatisfy((tokens) => tokens >= 10 + least && tokens <= 10 + most);
  });

  it('cost the report of a whole answer, and the input of the other call, when the client disconnects', async () => {
    const client = new AbortController();
    const gone = Promise.withResolvers<void>();
    answer = async (call, response) => {
      if (call === 1) return;
      answerJson(response, dialect.whole('whole'));
      await once(response, 'finish');
      gone.resolve();
    };
    const key = `whole-${++different}`;
    const messages = user(`${'one two three four '.repeat(100)} ${key}`);
    const asked = ask(dialect, { n: 2, messages }, { signal: client.signal });
    const failed = expect(asked).rejects.toThrow();
    await callsOf(2);
    await gone.promise;
    // The gateway reads from all connections in turn: it has read the answer when it answers this.
    await gateway.fetch('/admin/budgets');
    client.abort();
    await failed;
    const [provider] = dialect.model.split('/');
    const events = await eventsUntil(
      gateway,
      '',
      ({ type, data: { provider: of, calls: together, estimatedOutputTokens: output } }) =>
        type === 'usage.recorded' && of === provider && together === 2 && output === 3,
    );
    const data = events.at(-1)?.data;
    expect(data).toMatchObject({ estimated: true, partial: true });
    expect(data?.estimatedInputTokens).toSatisfy((tokens) => tokens > 10 + 450 && tokens < 10 + 600);
  });

  it('cost what every call has reported, when one fails and another target answers', async () => {
    const malformed = { ...dialect.whole('x'), content: null, message: null };
    for (const [status, body, sum] of [
      [500, { error: { type: 'api_error', message: 'out of order' } }, [10, 3]],
      [200, malformed, [20, 6]],
    ] as const) {
      calls.length = 0;
      const last = Promise.withResolvers<ServerResponse>();
      answer = async (call, response) => {
        if (call === 1) {
          last.resolve(response);
          return;
        }
        answerJson(response, dialect.whole('whole'));
        await once(response, 'finish');
        answerJson(await last.promise, body, status);
      };
      const response = await ask({ model: failing }, { n: 2 });
      expect(response.status).toBe(200);
      await response.text();
      const events = await eventsOfExchange(gateway, exchangeOf(response));
      const spent = events.find(({ type, data }) => type === 'usage.recorded' && data.failedAttempt === 1)?.data;
      expect([spent?.inputTokens, spent?.outputTokens]).toEqual(sum);
    }
  });

  it.each([{}, streaming])('are all evaluated by a guardrail of the response phase: %j', async (more) => {
    const userPath = `/guarded${++different}`;
    const name = `words-${different}`;
    const rules = WORDS.map((word) => `${word} => ${word.toUpperCase()}`).join('\n');
    await saveGuardrail(gateway, { name, type: 'string_replace', config: { rules, roles: ['assistant'] } });
    await guard(gateway, userPath, [{ ref: name, phase: 'response' }]);
    answer =
      more === streaming ? wholly(dialect) : (call, response) => answerJson(response, dialect.whole(`${WORDS[call]}`));
    const response = await ask(dialect, more, at(userPath));
    const text = await response.text();
    for (const word of WORDS.slice(0, 3)) {
      expect(text).toContain(word.toUpperCase());
      expect(text).not.toContain(word);
    }
    expect(calls).toHaveLength(3);
  });

  it.each([{}, streaming])(
    'cost an estimate of a call that does not report its usage, and the reports of the others: %j',
    async (more) => {
      const without = (text: string) =>
        text.replaceAll(/,"(?:usage|prompt_eval_count|eval_count)":(?:\{[^}]*\}|\d+)/g, '');
      answer = (call, response) => {
        const kept = call === 1 ? without : (text: string) => text;
        if (more === streaming) {
          begin(response, dialect, kept(dialect.head) + dialect.words('word '.repeat(40)));
          response.end(kept(dialect.end));
        } else {
          response.writeHead(200, { 'content-type': 'application/json' });
          response.end(kept(JSON.stringify(dialect.whole('word '.repeat(40)))));
        }
      };
      const response = await ask(dialect, { ...more, messages: user('one two three four '.repeat(100)) });
      expect(await response.text()).not.toMatch(/"usage":\{/);
      const events = await eventsOfExchange(gateway, exchangeOf(response));
      const data = events.find(({ type }) => type === 'usage.recorded')?.data;
      expect(data).toMatchObject({ estimated: true, calls: 3, inputTokens: 20, outputTokens: 6 });
      expect(data?.estimatedOutputTokens).toBe(2 * 3 + 50);
      expect(data?.estimatedInputTokens).toSatisfy((tokens) => tokens > 20 + 450 && tokens < 20 + 600);
      expect(data).not.toHaveProperty('partial');
    },
  );

  it('fail over when one whole answer is an error, or no answer', async () => {
    for (const malformed of [{ error: { type: 'api_error', message: 'out of order' } }, { nothing: true }]) {
      calls.length = 0;
      let others = 0;
      const last = Promise.withResolvers<ServerResponse>();
      answer = async (call, response) => {
        if (call === 1) {
          last.resolve(response);
          return;
        }
        answerJson(response, dialect.whole(`${WORDS[call]}`));
        await once(response, 'finish');
        others += 1;
        if (others === 2) answerJson(await last.promise, malformed);
      };
      const response = await ask({ model: failing });
      expect((await json(response)).choices).toHaveLength(3);
      const events = await eventsOfExchange(gateway, exchangeOf(response));
      const failed = events.find(({ type }) => type === 'attempt.failed');
      expect(failed?.data.message).toContain('error' in malformed ? 'out of order' : 'an answer without');
      const spent = events.find(({ type, data }) => type === 'usage.recorded' && data.failedAttempt === 1);
      expect(spent?.data).toMatchObject({ inputTokens: 20, outputTokens: 6, calls: 3 });
    }
  });
});

describe('streams with other line ends', () => {
  it('are read when a read ends between CR and LF, and behind a byte order mark', async () => {
    const crlf = (text: string) => text.replaceAll('\n', '\r\n');
    answer = (_call, response) => begin(response, anthropic, `\u{feff}${crlf(anthropic.head)}`);
    const asked = ask(anthropic, { ...streaming, n: 2 });
    const [first, second] = (await callsOf(2)) as [Call, Call];
    first.response.write(crlf(anthropic.words('alpha')).slice(0, -1));
    const response = await asked;
    const [head, rest] = response.body?.tee() ?? [];
    await readUntil(new Response(head), 'alpha');
    first.response.end(`\n${crlf(anthropic.words(' end') + anthropic.end)}`);
    second.response.end((anthropic.words('beta') + anthropic.end).replaceAll('\n', '\r'));
    const chunks = dataOf(await new Response(rest).text());
    expect(textsIn(chunks).sort()).toEqual(['alpha end', 'beta']);
    expect(chunks.at(-1).usage).toMatchObject({ prompt_tokens: 20, completion_tokens: 6 });
  });
});

describe('the number of choices', () => {
  it.each([5, 0, 1.5, '2'])('%j is refused at a provider whose API gives one', async (n) => {
    for (const dialect of [anthropic, ollama]) {
      const error = await errorOf(await ask(dialect, { n }), 400);
      expect(error).toMatchObject({
        code: 'unsupported_value',
        param: 'n',
        message: expect.stringContaining('from 1 to 4'),
      });
    }
    expect(calls).toEqual([]);
  });

  it('is no member of the Messages API', async () => {
    const response = await gateway.post('/v1/messages', {
      model: ollama.model,
      messages: fresh(),
      max_tokens: 5,
      n: 2,
    });
    expect(response.status).toBe(400);
    expect(calls).toEqual([]);
  });
});

describe('a budget', () => {
  it('reserves the input and the longest answer of every call, and prices each', async () => {
    await setPrice(gateway, anthropic.model, { input_per_mtok: 1000, output_per_mtok: 1000, per_request: 0.5 });
    const body = (n: number) => ({ model: anthropic.model, messages: user('The same text'), n, max_tokens: 50 });
    const reservedFor = async (n: number) => {
      const path = `/reserving/${n}`;
      calls.length = 0;
      answer = () => {};
      await setBudget(gateway, path, 100);
      const asked = gateway.post(CHAT, body(n), at(path));
      await callsOf(n);
      const { budgets } = await json(await gateway.fetch('/admin/budgets'));
      const { reserved } = budgets.find(({ user_path }: Answered) => user_path === path);
      for (const { response } of calls) answerJson(response, anthropic.whole('word'));
      const response = await asked;
      await response.text();
      const events = await eventsOfExchange(gateway, exchangeOf(response));
      return { reserved, cost: Number(events.find(({ type }) => type === 'usage.recorded')?.data.totalCost) };
    };
    const one = await reservedFor(1);
    const three = await reservedFor(3);
    expect(three.reserved).toBeCloseTo(3 * one.reserved, 6);
    expect(three.cost).toBe(3 * one.cost);
    expect(three.cost).toBe(3 * (500_000_000 + 13_000_000));
    await setBudget(gateway, '/small', 2 * one.reserved);
    const refused = await gateway.post(CHAT, body(3), at('/small'));
    expect(await errorOf(refused, 429)).toMatchObject({ code: 'budget_exceeded' });
  });
});
