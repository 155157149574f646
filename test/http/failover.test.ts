/** Failover to another target: after which failures, in which order, and what is recorded and returned. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { startTestGateway } from '../support/gateway.ts';
import { saved, withProviders } from '../support/several-providers.ts';
import {
  dataOf,
  errorOf,
  eventsOfExchange,
  exchangeOf,
  json,
  type LoggedEvent,
  modelsListed,
  user,
} from '../support/with-gateway.ts';

const { gateway, provider, requestsTo, counted } = withProviders(
  {
    a: { models: ['one'] },
    b: { models: ['two'] },
    c: { models: ['three'] },
    translated: { models: ['chat-only'], responses: 'absent' },
    native: { type: 'openai', models: ['native'] },
    voice: { type: 'vllm', models: ['voice'] },
    claude: { type: 'anthropic', models: ['claude'] },
  },
  {
    env: {
      HTTP_RESPONSE_HEADER_TIMEOUT: '1s',
      // On a slow machine the first listing may take longer than that.
      PROVIDER_RECHECK_INTERVAL: '100ms',
      RETRY_MAX_RETRIES: '2',
      RETRY_INITIAL_BACKOFF: '2ms',
      CIRCUIT_BREAKER_ENABLED: 'false',
    },
  },
);

const path = '/v1/chat/completions';
const targets = [
  { provider: 'llamacpp-a', model: 'one' },
  { provider: 'llamacpp-b', model: 'two' },
  { provider: 'llamacpp-c', model: 'three' },
];
const two = targets.slice(0, 2);

beforeAll(async () => {
  await saved(gateway, { source: 'both', targets: two, strategy: 'failover' });
  await saved(gateway, { source: 'all', targets, strategy: 'failover' });
  await saved(gateway, { source: 'single', targets: targets.slice(0, 1) });
});

const chat = (model = 'both', more: object = {}) => ({ model, messages: user('Say hello.'), ...more });
const ask = (model?: string, more?: object, headers = {}) => gateway.post(path, chat(model, more), { headers });

const attempts = (events: readonly LoggedEvent[]) =>
  events
    .filter(({ type }) => type.startsWith('attempt.'))
    .map(({ type, data }) => [
      type.slice(8),
      data.attempt,
      ...(data.kind ? [data.kind, data.provider] : [data.status]),
    ]);
const eventsOf = async (answer: Response) => eventsOfExchange(gateway, exchangeOf(answer));

describe('failover to another target', () => {
  test.each([429, 500, 502, 503, 504, 529])('follows a %i at once, and is recorded', async (status) => {
    // Longer than the provider would be retried for; 429 would pause it for the tests that follow.
    provider.a.control.next({ status, retryAfter: status === 429 ? 0 : 30 }, { path });
    counted();
    const answer = await ask();
    expect(answer.status).toBe(200);
    await answer.text();
    expect(counted()).toMatchObject({ a: 1, b: 1 });
    const events = await eventsOf(answer);
    expect(attempts(events)).toEqual([
      ['started', 1, 'primary', 'llamacpp-a'],
      ['failed', 1, status],
      ['started', 2, 'failover', 'llamacpp-b'],
    ]);
    expect(events.find(({ type }) => type === 'attempt.failed')?.data.retryInMs).toBeUndefined();
    expect(events.find(({ type }) => type === 'exchange.completed')?.data).toMatchObject({
      attempt: 2,
      provider: 'llamacpp-b',
      model: 'two',
    });
    const usage = events.filter(({ type }) => type === 'usage.recorded');
    expect(usage.map(({ data }) => [data.provider, data.model])).toEqual([['llamacpp-b', 'two']]);
  });

  test.each<[string, number, object]>([
    ['the model is not there', 404, { message: "The model 'one' does not exist", code: 'model_not_found' }],
    [
      'the conversation is too long',
      400,
      { message: 'maximum context length is 8 tokens', code: 'context_length_exceeded' },
    ],
    ["the gateway's credential is refused", 401, { message: 'who are you' }],
    ["the gateway's credential is refused with another status", 403, { message: 'no', code: 'invalid_api_key' }],
    ['the credit is used up', 403, { message: 'You exceeded your current quota.', code: 'insufficient_quota' }],
  ])('happens when %s', async (_what, status, fault) => {
    provider.a.control.next({ status, ...fault }, { path });
    const answer = await ask();
    expect(answer.status).toBe(200);
    await answer.text();
    expect(attempts(await eventsOf(answer)).at(-1)).toEqual(['started', 2, 'failover', 'llamacpp-b']);
  });

  test.each<[string, object]>([
    ['breaks off', { cutAfterChunks: 1 }],
    ['does not answer in time', { hang: true }],
    ['answers with an error in place of an answer', { errorIn200: true }],
    ['answers with garbage', { garbage: true }],
  ])('happens when one %s', async (_what, fault) => {
    provider.a.control.next(fault, { path });
    const answer = await ask();
    expect(answer.status).toBe(200);
    expect((await json(answer)).model).toBe('two');
  });

  test('applies to a stream that has sent nothing yet', async () => {
    for (const fault of [{ status: 503 }, { cutAfterChunks: 0 }, { errorInStream: 0 }]) {
      provider.a.control.next(fault, { path });
      const answer = await ask('both', { stream: true });
      expect(answer.status).toBe(200);
      expect(dataOf(await answer.text()).at(0)).toMatchObject({ model: 'two' });
    }
  });

  test.each<[string, object]>([
    ['/v1/responses', { model: 'both', input: 'Say hello.' }],
    ['/v1/messages', { ...chat(), max_tokens: 20 }],
    ['/v1/embeddings', { model: 'both', input: 'Hello.' }],
    ['/v1/completions', { model: 'both', prompt: 'Hello' }],
  ])('works on %s', async (endpoint, body) => {
    provider.a.control.always({ status: 503 });
    counted();
    const answer = await gateway.post(endpoint, body);
    expect({ status: answer.status, text: await answer.text() }).toMatchObject({ status: 200 });
    const { a, b } = counted();
    expect([a, b]).toEqual([1, 1]);
  });

  test('happens when the request cannot be translated for the first target', async () => {
    await saved(gateway, {
      source: 'speaking',
      targets: [...two, { provider: 'vllm-voice', model: 'voice' }],
      strategy: 'failover',
    });
    const answer = await gateway.post('/v1/audio/speech', { model: 'speaking', input: 'Hello.', voice: 'x' });
    expect(answer.status).toBe(200);
    await answer.arrayBuffer();
    const events = await eventsOf(answer);
    expect(attempts(events)).toEqual([['started', 1, 'primary', 'vllm-voice']]);
  });

  test('tries all targets in their order', async () => {
    provider.a.control.next({ status: 503 }, { path });
    provider.b.control.next({ status: 500 }, { path });
    const answer = await ask('all');
    expect((await json(answer)).model).toBe('three');
    expect(attempts(await eventsOf(answer)).map(([, , ...rest]) => rest.at(-1))).toEqual(
      ['llamacpp-a', 'llamacpp-b', 'llamacpp-c'].flatMap((name, place) =>
        place === 2 ? [name] : [name, place === 0 ? 503 : 500],
      ),
    );
  });
});

describe('the last target', () => {
  test('is retried as its retry policy says', async () => {
    provider.a.control.next({ status: 503 }, { path });
    for (let n = 0; n < 2; n++) provider.b.control.next({ status: 503 }, { path });
    const answer = await ask();
    expect(answer.status).toBe(200);
    await answer.text();
    expect(attempts(await eventsOf(answer))).toEqual([
      ['started', 1, 'primary', 'llamacpp-a'],
      ['failed', 1, 503],
      ['started', 2, 'failover', 'llamacpp-b'],
      ['failed', 2, 503],
      ['started', 3, 'retry', 'llamacpp-b'],
      ['failed', 3, 503],
      ['started', 4, 'retry', 'llamacpp-b'],
    ]);
  });

  test('determines the error that the client receives', async () => {
    provider.a.control.next({ status: 500, message: 'the first is broken' }, { path });
    provider.b.control.always({ status: 429, message: 'the second is busy', retryAfter: 0 }, { path });
    const answer = await ask();
    expect(answer.headers.get('retry-after')).toBe('0');
    expect(await errorOf(answer, 429)).toMatchObject({ provider: 'llamacpp-b', message: 'the second is busy' });
    const events = await eventsOf(answer);
    expect(events.at(-1)).toMatchObject({ type: 'exchange.failed', data: { reason: 'provider_error', status: 429 } });
  });

  test('determines the error also when the request is at fault', async () => {
    provider.a.control.next({ status: 500 }, { path });
    provider.b.control.next({ status: 422, message: 'no such tool' }, { path });
    expect(await errorOf(await ask(), 422)).toMatchObject({ provider: 'llamacpp-b', message: 'no such tool' });
  });
});

describe('failover does not happen', () => {
  test.each([400, 403, 404, 409, 422])('after a %i that is not about the model', async (status) => {
    provider.a.control.next({ status, message: 'this will not do' }, { path });
    counted();
    expect(await errorOf(await ask(), status)).toMatchObject({ provider: 'llamacpp-a' });
    expect(counted()).toMatchObject({ a: 1, b: 0 });
  });

  test('once bytes were sent to the client', async () => {
    provider.a.control.next({ cutAfterChunks: 3 }, { path });
    counted();
    const answer = await ask('both', { stream: true });
    expect(await answer.text()).toContain('stream_incomplete');
    expect(counted()).toMatchObject({ a: 1, b: 0 });
  });

  test('without another target: the same one is retried', async () => {
    for (let n = 0; n < 2; n++) provider.a.control.next({ status: 503 }, { path });
    counted();
    const answer = await ask('single');
    expect(answer.status).toBe(200);
    await answer.text();
    expect(counted()).toMatchObject({ a: 3, b: 0 });
  });

  test('when it is switched off: the same target is retried', async () => {
    await saved(gateway, { source: 'strict', targets: two, strategy: 'failover', failover: false });
    provider.a.control.always({ status: 503 }, { path });
    counted();
    expect(await errorOf(await ask('strict'), 503)).toMatchObject({ provider: 'llamacpp-a' });
    expect(counted()).toMatchObject({ a: 3, b: 0 });
  });

  test('after statuses and phrases that the virtual model does not list, when it has its own list', async () => {
    await saved(gateway, {
      source: 'choosy',
      targets: two,
      strategy: 'failover',
      failover: { statuses: [418], phrases: ['sleeping'] },
    });
    provider.a.control.next({ status: 500 }, { path });
    expect(await errorOf(await ask('choosy'), 500)).toMatchObject({ provider: 'llamacpp-a' });
    for (const fault of [{ status: 418 }, { status: 400, message: 'The model is Sleeping.' }]) {
      provider.a.control.next(fault, { path });
      expect((await json(await ask('choosy'))).model).toBe('two');
    }
  });

  test('when the form to be sent is no longer available', async () => {
    await saved(gateway, {
      source: 'listening',
      targets: [
        { provider: 'vllm-voice', model: 'voice' },
        { provider: 'openai-native', model: 'native' },
      ],
      strategy: 'failover',
    });
    const transcriptions = { path: '/v1/audio/transcriptions' };
    const form = (modelFirst: boolean) => {
      const made = new FormData();
      if (modelFirst) made.set('model', 'listening');
      made.set('file', new Blob([Buffer.alloc(2000)]), 'a.wav');
      if (!modelFirst) made.set('model', 'listening');
      return made;
    };
    provider.voice.control.next({ status: 503 }, transcriptions);
    const streamed = await gateway.fetch(transcriptions.path, { method: 'POST', body: form(true) });
    expect(await errorOf(streamed, 503)).toMatchObject({ provider: 'vllm-voice' });
    // A form that was buffered whole to find its provider can be sent again.
    provider.voice.control.next({ status: 503 }, transcriptions);
    const held = await gateway.fetch(transcriptions.path, { method: 'POST', body: form(false) });
    expect(held.status).toBe(200);
    await held.text();
    expect(attempts(await eventsOf(held)).at(-1)).toEqual(['started', 2, 'failover', 'openai-native']);
  });
});

describe('a conversation that moves to another target', () => {
  const responses = '/v1/responses';

  test('takes its earlier turns along, when only the first target has stored them', async () => {
    await saved(gateway, {
      source: 'moving',
      targets: [
        { provider: 'openai-native', model: 'native' },
        { provider: 'llamacpp-translated', model: 'chat-only' },
      ],
      strategy: 'failover',
    });
    const first = await json(await gateway.post(responses, { model: 'moving', input: 'My name is Ada.' }));
    expect(first.status).toBe('completed');
    const next = { model: 'moving', input: 'What is my name?', previous_response_id: first.id };
    provider.native.control.next({ status: 503 }, { path: responses });
    const answer = await gateway.post(responses, next);
    const second = await json(answer);
    expect(second).toMatchObject({ status: 'completed', previous_response_id: first.id });
    const reported = JSON.parse(requestsTo('translated').findLast((one) => one.path === path)?.body ?? '{}');
    expect(reported.messages.map(({ role, content }: { role: string; content: string }) => [role, content])).toEqual([
      ['user', 'My name is Ada.'],
      ['assistant', first.output.at(-1).content[0].text],
      ['user', 'What is my name?'],
    ]);
    // The first target received the id alone, since it has stored its own response.
    const native = JSON.parse(requestsTo('native').findLast((one) => one.path === responses)?.body ?? '{}');
    expect(native).toMatchObject({ previous_response_id: first.id, input: 'What is my name?' });
    const events = await eventsOf(answer);
    const order = events.map(({ type }) => type).filter((type) => /^(attempt|history)/.test(type));
    expect(order.slice(0, 4)).toEqual(['attempt.started', 'attempt.failed', 'history.replayed', 'attempt.started']);
    // Back to the first target, which has not stored the second response.
    const third = { model: 'moving', input: 'Say it again.', previous_response_id: second.id };
    expect((await json(await gateway.post(responses, third))).status).toBe('completed');
    const back = JSON.parse(requestsTo('native').findLast((one) => one.path === responses)?.body ?? '{}');
    expect(back.previous_response_id).toBeUndefined();
    expect(back.input).toHaveLength(5);
  });
});

describe('a feature that only some of the targets have', () => {
  test('is served by a target that has it: storing a file', async () => {
    await saved(gateway, {
      source: 'keeping',
      targets: [{ provider: 'openai-native', model: 'native' }],
    });
    const form = new FormData();
    form.set('purpose', 'batch');
    form.set('model', 'keeping');
    form.set('file', new Blob(['{}']), 'a.jsonl');
    const answer = await gateway.fetch('/v1/files', { method: 'POST', body: form });
    expect(answer.status).toBe(200);
    expect(await json(answer)).toMatchObject({ object: 'file', provider: 'openai-native' });
  });

  test('is served by a target that has it: counting tokens', async () => {
    await saved(gateway, {
      source: 'counting',
      targets: [two[0], { provider: 'anthropic-claude', model: 'claude' }],
      strategy: 'failover',
    });
    const before = requestsTo('claude').length;
    const answer = await gateway.post('/v1/messages/count_tokens', chat('counting'));
    expect(await json(answer)).toEqual({ input_tokens: expect.any(Number) });
    expect(
      requestsTo('claude')
        .slice(before)
        .map((one) => one.path),
    ).toEqual(['/v1/messages/count_tokens']);
  });

  test('works across dialects: native for one target, translated for the other', async () => {
    await saved(gateway, {
      source: 'polyglot',
      targets: [{ provider: 'anthropic-claude', model: 'claude' }, two[1]],
      strategy: 'failover',
    });
    provider.claude.control.next({ status: 529 }, { path: '/v1/messages' });
    const answer = await gateway.post('/v1/messages', { ...chat('polyglot'), max_tokens: 20 });
    expect(await json(answer)).toMatchObject({ type: 'message', role: 'assistant' });
    expect(attempts(await eventsOf(answer)).at(-1)).toEqual(['started', 2, 'failover', 'llamacpp-b']);
  });
});

describe('a response in the background', () => {
  const responses = '/v1/responses';
  const ended = async (id: string) => {
    const signal = AbortSignal.timeout(10_000);
    await (await gateway.fetch(`${responses}/${id}?stream=true`, { signal })).text();
    return json(await gateway.fetch(`${responses}/${id}`));
  };
  const begin = async (model: string) => {
    const given = { model, input: 'Reply with exactly: hello', background: true };
    return json(await gateway.post(responses, given));
  };

  test('is completed by another target, under the id that was returned', async () => {
    provider.a.control.always({ status: 503 });
    const { id, status } = await begin('both');
    expect(status).toBe('queued');
    expect(await ended(id)).toMatchObject({ id, status: 'completed' });
  });

  test('is accepted by the next target that can, when a native provider fails', async () => {
    await saved(gateway, {
      source: 'own first',
      targets: [{ provider: 'openai-native', model: 'native' }, two[0]],
      strategy: 'failover',
    });
    provider.native.control.next({ status: 503 }, { path: responses });
    const { id, status } = await begin('own first');
    expect(status).toBe('queued');
    expect(id).toMatch(/^resp_/);
    expect(await ended(id)).toMatchObject({ id, status: 'completed' });
  });

  test('is not sent to a provider that would store a response of its own', async () => {
    await saved(gateway, {
      source: 'own last',
      targets: [two[0], { provider: 'openai-native', model: 'native' }],
      strategy: 'failover',
    });
    provider.a.control.always({ status: 503, message: 'not now' });
    const before = requestsTo('native').length;
    const { id } = await begin('own last');
    const response = await ended(id);
    expect(response).toMatchObject({ status: 'failed', error: { message: 'not now' } });
    expect(requestsTo('native')).toHaveLength(before);
  });
});

describe('one idempotency key', () => {
  test('returns one answer, whichever target produced it', async () => {
    const headers = { 'idempotency-key': 'failing over' };
    provider.a.control.next({ status: 503 }, { path });
    counted();
    const [one, other] = await Promise.all([ask('both', {}, headers), ask('both', {}, headers)]);
    const bytes = await one.text();
    expect(await other.text()).toBe(bytes);
    expect(JSON.parse(bytes).model).toBe('two');
    expect(await (await ask('both', {}, headers)).text()).toBe(bytes);
    expect(counted()).toMatchObject({ a: 1, b: 1 });
  });

  test('covers a stream too', async () => {
    const headers = { 'idempotency-key': 'failing over in a stream' };
    provider.a.control.next({ status: 503 }, { path });
    const bytes = await (await ask('both', { stream: true }, headers)).text();
    expect(await (await ask('both', { stream: true }, headers)).text()).toBe(bytes);
  });
});

describe('a provider that keeps failing', () => {
  test('is skipped while its circuit breaker is open, and is used again afterwards', async () => {
    const upstream = [createSimulatedProvider({ models: ['one'] }), createSimulatedProvider({ models: ['two'] })];
    const [a, b] = upstream;
    if (a === undefined || b === undefined) throw new Error('there are two');
    const other = await startTestGateway({
      simulated: false,
      env: {
        LLAMACPP_A_BASE_URL: await a.listen(),
        LLAMACPP_B_BASE_URL: await b.listen(),
        CIRCUIT_BREAKER_FAILURE_THRESHOLD: '2',
        CIRCUIT_BREAKER_SUCCESS_THRESHOLD: '1',
        CIRCUIT_BREAKER_TIMEOUT: '2s',
        RETRY_MAX_RETRIES: '0',
        VIRTUAL_MODELS: JSON.stringify([{ source: 'both', targets: two, strategy: 'failover' }]),
      },
    });
    try {
      await modelsListed(other, 2);
      const posts = () => a.requests.filter(({ path: requested }) => requested === path).length;
      const model = async () => (await json(await other.fetch(path, { json: chat() }))).model;
      a.control.always({ status: 500 }, { path });
      expect([await model(), await model()]).toEqual(['two', 'two']);
      expect(posts()).toBe(2);
      expect(await model()).toBe('two');
      expect(posts()).toBe(2);
      // The other target fails too: the client receives its error, not that the first is skipped.
      b.control.next({ status: 503, message: 'the second fails' }, { path });
      const failed = await other.fetch(path, { json: chat() });
      expect(await errorOf(failed, 503)).toMatchObject({ provider: 'llamacpp-b', message: 'the second fails' });
      a.control.clear();
      await expect.poll(model, { timeout: 15_000, interval: 100 }).toBe('one');
      expect(await model()).toBe('one');
    } finally {
      await other.close();
      await Promise.all(upstream.map((one) => one.close()));
    }
  });
});

describe('the settings for all virtual models', () => {
  test('limit the number of targets, and list the statuses and phrases that lead to failover', async () => {
    const upstream = ['one', 'two', 'three'].map((model) => createSimulatedProvider({ models: [model] }));
    const urls = await Promise.all(upstream.map((one) => one.listen()));
    const other = await startTestGateway({
      simulated: false,
      env: {
        ...Object.fromEntries(urls.map((url, n) => [`LLAMACPP_${'ABC'[n]}_BASE_URL`, url])),
        FAILOVER_MAX_ATTEMPTS: '2',
        FAILOVER_RETRY_ON_STATUSES: '418',
        FAILOVER_RETRY_ON_ERRORS: 'come*later',
        RETRY_MAX_RETRIES: '0',
        VIRTUAL_MODELS: JSON.stringify([{ source: 'all', targets, strategy: 'failover' }]),
      },
    });
    try {
      await modelsListed(other, 3);
      const counts = () =>
        upstream.map(({ requests }) => requests.filter(({ path: requested }) => requested === path).length);
      const askedWith = async (fault: object) => {
        const before = counts();
        for (const one of upstream) one.control.always(fault, { path });
        await (await other.fetch(path, { json: chat('all') })).text();
        for (const one of upstream) one.control.clear();
        return counts().map((count, n) => count - (before[n] ?? 0));
      };
      expect(await askedWith({ status: 418 })).toEqual([1, 1, 0]);
      expect(await askedWith({ status: 500 })).toEqual([1, 0, 0]);
      expect(await askedWith({ status: 400, message: 'Come back later.' })).toEqual([1, 1, 0]);
    } finally {
      await other.close();
      await Promise.all(upstream.map((one) => one.close()));
    }
  });
});

test('a response that was resumed after a stop uses the current virtual models', async () => {
  const a = createSimulatedProvider({ models: ['one'], responses: 'absent' });
  const b = createSimulatedProvider({ models: ['two'], responses: 'absent' });
  const dataDir = mkdtempSync(join(tmpdir(), 'chancery-failover-'));
  const env = {
    LLAMACPP_A_BASE_URL: await a.listen(),
    LLAMACPP_B_BASE_URL: await b.listen(),
    DRAIN_TIMEOUT: '0s',
    RETRY_MAX_RETRIES: '0',
  };
  let running = await startTestGateway({ simulated: false, dataDir, env });
  try {
    await modelsListed(running, 2);
    await running.fetch('/admin/virtual-models', {
      method: 'PUT',
      json: { source: 'both', targets: two, strategy: 'failover' },
    });
    a.control.always({ hang: true }, { path });
    const body = { model: 'both', background: true, input: 'Reply with exactly: hello' };
    const { id, status } = await json(await running.fetch('/v1/responses', { json: body }));
    expect(status).toBe('queued');
    const calls = () => a.requests.filter((one) => one.path === path).length;
    await expect.poll(calls).toBe(1);
    await running.close();
    a.control.clear();
    a.control.always({ status: 503 }, { path });
    running = await startTestGateway({ simulated: false, dataDir, env });
    const signal = AbortSignal.timeout(10_000);
    await (await running.fetch(`/v1/responses/${id}?stream=true`, { signal })).text();
    const response = await json(await running.fetch(`/v1/responses/${id}`));
    expect(response).toMatchObject({ id, status: 'completed', model: 'two' });
    expect(calls()).toBe(2);
    expect(b.requests.filter((one) => one.path === path)).toHaveLength(1);
  } finally {
    await running.close();
    await Promise.all([a.close(), b.close()]);
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
  }
});
