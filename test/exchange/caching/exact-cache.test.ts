/** The exact response cache: equal requests of one scope get the recorded answer, and no provider is called. */
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { both, withBothKinds } from '../../support/both-kinds.ts';
import { MASTER_KEY } from '../../support/gateway.ts';
import { newKey } from '../../support/managed-keys.ts';
import { RawClient } from '../../support/raw-client.ts';
import { errorOf, eventsOfExchange, exchangeOf, json, user } from '../../support/with-gateway.ts';

const kinds = withBothKinds({
  RESPONSE_CACHE_ENABLED: 'true',
  RETRY_MAX_RETRIES: '0',
  CIRCUIT_BREAKER_ENABLED: 'false',
});
const { gateway } = kinds;
const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
  gateway.post(path, body, { headers });
const calls = () =>
  [...gateway.simulated.requests, ...kinds.nativeProvider.requests].filter(({ method }) => method === 'POST').length;
let texts = 0;
/** A text that no other test sends. */
const fresh = () => `Write 20 words, number ${++texts}`;
const outcomeOf = (answer: Response) => answer.headers.get('x-cache');

const routes = both.flatMap(([kind, model]) => [
  [`a ${kind} chat completion`, '/v1/chat/completions', () => ({ model, messages: user(fresh()) })] as const,
  [`a ${kind} response`, '/v1/responses', () => ({ model, input: fresh() })] as const,
  [`a ${kind} response that is not stored`, '/v1/responses', () => ({ model, input: fresh(), store: false })] as const,
  [`a ${kind} message`, '/v1/messages', () => ({ model, max_tokens: 500, messages: user(fresh()) })] as const,
  [`${kind} embeddings`, '/v1/embeddings', () => ({ model, input: fresh() })] as const,
]);
const streamed = routes
  .filter(([, path]) => path !== '/v1/embeddings')
  .map(([what, path, body]) => [`${what} as a stream`, path, () => ({ ...body(), stream: true })] as const);

// The gateway learns with the first response that the provider does not have that route.
beforeAll(async () => {
  await kinds.create({ input: fresh() });
});

describe.each([...routes, ...streamed])('%s', (_what, path, bodyOf) => {
  it('is answered again without a call, however the members are ordered', async () => {
    const body = bodyOf();
    const before = calls();
    const first = await post(path, body);
    const text = await first.text();
    expect({ status: first.status, cache: outcomeOf(first), text }).toMatchObject({ status: 200, cache: 'MISS' });
    const reversed = Object.fromEntries(Object.entries(body).reverse());
    const second = await post(path, `\n ${JSON.stringify(reversed, undefined, 2)}`);
    const again = await second.text();
    expect({ status: second.status, cache: outcomeOf(second) }).toEqual({ status: 200, cache: 'HIT (exact)' });
    expect(second.headers.get('content-type')).toContain(first.headers.get('content-type')?.split(';')[0]);
    expect(calls() - before).toBe(1);
    expect(again.length).toBeGreaterThan(0);
    const types = (await eventsOfExchange(gateway, exchangeOf(second))).map(({ type }) => type);
    expect(types).toEqual(['request.received', 'model.resolved', 'cache.hit', 'exchange.completed']);
  });

  it('calls the provider once for equal requests at the same time', async () => {
    const body = bodyOf();
    const before = calls();
    const answers = await Promise.all(Array.from({ length: 8 }, () => post(path, body)));
    await Promise.all(answers.map((answer) => answer.text()));
    expect(answers.map(outcomeOf).sort()).toEqual([...Array.from({ length: 7 }, () => 'HIT (exact)'), 'MISS']);
    expect(calls() - before).toBe(1);
  });
});

