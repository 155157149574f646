import { createHash } from 'node:crypto';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { startTestGateway } from '../support/gateway.ts';
import { type ObjectStore, objectStore } from '../support/object-store.ts';
import { type ScriptedProvider, startScriptedProvider } from '../support/scripted-provider.ts';
import { errorOf, eventsUntil, exchangeOf, json, modelsListed, withGateway } from '../support/with-gateway.ts';

let openai: ScriptedProvider;
let groq: ScriptedProvider;
let other: ScriptedProvider;
let stores: { openai: ObjectStore; groq: ObjectStore };
let time = 1000;

/** Two providers that store files, one that is known to have none, and one of which the gateway does not know it. */
const gateway = withGateway(async () => {
  [openai, groq, other] = await Promise.all([
    startScriptedProvider(),
    startScriptedProvider(),
    startScriptedProvider(),
  ]);
  return {
    register: () => ({
      OPENAI_BASE_URL: openai.url,
      OPENAI_API_KEY: 'sk-openai',
      GROQ_BASE_URL: groq.url,
      GROQ_API_KEY: 'sk-groq',
      DEEPSEEK_BASE_URL: other.url,
      DEEPSEEK_API_KEY: 'sk-deep',
      SIMULATED_BASE_URL: other.url,
    }),
    env: { BODY_SIZE_LIMIT: '1M', RETRY_INITIAL_BACKOFF: '1ms' },
  };
});
afterAll(() => Promise.all([openai.close(), groq.close(), other.close()]));
beforeEach(() => {
  const now = () => ++time;
  // Ids must be new in every test: the log remembers all of them.
  stores = { openai: objectStore(`o${time}x`, now), groq: objectStore(`g${time}x`, now) };
  openai.script(stores.openai.script);
  groq.script(stores.groq.script);
  other.script((_request, response) => response.writeHead(404).end('404 page not found'));
});

const lines = '{"custom_id":"1"}\n{"custom_id":"2"}\n';
const sha256 = (bytes: Uint8Array | string) => createHash('sha256').update(bytes).digest('hex');
const ann = { headers: { 'x-gateway-user-path': '/team/ann' } };
const bob = { headers: { 'x-gateway-user-path': '/team/bob' } };
const team = { headers: { 'x-gateway-user-path': '/team' } };

function upload(fields: Record<string, string | Blob> = {}, init: RequestInit = {}, query = ''): Promise<Response> {
  const form = new FormData();
  const all = { purpose: 'batch', ...fields, file: new Blob([lines], { type: 'application/jsonl' }) };
  for (const [name, value] of Object.entries(all)) {
    if (typeof value === 'string') form.append(name, value);
    else form.append(name, value, 'in.jsonl');
  }
  return gateway.fetch(`/v1/files${query}`, { method: 'POST', body: form, ...init });
}
const get = (path: string, init: RequestInit = {}) => gateway.fetch(path, init);
const idsIn = async (answer: Response) => (await json(answer)).data.map(({ id }: { id: string }) => id);

