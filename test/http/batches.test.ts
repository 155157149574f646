import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { line } from '../support/batches.ts';
import { type ObjectStore, objectStore } from '../support/object-store.ts';
import { type ScriptedProvider, startScriptedProvider } from '../support/scripted-provider.ts';
import { errorOf, eventsUntil, exchangeOf, json, withGateway } from '../support/with-gateway.ts';

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

const ann = { headers: { 'x-gateway-user-path': '/team/ann' } };
const bob = { headers: { 'x-gateway-user-path': '/team/bob' } };
const endpoint = '/v1/chat/completions';

async function uploaded(provider: string, init: RequestInit = {}): Promise<string> {
  const form = new FormData();
  form.append('provider', provider);
  form.append('purpose', 'batch');
  form.append('file', new Blob([`${JSON.stringify(line())}\n`]), 'in.jsonl');
  return (await json(await gateway.fetch('/v1/files', { method: 'POST', body: form, ...init }))).id;
}
const create = (body: object, init: RequestInit = {}, query = '') =>
  gateway.post(`/v1/batches${query}`, { endpoint, completion_window: '24h', ...body }, init);

describe('a batch', () => {
  it('is created at the provider of its input file, and read from there', async () => {
    const input_file_id = await uploaded('groq');
    const answer = await create({ input_file_id, metadata: { a: '1' } });
    const batch = await json(answer);
    expect(batch).toMatchObject({ object: 'batch', provider: 'groq', input_file_id, metadata: { a: '1' } });
    expect(JSON.parse(groq.last().body.toString())).toEqual({
      endpoint,
      completion_window: '24h',
      input_file_id,
      metadata: { a: '1' },
    });
    expect(await json(await gateway.fetch(`/v1/batches/${batch.id}`))).toMatchObject({
      id: batch.id,
      provider: 'groq',
    });
    const cancelled = await gateway.fetch(`/v1/batches/${batch.id}/cancel`, { method: 'POST' });
    expect(await json(cancelled)).toMatchObject({ status: 'cancelling', provider: 'groq' });
    expect(stores.openai.requests).toEqual([]);
    const [tracked] = await eventsUntil(gateway, `stream=batch-${batch.id}`, () => true);
    expect(tracked?.data).toMatchObject({ provider: 'groq', exchangeId: exchangeOf(answer) });
  });

  it.each([
    ['its body', { provider: 'groq' }, ''],
    ['the query', {}, '?provider=groq'],
    ['a model', { model: 'groq/scripted' }, ''],
  ])('with an unknown file goes to the provider in %s, which does not receive the hint', async (_how, hint, query) => {
    const batch = await json(await create({ input_file_id: 'file-strange', ...hint }, {}, query));
    expect(batch.provider).toBe('groq');
    expect(JSON.parse(groq.last().body.toString())).not.toHaveProperty('provider');
    expect(JSON.parse(groq.last().body.toString())).not.toHaveProperty('model');
  });

  it('has a completion window of 24h by default, and is otherwise passed on byte for byte', async () => {
    const text = '{ "input_file_id":"file-strange","endpoint" : "/v1/x", "provider":"groq", "n":1.50 }';
    await gateway.post('/v1/batches', text);
    const got = groq.last().body.toString();
    expect(got).toMatch(
      /^\{ "input_file_id":"file-strange","endpoint" : "\/v1\/x", "n":1.50 *,"completion_window":"24h"\}$/,
    );
  });

  it('requires a file and a provider that has batches', async () => {
    expect(await errorOf(await create({}), 400)).toMatchObject({
      code: 'missing_required_parameter',
      param: 'input_file_id',
    });
    expect(await errorOf(await gateway.post('/v1/batches', 'null'), 400)).toMatchObject({ code: 'invalid_type' });
    expect(await errorOf(await create({ input_file_id: 'file-strange' }), 400)).toMatchObject({
      code: 'provider_required',
      param: 'provider',
    });
    const there = { input_file_id: await uploaded('mistral') };
    const answer = await create(there);
    expect(answer.headers.get('x-should-retry')).toBe('false');
    expect(await errorOf(answer, 501)).toMatchObject({ code: 'unsupported_operation' });
  });

  it('is refused in the words of the provider, and not sent twice', async () => {
    openai.script((_request, response) => {
      stores.openai.requests.push('again');
      response.writeHead(503, { 'content-type': 'application/json' }).end('{"error":{"message":"busy"}}');
    });
    const answer = await create({ input_file_id: 'file-strange', provider: 'openai' });
    expect(await errorOf(answer, 503)).toMatchObject({ message: 'busy', provider: 'openai' });
    expect(stores.openai.requests).toEqual(['again']);
  });

  it('is a 404 when the provider does not have its input file, and a 501 when it has no batches', async () => {
    const message = 'No such File object: file-unknown';
    openai.script((_request, response) => response.writeHead(404).end(JSON.stringify({ error: { message } })));
    const input = { input_file_id: 'file-unknown', provider: 'openai' };
    expect(await errorOf(await create(input), 404)).toMatchObject({ message, type: 'not_found_error' });
    openai.script((_request, response) => response.writeHead(404).end('{"detail":"Not Found"}'));
    expect(await errorOf(await create(input), 501)).toMatchObject({ code: 'unsupported_operation' });
  });

  it('is visible to its owner only, with its input and output files', async () => {
    const input_file_id = await uploaded('openai', ann);
    expect(await errorOf(await create({ input_file_id }, bob), 404)).toMatchObject({ type: 'not_found_error' });
    expect(await errorOf(await create({ input_file_id: 'file-strange', provider: 'openai' }, bob), 404)).toMatchObject({
      message: "The file 'file-strange' was not found.",
    });
    const { id } = await json(await create({ input_file_id }, ann));
    const made = { id: `file-out${time}`, created_at: time, content: Buffer.from('result') };
    stores.openai.files.set(made.id, made);
    // An output file belongs to the owner of the batch once the gateway has seen it in the batch.
    await errorOf(await gateway.fetch(`/v1/files/${made.id}/content`, ann), 404);
    stores.openai.batches.set(id, {
      id,
      created_at: 1,
      status: 'completed',
      output_file_id: made.id,
      error_file_id: null,
    });
    expect(await json(await gateway.fetch(`/v1/batches/${id}`))).toMatchObject({ output_file_id: made.id });
    expect(await (await gateway.fetch(`/v1/files/${made.id}/content`, ann)).text()).toBe('result');
    for (const [path, init] of [
      [`/v1/batches/${id}`, bob],
      [`/v1/batches/${id}/cancel`, { ...bob, method: 'POST' }],
      [`/v1/files/${made.id}/content`, bob],
    ] as const) {
      await errorOf(await gateway.fetch(path, init), 404);
    }
  });

  it('with an unknown id is a 404, and is found at a provider that has it', async () => {
    expect(await errorOf(await gateway.fetch('/v1/batches/batch_no'), 404)).toMatchObject({
      code: null,
      message: "The batch 'batch_no' was not found.",
    });
    const id = `batch_strange${time}`;
    stores.groq.batches.set(id, { id, created_at: 1 });
    expect(await json(await gateway.fetch(`/v1/batches/${id}`))).toMatchObject({ id, provider: 'groq' });
    expect(await json(await gateway.fetch(`/v1/batches/${id}?provider=groq`))).toMatchObject({ id, provider: 'groq' });
    await errorOf(await gateway.fetch(`/v1/batches/${id}?provider=mistral`), 501);
  });

  it('is in one list with all others that the caller may see', async () => {
    const ids: string[] = [];
    for (const [provider, init] of [
      ['openai', ann],
      ['groq', bob],
      ['openai', ann],
    ] as const) {
      ids.push((await json(await create({ input_file_id: await uploaded(provider, init) }, init))).id);
    }
    const listed = async (init: RequestInit, query = '') =>
      (await json(await gateway.fetch(`/v1/batches${query}`, init))).data.map(({ id }: { id: string }) => id);
    expect(await listed({})).toEqual([...ids].reverse());
    expect(await listed(ann)).toEqual([ids[2], ids[0]]);
    expect(await listed({}, `?limit=1&after=${ids[2]}`)).toEqual([ids[1]]);
    expect(await listed({}, '?provider=groq')).toEqual([ids[1]]);
  });
});