describe('a cached response', () => {
  it.each(both)('belongs to its caller, can be retrieved and continued (%s)', async (_kind, model) => {
    const body = { model, input: fresh() };
    const first = await json(await post('/v1/responses', body));
    const second = await json(await post('/v1/responses', body));
    expect(second.id).not.toBe(first.id);
    expect(second.output[0].id).not.toBe(first.output[0].id);
    expect(await json(await kinds.retrieve(second.id))).toEqual(second);
    expect(await json(await kinds.retrieve(first.id))).toEqual(first);
    const next = await post('/v1/responses', { model, input: 'And now?', previous_response_id: second.id });
    expect(next.status, await next.clone().text()).toBe(200);
    const referenced = { model, input: [{ type: 'item_reference', id: second.output[0].id }, ...user('Go on')] };
    const byItem = await post('/v1/responses', referenced);
    expect(byItem.status, await byItem.clone().text()).toBe(200);
    expect((await gateway.fetch(`/v1/responses/${first.id}`, { method: 'DELETE' })).status).toBe(200);
    expect((await kinds.retrieve(second.id)).status).toBe(200);
  });
});

describe.each(both)('deleting a response (%s)', (_kind, model) => {
  const remove = async (id: string) =>
    expect((await gateway.fetch(`/v1/responses/${id}`, { method: 'DELETE' })).status).toBe(200);

  it.each([false, true])(
    'removes its cached answer: the next equal request calls the provider (stream %s)',
    async (stream) => {
      const body = { model, input: fresh(), stream };
      const idOf = async (answer: Response) => /"(resp_[^"]+)"/.exec(await answer.text())?.[1] ?? '';
      const first = await post('/v1/responses', body);
      const id = await idOf(first);
      expect(outcomeOf(await post('/v1/responses', body))).toBe('HIT (exact)');
      await remove(id);
      const next = await post('/v1/responses', body);
      expect(outcomeOf(next)).toBe('MISS');
      const nextId = await idOf(next);
      // The deletion of an answer that was replaced removes nothing.
      const hit = await post('/v1/responses', body);
      expect(outcomeOf(hit)).toBe('HIT (exact)');
      // A response that the cache gave is the same answer.
      await remove(await idOf(hit));
      expect(outcomeOf(await post('/v1/responses', body))).toBe('MISS');
      expect((await kinds.retrieve(nextId)).status).toBe(200);
    },
  );
});

