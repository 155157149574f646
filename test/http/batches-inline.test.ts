/** Batches whose requests come in the body, and the results of batches request by request. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Answered } from '../support/answered.ts';
import { at, line, MODEL, newBatch, setBudget, setPrice, withLastingProvider } from '../support/batches.ts';
import { newKey } from '../support/managed-keys.ts';
import { type ObjectStore, objectStore } from '../support/object-store.ts';
import { type ScriptedProvider, startScriptedProvider } from '../support/scripted-provider.ts';
import { errorOf, eventsUntil, exchangeOf, json, withGateway } from '../support/with-gateway.ts';

const endpoint = '/v1/chat/completions';
const request = (custom_id: string, model: string, more: object = {}) => ({
  custom_id,
  url: endpoint,
  body: { model, messages: [{ role: 'user', content: 'hi' }] },
  ...more,
});

/** The requests that make something: the gateway reads the states of earlier batches meanwhile. */
const made = (requests: readonly string[]) => requests.filter((request) => !request.startsWith('GET '));

describe('POST /v1/batches with requests', () => {
  let openai: ScriptedProvider;
  let groq: ScriptedProvider;
  let stores: { openai: ObjectStore; groq: ObjectStore };
  let time = 1000;
  const gateway = withGateway(async () => {
    [openai, groq] = await Promise.all([startScriptedProvider(), startScriptedProvider()]);
    return {
      register: () => ({
        OPENAI_BASE_URL: openai.url,
        OPENAI_API_KEY: 'sk-openai',
        GROQ_BASE_URL: groq.url,
        GROQ_API_KEY: 'sk-groq',
        MISTRAL_BASE_URL: groq.url,
        MISTRAL_API_KEY: 'sk-mistral',
        GEMINI_BASE_URL: groq.url,
        GEMINI_API_KEY: 'sk-gemini',
      }),
    };
  });
  afterAll(() => Promise.all([openai.close(), groq.close()]));
  beforeEach(() => {
    const now = () => ++time;
    stores = { openai: objectStore(`o${time}x`, now), groq: objectStore(`g${time}x`, now) };
    openai.script(stores.openai.script);
    groq.script(stores.groq.script);
  });
  const create = (body: object | string, init: RequestInit = {}, query = '') =>
    gateway.post(`/v1/batches${query}`, body, init);
  const linesAt = (store: ObjectStore, id: string) =>
    (store.files.get(id)?.content?.toString() ?? '').trimEnd().split('\n');

  it('creates a batch from a file at the provider of their models, under its own names', async () => {
    const answer = await create({
      requests: [request('a', 'groq/scripted'), request('b', 'groq/scripted', { method: 'POST' })],
      metadata: { a: '1' },
    });
    expect(answer.status, await answer.clone().text()).toBe(200);
    const batch = await json(answer);
    expect(batch).toMatchObject({ object: 'batch', provider: 'groq', endpoint, metadata: { a: '1' } });
    expect(JSON.parse(groq.last().body.toString())).toEqual({
      metadata: { a: '1' },
      endpoint,
      input_file_id: batch.input_file_id,
      completion_window: '24h',
    });
    expect(stores.groq.files.get(batch.input_file_id)).toMatchObject({ purpose: 'batch', filename: 'batch.jsonl' });
    expect(linesAt(stores.groq, batch.input_file_id).map((text) => JSON.parse(text))).toEqual([
      { custom_id: 'a', method: 'POST', url: endpoint, body: request('a', 'scripted').body },
      { custom_id: 'b', method: 'POST', url: endpoint, body: request('b', 'scripted').body },
    ]);
    expect(made(stores.openai.requests)).toEqual([]);
    const [tracked] = await eventsUntil(gateway, `stream=file-${batch.input_file_id}`, () => true);
    expect(tracked?.data).toMatchObject({ provider: 'groq', exchangeId: exchangeOf(answer) });
    expect(await json(await gateway.fetch(`/v1/files/${batch.input_file_id}`))).toMatchObject({ provider: 'groq' });
  });

  it('keeps everything of a request byte for byte but for the name of its model', async () => {
    const body = '{ "model":"groq/scripted", "n" : 12345678901234567890,\n "x": 1.50 }';
    const batch = await json(await create(`{"endpoint":"${endpoint}","requests":[{"custom_id":"a","body":${body}}]}`));
    expect(linesAt(stores.groq, batch.input_file_id)).toEqual([
      `{"custom_id":"a","body":{ "model":"scripted", "n" : 12345678901234567890,  "x": 1.50 },"method":"POST","url":"${endpoint}"}`,
    ]);
  });

  it.each([
    ['its body', { provider: 'groq' }, ''],
    ['the query', {}, '?provider=groq'],
  ])('goes to the provider that %s names', async (_how, hint, query) => {
    const batch = await json(await create({ requests: [request('a', 'scripted')], ...hint }, {}, query));
    expect(batch.provider).toBe('groq');
    expect(JSON.parse(linesAt(stores.groq, batch.input_file_id)[0] ?? '')).toMatchObject({
      body: { model: 'scripted' },
    });
  });

  it.each<[string, object, string | null, string]>([
    ['neither a file nor requests', {}, 'input_file_id', 'missing_required_parameter'],
    ['both', { input_file_id: 'file-1', requests: [request('a', 'groq/scripted')] }, 'requests', 'invalid_value'],
    ['no request', { requests: [] }, 'requests', 'invalid_value'],
    [
      'a request without a model',
      { requests: [request('a', 'groq/x'), { custom_id: 'b', url: endpoint, body: {} }] },
      'requests[1].body.model',
      'missing_required_parameter',
    ],
    [
      'a request without a custom_id',
      { requests: [{ url: endpoint, body: { model: 'groq/x' } }] },
      'requests[0].custom_id',
      'missing_required_parameter',
    ],
    [
      'the same custom_id twice',
      { requests: [request('a', 'groq/x'), request('a', 'groq/x')] },
      'requests[1].custom_id',
      'batch_request_invalid',
    ],
    [
      'models of two providers',
      { requests: [request('a', 'groq/scripted'), request('b', 'openai/scripted')] },
      'requests[1].body.model',
      'batch_request_invalid',
    ],
    [
      'requests for two endpoints',
      { requests: [request('a', 'groq/x'), request('b', 'groq/x', { url: '/v1/responses' })] },
      'requests[1].url',
      'batch_request_invalid',
    ],
    [
      'no endpoint at all',
      { requests: [request('a', 'groq/x', { url: undefined })] },
      'requests[0].url',
      'batch_request_invalid',
    ],
    [
      'another method',
      { requests: [request('a', 'groq/x', { method: 'GET' })] },
      'requests[0].method',
      'batch_request_invalid',
    ],
  ])('refuses %s before a provider is called', async (_what, body, param, code) => {
    const refused = await errorOf(await create(body), 400);
    expect(refused).toMatchObject({ type: 'invalid_request_error', param });
    if (code !== 'invalid_value') expect(refused.code).toBe(code);
    expect(made([...stores.groq.requests, ...stores.openai.requests])).toEqual([]);
  });

  it.each([['mistral'], ['gemini']])(
    'is 501 at %s, which has no batches or no files, without a call to it',
    async (name) => {
      expect(await errorOf(await create({ requests: [request('a', `${name}/scripted`)] }), 501)).toBeDefined();
      expect(made(stores.groq.requests)).toEqual([]);
    },
  );

  it('checks the models and the objects that the caller may use', async () => {
    const key = await newKey(gateway, { user_path: '/team', allowed_models: ['groq/scripted'] });
    const by = (body: object) => key.fetch('/v1/batches', { json: body });
    expect(
      await errorOf(await by({ requests: [request('a', 'groq/scripted'), request('b', 'openai/scripted')] }), 400),
    ).toMatchObject({
      code: 'model_access_denied',
    });
    const inFile = { messages: [{ role: 'user', content: [{ type: 'file', file: { file_id: 'file-strange' } }] }] };
    const named = { custom_id: 'a', url: endpoint, body: { model: 'groq/scripted', ...inFile } };
    await errorOf(await by({ requests: [named] }), 404);
    const deferredWork = {
      custom_id: 'a',
      url: '/v1/responses',
      body: { model: 'groq/scripted', previous_response_id: 'r' },
    };
    expect(await errorOf(await by({ requests: [deferredWork] }), 400)).toMatchObject({ param: 'requests[0]' });
    expect(made(stores.groq.requests)).toEqual([]);
    expect((await by({ requests: [request('a', 'groq/scripted')] })).status).toBe(200);
  });
});

