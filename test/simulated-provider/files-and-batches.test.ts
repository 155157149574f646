import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import { type Answered, user, withProvider } from './started-provider.ts';

const started = withProvider({ backgroundMs: 20 });
const { json, post, get, provider } = started;
const absent = withProvider({ files: 'absent', batches: 'absent' });
const client = () => new OpenAI({ baseURL: started.url, apiKey: 'none', maxRetries: 0 });

async function upload(content: string | Buffer, fields: Record<string, string> = { purpose: 'batch' }) {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.append(name, value);
  form.append('file', new Blob([content]), 'requests.jsonl');
  return fetch(new URL('/v1/files', started.url), { method: 'POST', body: form });
}

const remove = (path: string) => fetch(new URL(path, started.url), { method: 'DELETE' });

describe('a file', () => {
  it('is returned byte for byte, until it is deleted', async () => {
    const bytes = Buffer.from(Array.from({ length: 512 }, (_, i) => i & 0xff));
    const file: Answered = await (await upload(bytes, { purpose: 'user_data' })).json();
    expect(file).toMatchObject({
      id: expect.stringMatching(/^file-/),
      object: 'file',
      bytes: 512,
      filename: 'requests.jsonl',
      purpose: 'user_data',
      status: 'processed',
    });
    expect(await json(`/v1/files/${file.id}`)).toEqual(file);
    const content = await get(`/v1/files/${file.id}/content`);
    expect(content.headers.get('content-type')).toBe('application/octet-stream');
    expect(Buffer.from(await content.arrayBuffer())).toEqual(bytes);
    expect(await (await remove(`/v1/files/${file.id}`)).json()).toEqual({ id: file.id, object: 'file', deleted: true });
    expect((await get(`/v1/files/${file.id}`)).status).toBe(404);
  });

  it('is seen by tests as the bytes that came', async () => {
    const bytes = Buffer.from([0, 255, 254, 13, 10, 0]);
    await upload(bytes);
    const request = provider.requests.at(-1);
    expect(request?.headers['content-type']).toMatch(/^multipart\/form-data; boundary=/);
    expect(request?.bytes.includes(bytes)).toBe(true);
    expect(request?.body).toContain('name="purpose"');
  });

  it.each([
    [{}, 'purpose'],
    [{ purpose: 'fun' }, 'purpose'],
  ])('is refused with the fields %j', async (fields, param) => {
    const response = await upload('x', fields);
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { param } });
  });

  it('is refused when it is not a form, or a broken one', async () => {
    expect((await post('/v1/files', { purpose: 'batch' })).status).toBe(400);
    const headers = { 'content-type': 'multipart/form-data; boundary=x' };
    const broken = await fetch(new URL('/v1/files', started.url), { method: 'POST', headers, body: '--y\r\n' });
    expect(broken.status).toBe(400);
    expect(await broken.json()).toMatchObject({ error: { message: expect.stringMatching(/multipart/) } });
  });

  it('is listed in pages, newest first, by purpose', async () => {
    const ids = [];
    for (const name of ['one', 'two', 'three']) {
      const file: Answered = await (await upload(name, { purpose: 'vision' })).json();
      ids.unshift(file.id);
    }
    const first = await json('/v1/files?purpose=vision&limit=2');
    expect(first).toMatchObject({ object: 'list', has_more: true, first_id: ids[0], last_id: ids[1] });
    const rest = await json(`/v1/files?purpose=vision&limit=2&after=${ids[1]}`);
    expect(rest).toMatchObject({ has_more: false, data: [{ id: ids[2] }] });
  });

  it('can be made to fail like anything else', async () => {
    expect((await upload('x', { purpose: 'batch', simulate: '{"status":503}' })).status).toBe(503);
  });
});

describe('a batch', () => {
  const line = (custom_id: string, body: object, url = '/v1/chat/completions') =>
    JSON.stringify({ custom_id, method: 'POST', url, body });
  const chat = (text: string) => ({ model: 'm', messages: user(text) });

  async function create(content: string, more: object = {}) {
    const { id }: Answered = await (await upload(content)).json();
    const body = { input_file_id: id, endpoint: '/v1/chat/completions', completion_window: '24h', ...more };
    return json('/v1/batches', body);
  }

  it('answers its requests into a file, and refused ones into another', async () => {
    const batch = await create(`${line('a', chat('Reply with exactly: yes'))}\n${line('b', { model: 'm' })}\n`, {
      metadata: { for: 'me' },
    });
    expect(batch).toMatchObject({ object: 'batch', status: 'validating', metadata: { for: 'me' } });
    await expect.poll(async () => (await json(`/v1/batches/${batch.id}`)).status).toBe('completed');
    const done = await json(`/v1/batches/${batch.id}`);
    expect(done).toMatchObject({ request_counts: { total: 2, completed: 1, failed: 1 }, errors: null });
    const [good, bad] = await Promise.all(
      [done.output_file_id, done.error_file_id].map(async (id) =>
        JSON.parse(await (await get(`/v1/files/${id}/content`)).text()),
      ),
    );
    expect(good).toMatchObject({
      custom_id: 'a',
      response: { status_code: 200, body: { choices: [{ message: { content: 'yes' } }] } },
      error: null,
    });
    expect(bad).toMatchObject({
      custom_id: 'b',
      response: { status_code: 400, body: { error: { param: 'messages' } } },
    });
  });

  it('is in progress until it is released, and can be cancelled until then', async () => {
    const simulate = { holdBackground: 'in_progress' };
    const { id } = await create(line('a', chat('hi')), { simulate });
    await expect.poll(async () => (await json(`/v1/batches/${id}`)).status).toBe('in_progress');
    expect(await (await post(`/v1/batches/${id}/cancel`, '')).json()).toMatchObject({ status: 'cancelling' });
    expect(await json(`/v1/batches/${id}`)).toMatchObject({ status: 'cancelled', cancelled_at: expect.any(Number) });
    expect((await post(`/v1/batches/${id}/cancel`, '')).status).toBe(409);
  });

  it('fails when its file is not made of JSON lines', async () => {
    const { id } = await create('not json');
    await expect.poll(async () => (await json(`/v1/batches/${id}`)).status).toBe('failed');
    expect((await json(`/v1/batches/${id}`)).errors.data[0].code).toBe('invalid_json_line');
  });

  it.each([
    [{ endpoint: '/v1/fun' }, 400],
    [{ completion_window: '1h' }, 400],
    [{ input_file_id: 'file-no' }, 404],
  ])('is refused with %j', async (more, status) => {
    const { id }: Answered = await (await upload('{}')).json();
    const body = { input_file_id: id, endpoint: '/v1/chat/completions', completion_window: '24h', ...more };
    expect((await post('/v1/batches', body)).status).toBe(status);
  });

  it("works with OpenAI's own client", async () => {
    const openai = client();
    const file = await openai.files.create({
      file: new File([line('a', { model: 'm', input: 'hello' }, '/v1/embeddings')], 'x.jsonl'),
      purpose: 'batch',
    });
    const batch = await openai.batches.create({
      input_file_id: file.id,
      endpoint: '/v1/embeddings',
      completion_window: '24h',
    });
    await expect.poll(async () => (await openai.batches.retrieve(batch.id)).status).toBe('completed');
    const listed = [];
    for await (const each of openai.batches.list({ limit: 2 })) listed.push(each.id);
    expect(listed).toContain(batch.id);
  });
});

it('both can be absent', async () => {
  expect((await absent.get('/v1/files')).status).toBe(404);
  expect((await absent.get('/v1/batches')).status).toBe(404);
});