describe('an upload', () => {
  it.each([
    ['a field', { provider: 'groq' }, ''],
    ['the query', {}, '?provider=groq'],
    ['a model', { model: 'groq/scripted' }, ''],
  ])('goes to the provider that %s names, which does not receive the hint', async (_how, fields, query) => {
    const answer = await upload(fields, {}, query);
    const file = await json(answer);
    expect(file).toMatchObject({ object: 'file', provider: 'groq', filename: 'in.jsonl', bytes: lines.length });
    expect(file.fields.sort()).toEqual(['file', 'purpose']);
    expect(stores.groq.files.get(file.id)?.content?.toString()).toBe(lines);
    expect(stores.openai.requests).toEqual([]);
  });

  it('requires a valid hint where there is a choice of providers', async () => {
    expect(await errorOf(await upload(), 400)).toMatchObject({
      code: 'provider_required',
      param: 'provider',
      message: expect.stringMatching(/'openai'.*'groq'/),
    });
    expect(await errorOf(await upload({ provider: 'nobody' }), 400)).toMatchObject({ code: 'unknown_provider' });
    expect(await errorOf(await upload({ model: 'nobody/x' }), 404)).toMatchObject({ code: 'model_not_found' });
    for (const name of ['deepseek', 'simulated']) {
      const answer = await upload({ provider: name });
      expect(answer.headers.get('x-should-retry')).toBe('false');
      expect(await errorOf(answer, 501)).toMatchObject({ code: 'unsupported_operation' });
    }
    const late = new FormData();
    late.append('file', new Blob([lines]), 'in.jsonl');
    late.append('purpose', 'batch');
    late.append('provider', 'groq');
    const found = await json(await gateway.fetch('/v1/files', { method: 'POST', body: late }));
    expect(found.provider).toBe('groq');
  });

  it('requires no hint where there is one provider', async () => {
    const own = await startTestGateway({
      simulated: false,
      env: { OPENAI_BASE_URL: openai.url, OPENAI_API_KEY: 'k', DEEPSEEK_BASE_URL: other.url, DEEPSEEK_API_KEY: 'k' },
    });
    try {
      await modelsListed(own, 2);
      const form = new FormData();
      form.append('file', new Blob([lines]), 'in.jsonl');
      form.append('purpose', 'batch');
      const answer = await own.fetch('/v1/files', { method: 'POST', body: form });
      expect(await json(answer)).toMatchObject({ provider: 'openai' });
    } finally {
      await own.close();
    }
  });

  it('is recorded without its bytes, and its provider is recorded before the client receives the id', async () => {
    const answer = await upload({ provider: 'openai' }, ann);
    const { id } = await json(answer);
    const events = await eventsUntil(
      gateway,
      `stream=exchange-${exchangeOf(answer)}`,
      ({ type }) => type === 'exchange.completed',
    );
    expect(events.map(({ type }) => type)).toEqual([
      'request.received',
      'attempt.started',
      'request.part_received',
      'request.part_received',
      'request.part_received',
      'chunk.received',
      'exchange.completed',
    ]);
    const parts = events.filter(({ type }) => type === 'request.part_received').map(({ data }) => data);
    expect(parts.at(-1)).toEqual({
      name: 'file',
      filename: 'in.jsonl',
      contentType: 'application/jsonl',
      bytes: lines.length,
      sha256: sha256(lines),
    });
    const [tracked] = await eventsUntil(gateway, `stream=file-${id}`, () => true);
    expect(tracked).toMatchObject({ type: 'file.tracked', userPath: '/team/ann' });
    expect(tracked?.data).toMatchObject({ provider: 'openai', exchangeId: exchangeOf(answer) });
    const metrics = await (await gateway.fetch('/metrics')).text();
    expect(metrics).toMatch(/gateway_requests_total{provider="openai",model="none",endpoint="\/v1\/files"/);
  });

  it('is refused when it is too large, malformed, or refused by the provider', async () => {
    const big = { provider: 'openai', extra: new Blob([Buffer.alloc(1_200_000)]) };
    expect(await errorOf(await upload(big), 413)).toMatchObject({ code: 'request_too_large' });
    expect(await errorOf(await gateway.post('/v1/files', {}), 400)).toMatchObject({ code: 'form_expected' });
    const form = new FormData();
    form.append('provider', 'openai');
    const refused = await gateway.fetch('/v1/files', { method: 'POST', body: form });
    expect(await errorOf(refused, 400)).toMatchObject({ param: 'file', provider: 'openai' });
  });
});

describe('a file', () => {
  it('is fetched and deleted at its provider, without calls to others', async () => {
    const { id } = await json(await upload({ provider: 'groq' }));
    expect(await json(await get(`/v1/files/${id}`))).toMatchObject({ id, provider: 'groq' });
    expect(await (await get(`/v1/files/${id}/content`)).text()).toBe(lines);
    expect(await json(await get(`/v1/files/${id}`, { method: 'DELETE' }))).toEqual({
      id,
      object: 'file',
      deleted: true,
    });
    await errorOf(await get(`/v1/files/${id}?provider=groq`), 404);
    expect(stores.openai.requests).toEqual([]);
    const events = await eventsUntil(gateway, `stream=file-${id}`, ({ type }) => type === 'file.deleted');
    expect(events.map(({ type }) => type)).toEqual(['file.tracked', 'file.deleted']);
  });

  it('that its provider has lost counts as deleted, and as not found before', async () => {
    const { id } = await json(await upload({ provider: 'groq' }));
    stores.groq.files.clear();
    for (const path of [`/v1/files/${id}`, `/v1/files/${id}/content`]) {
      expect((await errorOf(await get(path), 404)).type).toBe('not_found_error');
    }
    expect(await json(await get(`/v1/files/${id}`, { method: 'DELETE' }))).toEqual({
      id,
      object: 'file',
      deleted: true,
    });
  });

  it('that was not created here is looked up at the provider in the query, else at all providers', async () => {
    const made = {
      id: `file-strange${time}`,
      object: 'file',
      created_at: 1,
      purpose: 'batch',
      content: Buffer.from('x'),
    };
    stores.groq.files.set(made.id, made);
    for (const query of ['', '?provider=groq']) {
      expect(await json(await get(`/v1/files/${made.id}${query}`))).toMatchObject({ id: made.id, provider: 'groq' });
      expect(await (await get(`/v1/files/${made.id}/content${query}`)).text()).toBe('x');
    }
    await errorOf(await get(`/v1/files/${made.id}?provider=openai`), 404);
    expect(await errorOf(await get(`/v1/files/${made.id}?provider=nobody`), 400)).toMatchObject({ param: 'provider' });
    expect(await errorOf(await get(`/v1/files/${made.id}?provider=deepseek`), 501)).toMatchObject({
      code: 'unsupported_operation',
    });
    expect(await errorOf(await get('/v1/files/file-nowhere'), 404)).toEqual({
      type: 'not_found_error',
      code: null,
      param: null,
      message: "The file 'file-nowhere' was not found.",
    });
    expect((await get(`/v1/files/${made.id}`, { method: 'DELETE' })).status).toBe(200);
  });

  it('is visible to its owner, and to user paths above', async () => {
    const { id } = await json(await upload({ provider: 'openai' }, ann));
    for (const init of [ann, team, {}]) expect((await get(`/v1/files/${id}`, init)).status).toBe(200);
    const strange = { id: `file-strange${time}`, created_at: 1 };
    stores.openai.files.set(strange.id, strange);
    for (const [path, init] of [
      [`/v1/files/${id}`, bob],
      [`/v1/files/${id}/content`, bob],
      [`/v1/files/${id}`, { ...bob, method: 'DELETE' }],
      [`/v1/files/${id}?provider=openai`, bob],
      [`/v1/files/${strange.id}`, ann],
      [`/v1/files/${strange.id}?provider=openai`, ann],
    ] as const) {
      expect((await errorOf(await get(path, init), 404)).message).toMatch(/was not found/);
    }
    expect(stores.openai.files.has(id)).toBe(true);
  });

  it('is found after a restart', async () => {
    const env = { OPENAI_BASE_URL: openai.url, OPENAI_API_KEY: 'k', GROQ_BASE_URL: groq.url, GROQ_API_KEY: 'k' };
    const first = await startTestGateway({ simulated: false, env });
    const form = new FormData();
    form.append('provider', 'groq');
    form.append('file', new Blob([lines]), 'in.jsonl');
    const { id } = await json(await first.fetch('/v1/files', { method: 'POST', body: form }));
    await first.gateway.stop('restart');
    const second = await startTestGateway({ simulated: false, env, dataDir: first.dataDir });
    stores.openai.requests.length = 0;
    expect(await json(await second.fetch(`/v1/files/${id}`))).toMatchObject({ provider: 'groq' });
    expect(stores.openai.requests.filter((path) => path.includes(id))).toEqual([]);
    await second.close();
    await first.simulated.close();
  });

  it('of any size is streamed, and recorded by its digest', async () => {
    const content = Buffer.alloc(3_000_000, 'abc');
    const id = `file-big${time}`;
    stores.openai.files.set(id, { id, created_at: 1, content });
    const answer = await get(`/v1/files/${id}/content?provider=openai`);
    expect(answer.headers.get('content-type')).toBe('application/octet-stream');
    expect(answer.headers.get('x-content-type-options')).toBe('nosniff');
    expect(sha256(new Uint8Array(await answer.arrayBuffer()))).toBe(sha256(content));
    const stream = `stream=exchange-${exchangeOf(answer)}`;
    const events = await eventsUntil(gateway, stream, ({ type }) => type === 'exchange.completed');
    expect(events.find(({ type }) => type === 'answer.received')?.data).toMatchObject({
      bytes: content.length,
      sha256: sha256(content),
    });
    expect(events.every(({ body, body_base64 }) => body === undefined && body_base64 === undefined)).toBe(true);
  });

  it('may look like an error, or like an answer with a price, and is still a file', async () => {
    for (const text of ['{"error":{"message":"in the file"}}', '{"usage":{"prompt_tokens":1,"completion_tokens":2}}']) {
      openai.script((_request, response) => {
        response.writeHead(200, { 'content-type': 'application/json', 'content-length': text.length }).end(text);
      });
      const answer = await get('/v1/files/file-x/content?provider=openai');
      expect([answer.status, await answer.text()]).toEqual([200, text]);
      const stream = `stream=exchange-${exchangeOf(answer)}`;
      const events = await eventsUntil(gateway, stream, ({ type }) => type === 'exchange.completed');
      expect(events.some(({ type }) => type === 'usage.recorded')).toBe(false);
    }
  });
});

describe('the list of files', () => {
  const fill = (count: number) => {
    for (let at = 0; at < count; at++) {
      const store = at % 3 === 0 ? stores.groq : stores.openai;
      const id = `file-${String(at).padStart(4, '0')}`;
      store.files.set(id, { id, object: 'file', created_at: 5000 + at, purpose: at % 2 === 0 ? 'batch' : 'vision' });
    }
  };

  it('merges all providers, newest first, with the provider in each entry', async () => {
    fill(30);
    const list = await json(await get('/v1/files?limit=5'));
    expect(list).toMatchObject({ object: 'list', has_more: true, first_id: 'file-0029', last_id: 'file-0025' });
    expect(list.data.map(({ id, provider }: { id: string; provider: string }) => [id, provider])).toEqual([
      ['file-0029', 'openai'],
      ['file-0028', 'openai'],
      ['file-0027', 'groq'],
      ['file-0026', 'openai'],
      ['file-0025', 'openai'],
    ]);
  });

  it.each(['', '&provider=openai'])('can be read completely, page by page%s', async (query) => {
    fill(250);
    const seen: string[] = [];
    for (let after = ''; ; ) {
      const list = await json(await get(`/v1/files?limit=40${after === '' ? '' : `&after=${after}`}${query}`));
      seen.push(...list.data.map(({ id }: { id: string }) => id));
      if (!list.has_more) break;
      after = list.last_id;
    }
    const all = [...stores.openai.files.keys(), ...(query === '' ? stores.groq.files.keys() : [])];
    expect(seen).toEqual(all.sort().reverse());
  });

  it('can be reversed and filtered', async () => {
    fill(12);
    expect(await idsIn(await get('/v1/files?order=asc&limit=2'))).toEqual(['file-0000', 'file-0001']);
    expect(await idsIn(await get('/v1/files?provider=groq'))).toEqual([
      'file-0009',
      'file-0006',
      'file-0003',
      'file-0000',
    ]);
    expect(await idsIn(await get('/v1/files?purpose=vision&limit=2'))).toEqual(['file-0011', 'file-0009']);
    expect(await json(await get('/v1/files?purpose=none'))).toEqual({
      object: 'list',
      data: [],
      has_more: false,
      first_id: null,
      last_id: null,
    });
  });

  it('shows each caller its own files', async () => {
    fill(150);
    const ids: string[] = [];
    for (const init of [ann, bob, ann]) ids.push((await json(await upload({ provider: 'openai' }, init))).id);
    const [first, , third] = ids;
    expect(await idsIn(await get('/v1/files', ann))).toEqual([first, third].sort().reverse());
    expect(await idsIn(await get('/v1/files?limit=1', bob))).toEqual([ids[1]]);
    expect((await idsIn(await get('/v1/files', team))).sort()).toEqual([...ids].sort());
    expect(await idsIn(await get('/v1/files', { headers: { 'x-gateway-user-path': '/else' } }))).toEqual([]);
  });

  it('refuses invalid parameters', async () => {
    for (const [query, param] of [
      ['limit=0', 'limit'],
      ['limit=101', 'limit'],
      ['limit=x', 'limit'],
      ['order=up', 'order'],
      ['provider=nobody', 'provider'],
    ] as const) {
      expect(await errorOf(await get(`/v1/files?${query}`), 400)).toMatchObject({ param });
    }
    expect((await errorOf(await get('/v1/files?after=file-nowhere'), 404)).message).toContain('file-nowhere');
    await errorOf(await get('/v1/files?provider=deepseek'), 501);
    openai.script((_request, response) => response.writeHead(404).end('{"error":{"message":"No such File object"}}'));
    await errorOf(await get('/v1/files?provider=openai&after=file-nowhere'), 404);
  });

  it('fails when a provider that has files cannot list them', async () => {
    groq.script((_request, response) => response.writeHead(503).end());
    expect(await errorOf(await get('/v1/files'), 503)).toMatchObject({ provider: 'groq' });
    expect((await get('/v1/files?provider=openai')).status).toBe(200);
  });

  it('ends when a provider repeats its pages', async () => {
    groq.script((_request, response) => {
      const data = [{ id: 'file-again', created_at: 1 }];
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ data, has_more: true }));
    });
    expect(await idsIn(await get('/v1/files'))).toEqual(['file-again']);
  });
});