describe('GET /v1/batches/{id}/results', () => {
  const lasting = withLastingProvider();
  const { provider } = lasting;
  const results = (id: string, init: RequestInit = {}) => lasting.gateway.fetch(`/v1/batches/${id}/results`, init);
  beforeAll(async () => {
    await setPrice(lasting.gateway, `openai/${MODEL}`, { per_request: 1 });
  });

  async function over(id: string): Promise<Answered> {
    const status = async () => (await json(await lasting.gateway.fetch(`/v1/batches/${id}`))).status;
    await expect.poll(status, { timeout: 20_000 }).toBe('completed');
    return json(await results(id));
  }

  it('lists the result of each request, in the words of its provider, with its place in the input', async () => {
    const { id } = await newBatch(lasting.gateway, [
      line({}, { custom_id: 'good' }),
      line({ messages: 'none' }, { custom_id: 'bad' }),
      line({}, { custom_id: 'also good' }),
    ]);
    const { object, batch_id, data } = await over(id);
    expect({ object, batch_id }).toEqual({ object: 'list', batch_id: id });
    expect(data).toHaveLength(3);
    const byId = new Map<string, Answered>(data.map((one: Answered) => [one.custom_id, one]));
    expect(byId.get('good')).toMatchObject({
      index: 0,
      url: endpoint,
      status_code: 200,
      model: MODEL,
      provider: 'openai',
      response: { object: 'chat.completion', choices: [{ message: { content: 'hello' } }] },
      error: null,
    });
    expect(byId.get('also good')).toMatchObject({ index: 2, error: null });
    const bad = byId.get('bad') ?? {};
    expect(bad).toMatchObject({ index: 1, response: null, error: { message: expect.stringMatching(/./) } });
    expect(bad['status_code']).toBeGreaterThanOrEqual(400);
  });

  it('includes a batch whose requests came in its body, which is reserved and charged once', async () => {
    const { gateway } = lasting;
    await setBudget(gateway, '/inline', 3);
    const body = { requests: ['a', 'b'].map((id) => request(id, `openai/${MODEL}`)) };
    const made = await gateway.fetch('/v1/batches', { json: body, ...at('/inline') });
    expect(made.status, await made.clone().text()).toBe(200);
    const { id } = await json(made);
    const tooMuch = await gateway.fetch('/v1/batches', { json: body, ...at('/inline') });
    expect(await errorOf(tooMuch, 429)).toMatchObject({ code: 'budget_exceeded' });
    const { data } = await over(id);
    expect(data.map(({ custom_id, index }: Answered) => [custom_id, index])).toEqual([
      ['a', 0],
      ['b', 1],
    ]);
    const events = await eventsUntil(
      gateway,
      `stream=exchange-${exchangeOf(made)}`,
      ({ type }) => type === 'usage.settled',
    );
    expect(events.filter(({ type }) => type === 'usage.recorded').map(({ data: used }) => used)).toMatchObject([
      { answers: 2, model: MODEL },
    ]);
  });

  it('is 409 until the batch has ended, and 404 for callers that do not see it', async () => {
    provider.control.always({ holdBackground: 'in_progress' }, { path: '/v1/batches' });
    const key = await newKey(lasting.gateway, { user_path: '/results' });
    const { id } = await newBatch(lasting.gateway, [line()], at('/results'));
    expect(await errorOf(await results(id), 409)).toMatchObject({ code: 'batch_not_ready' });
    expect((await key.fetch(`/v1/batches/${id}/results`)).status).toBe(409);
    const stranger = await newKey(lasting.gateway, { user_path: '/stranger' });
    expect(await errorOf(await stranger.fetch(`/v1/batches/${id}/results`), 404)).toMatchObject({ code: null });
    expect(await errorOf(await results('batch_none'), 404)).toBeDefined();
  });

  it('is recorded when an administrator reads the requests of another caller', async () => {
    const { gateway } = lasting;
    const { id } = await newBatch(gateway, [line()], at('/read'));
    const admin = await newKey(gateway, { dashboard_access: true });
    await over(id);
    expect((await admin.fetch(`/v1/batches/${id}/results`)).status).toBe(200);
    const reads = await eventsUntil(
      gateway,
      'types=audit.read',
      ({ data, actor }) => actor === `key:${admin.id}` && data.what === 'file_content',
    );
    expect(reads.filter(({ actor }) => actor === `key:${admin.id}`).map(({ data }) => data.what)).toEqual(
      expect.arrayContaining(['batch', 'file_content']),
    );
  });

  it('refuses with a reason when the output was deleted', async () => {
    const { id } = await newBatch(lasting.gateway, [line()]);
    await over(id);
    const { output_file_id } = await json(await lasting.gateway.fetch(`/v1/batches/${id}`));
    await lasting.gateway.fetch(`/v1/files/${output_file_id}`, { method: 'DELETE' });
    expect(await errorOf(await results(id), 404)).toMatchObject({ message: expect.stringContaining(output_file_id) });
  });
});