describe('the response cache', () => {
  const [, model] = both[0];
  const chat = (extra: object = {}) => ({ model, messages: user(fresh()), ...extra });
  const twice = async (body: unknown, headers: Record<string, string> = {}) => {
    const first = await post('/v1/chat/completions', body, headers);
    await first.text();
    const second = await post('/v1/chat/completions', body, headers);
    await second.text();
    return [outcomeOf(first), outcomeOf(second)];
  };

  it('does not share answers between user paths, or between unbound keys', async () => {
    const body = chat();
    const [red, blue] = [await newKey(gateway, { user_path: '/red' }), await newKey(gateway, { user_path: '/blue' })];
    const [one, other] = [await newKey(gateway), await newKey(gateway)];
    const ask = async (key: { fetch: typeof red.fetch }) =>
      outcomeOf(await key.fetch('/v1/chat/completions', { json: body }));
    for (const key of [red, blue, one, other]) expect(await ask(key)).toBe('MISS');
    for (const key of [red, blue, one, other]) expect(await ask(key)).toBe('HIT (exact)');
    expect(await ask(await newKey(gateway, { user_path: '/red' }))).toBe('HIT (exact)');
    expect(await ask(await newKey(gateway, { user_path: '/red/below' }))).toBe('MISS');
  });

  it('does not give a caller that chooses its path with a header what keys of that path were answered', async () => {
    const body = chat();
    const bound = await newKey(gateway, { user_path: '/green' });
    await (await bound.fetch('/v1/chat/completions', { json: body })).text();
    const unbound = await newKey(gateway);
    const headers = { 'x-gateway-user-path': '/green' };
    expect(outcomeOf(await unbound.fetch('/v1/chat/completions', { json: body, headers }))).toBe('MISS');
    expect(outcomeOf(await post('/v1/chat/completions', body, headers))).toBe('MISS');
  });

  it('does not keep an answer to a body with a member twice', async () => {
    const text = fresh();
    const messages = (content: string) => `"messages":[{"role":"user","content":"${content}"}]`;
    const body = `{"model":"${model}",${messages('Something else')},${messages(text)}}`;
    expect(await twice(body)).toEqual([null, null]);
    expect(await twice(`{"model":"${model}",${messages(text)}}`)).toEqual(['MISS', 'HIT (exact)']);
  });

  it('keeps requests apart that differ in one value', async () => {
    const body = chat({ temperature: 0, seed: 9007199254740993n.toString() });
    const text = JSON.stringify(body);
    const seeded = text.replace('"9007199254740993"', '9007199254740993');
    expect(await twice(seeded)).toEqual(['MISS', 'HIT (exact)']);
    expect(await twice(seeded.replace('740993', '740992'))).toEqual(['MISS', 'HIT (exact)']);
    expect(await twice(seeded.replace('9007199254740993', '{"rawJSON":"9007199254740993"}'))).toEqual([
      'MISS',
      expect.any(String),
    ]);
    expect(await twice({ ...body, temperature: 1 })).toEqual(['MISS', 'HIT (exact)']);
  });

  it('does not keep answers to requests with very many values', async () => {
    const input = Array.from({ length: 60_000 }, (_, index) => index % 100);
    for (const _ of [1, 2]) expect(outcomeOf(await post('/v1/embeddings', { model, input }))).toBeNull();
  });

  it('does not sort thousands of members', async () => {
    const members = Object.fromEntries(Array.from({ length: 30_000 }, (_, index) => [`m${index}`, index]));
    expect(await twice(chat({ metadata: members }))).toEqual([null, null]);
  });

  it('keeps requests apart whose schemas or numbers are written in another way', async () => {
    const schema = (properties: object) => ({
      response_format: { type: 'json_schema', json_schema: { name: 'a', schema: { type: 'object', properties } } },
    });
    const body = chat();
    const [one, other] = [{ type: 'string' }, { type: 'string' }];
    expect(await twice({ ...body, ...schema({ one, other }) })).toEqual(['MISS', 'HIT (exact)']);
    expect(await twice({ ...body, ...schema({ other, one }) })).toEqual(['MISS', 'HIT (exact)']);
    const number = JSON.stringify({ ...chat(), foo: 'X' });
    for (const form of ['1', '1.0', '1e0', '0', '-0', '0.1', '0.1000000000000000055', '1e300', '1.0e300']) {
      expect(await twice(number.replace('"X"', form)), form).toEqual(['MISS', 'HIT (exact)']);
    }
  });

  it('does not answer requests that name items or files from the cache: the right to them is checked each time', async () => {
    const response = await json(await gateway.post('/v1/responses', { model, input: fresh() }));
    const item = { type: 'item_reference', id: response.output[0].id };
    for (const input of [
      [item, ...user(fresh())],
      [{ role: 'user', content: [{ type: 'input_file', file_id: 'file-1' }] }],
    ]) {
      for (const _ of [1, 2]) expect(outcomeOf(await post('/v1/responses', { model, input }))).toBeNull();
    }
  });

  it('lets a workflow bound the time that a request states', async () => {
    const features = { cache: true, audit: true, usage: true, guardrails: false };
    const workflow_payload = { schema_version: 2, features, cache: { ttl_seconds: 1 }, steps: [] };
    const made = await gateway.fetch('/admin/workflows', {
      json: { scope_user_path: '/brief', name: 'brief', workflow_payload },
    });
    expect(made.status, await made.clone().text()).toBe(201);
    const key = await newKey(gateway, { user_path: '/brief' });
    const answer = await key.fetch('/v1/chat/completions', { json: chat(), headers: { 'x-cache-ttl': '3600' } });
    await answer.text();
    const stored = (await eventsOfExchange(gateway, exchangeOf(answer))).find(({ type }) => type === 'cache.stored');
    if (stored === undefined) throw new Error('the answer is not cached');
    expect(stored.data.expiresAt - Date.parse(stored.at)).toBeLessThanOrEqual(1001);
  });

  it('honours Cache-Control', async () => {
    const body = chat();
    expect(await twice(body, { 'cache-control': 'no-store' })).toEqual([null, null]);
    expect(
      await errorOf(await post('/v1/chat/completions', body, { 'cache-control': 'only-if-cached' }), 504),
    ).toMatchObject({
      code: 'not_cached',
    });
    expect(await twice(body)).toEqual(['MISS', 'HIT (exact)']);
    expect(await twice(body, { 'cache-control': 'no-cache' })).toEqual(['MISS', 'MISS']);
    expect(await twice(body, { 'cache-control': 'only-if-cached' })).toEqual(['HIT (exact)', 'HIT (exact)']);
  });

  it('honours only-if-cached also where the answer cannot be cached', async () => {
    const header = { 'cache-control': 'only-if-cached' };
    const conversation = (await json(await gateway.post('/v1/conversations', {}))).id;
    const before = calls();
    for (const body of [{ background: true }, { conversation }, { metadata: { a: '1' } }]) {
      await errorOf(await post('/v1/responses', { model, input: fresh(), ...body }, header), 504);
    }
    const noStore = { 'cache-control': 'no-store, only-if-cached' };
    await errorOf(await post('/v1/chat/completions', chat(), noStore), 504);
    expect(calls()).toBe(before);
  });

  it('answers max-age=0 from the provider, without a wait for an equal request', async () => {
    const body = chat();
    gateway.simulated.control.next({ hang: true });
    const first = new AbortController();
    const hanging = gateway.post('/v1/chat/completions', body, { signal: first.signal }).catch(() => undefined);
    await gateway.simulated.nextRequest();
    expect(outcomeOf(await post('/v1/chat/completions', body, { 'cache-control': 'max-age=0' }))).toBe('MISS');
    first.abort();
    await hanging;
  });

  it('sends a waiting request to the provider when the client of the first one leaves', async () => {
    const body = chat();
    gateway.simulated.control.next({ hang: true });
    const first = new AbortController();
    const hanging = gateway.post('/v1/chat/completions', body, { signal: first.signal }).catch(() => undefined);
    await gateway.simulated.nextRequest();
    const others = [1, 2, 3].map(() => post('/v1/chat/completions', body));
    first.abort();
    await hanging;
    const outcomes = (await Promise.all(others)).map(outcomeOf);
    expect(outcomes.filter((outcome) => outcome === 'MISS').length).toBeLessThanOrEqual(1);
  });

  it('keeps no answer that was cut, has tool calls, is in the background or belongs to a conversation', async () => {
    expect(await twice(chat({ max_tokens: 3 }))).toEqual(['MISS', 'MISS']);
    const tools = [{ type: 'function', function: { name: 'go', parameters: { type: 'object', properties: {} } } }];
    expect(await twice(chat({ tools, tool_choice: 'required' }))).toEqual(['MISS', 'MISS']);
    const conversation = (await json(await gateway.post('/v1/conversations', {}))).id;
    for (const body of [{ background: true }, { conversation }]) {
      const request = { model, input: fresh(), ...body };
      for (const _ of [1, 2]) expect(outcomeOf(await post('/v1/responses', request))).toBeNull();
    }
  });

  it('keeps no failure, and sends the requests that waited for it to the provider', async () => {
    gateway.simulated.control.next({ status: 500, firstByteDelayMs: 100 });
    const body = chat();
    const answers = await Promise.all([1, 2, 3].map(() => post('/v1/chat/completions', body)));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 500]);
    expect(answers.map(outcomeOf)).not.toContain('HIT (exact)');
    expect(outcomeOf(await post('/v1/chat/completions', body))).toBe('HIT (exact)');
  });

  it('does not let equal requests wait for a client that does not read', async () => {
    const body = JSON.stringify({ model, messages: user(`Write 200000 words, number ${++texts}`), stream: true });
    const slow = await RawClient.open(gateway.url);
    onTestFinished(() => void slow.socket.destroy());
    slow.socket.pause();
    slow.send(
      `POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer ${MASTER_KEY}\r\n` +
        `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
    );
    await gateway.simulated.nextRequest();
    const answer = await post('/v1/chat/completions', body);
    expect(outcomeOf(answer)).toBe('MISS');
    await answer.body?.cancel();
  });

  it('gives a request with an idempotency key the cached answer, and repeats it byte by byte', async () => {
    const body = { model, input: fresh(), stream: true };
    await (await post('/v1/responses', body)).text();
    const headers = { 'idempotency-key': 'cached-1' };
    const hit = await post('/v1/responses', body, headers);
    expect(outcomeOf(hit)).toBe('HIT (exact)');
    const text = await hit.text();
    const again = await post('/v1/responses', body, headers);
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    expect(await again.text()).toBe(text);
  });
});
