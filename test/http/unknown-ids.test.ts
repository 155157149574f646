/** Unknown ids of stored objects, while some providers fail: a 404, whatever those providers answer. */
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { type ScriptedProvider, startScriptedProvider } from '../support/scripted-provider.ts';
import { dataOf, errorOf, json, withGateway } from '../support/with-gateway.ts';

const KEY = 'sk-of-the-provider';
/** In the order in which the gateway calls them. */
const failing: ScriptedProvider[] = [];
let keeping: ScriptedProvider;
const gateway = withGateway(async () => {
  const [down, locked, last] = await Promise.all([1, 2, 3].map(startScriptedProvider));
  if (down === undefined || locked === undefined || last === undefined) throw new Error('three were started');
  failing.push(down, locked);
  keeping = last;
  return {
    simulated: false,
    env: {
      ...{ OPENAI_A_BASE_URL: down.url, OPENAI_A_API_KEY: KEY },
      ...{ OPENAI_B_BASE_URL: locked.url, OPENAI_B_API_KEY: KEY },
      ...{ OPENAI_C_BASE_URL: keeping.url, OPENAI_C_API_KEY: KEY },
      ...{ RETRY_MAX_RETRIES: '0', CIRCUIT_BREAKER_ENABLED: 'false' },
    },
  };
});
afterAll(() => Promise.all([...failing, keeping].map((provider) => provider.close())));

const REFUSED =
  '{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}';
/** The answers of `openai-c` by method and path; 404 for all others. */
let kept = new Map<string, object>();
/** The requests that providers received, without lists of models. */
let requests: string[] = [];

beforeEach(() => {
  kept = new Map();
  requests = [];
  const [down, locked] = failing;
  down?.script(({ path }, response) => {
    requests.push(path);
    response.writeHead(503, { 'content-type': 'application/json' }).end('{"error":{"message":"down"}}');
  });
  locked?.script(({ path }, response) => {
    requests.push(path);
    response.writeHead(401, { 'content-type': 'application/json' }).end(REFUSED);
  });
  keeping.script(({ method, path }, response) => {
    requests.push(path);
    const found = kept.get(`${method} ${path}`);
    response.writeHead(found === undefined ? 404 : 200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(found ?? { error: { message: 'nothing here' } }));
  });
});

const send = (method: string, path: string) => gateway.fetch(path, { method });
const onResponses = (id: string) =>
  [
    ['GET', `/v1/responses/${id}`],
    ['GET', `/v1/responses/${id}?stream=true`],
    ['GET', `/v1/responses/${id}/input_items`],
    ['POST', `/v1/responses/${id}/cancel`],
    ['DELETE', `/v1/responses/${id}`],
  ] as const;
const onObjects = [
  ['GET', '/v1/files/file-none'],
  ['GET', '/v1/files/file-none/content'],
  ['DELETE', '/v1/files/file-none'],
  ['GET', '/v1/batches/batch_none'],
  ['POST', '/v1/batches/batch_none/cancel'],
] as const;

describe('an unknown id', () => {
  it.each([...onResponses('resp_none'), ...onObjects])('is a 404 on %s %s', async (method, path) => {
    const error = await errorOf(await send(method, path), 404);
    expect(error).toMatchObject({ type: 'not_found_error' });
    expect(error).not.toHaveProperty('provider');
    expect(requests).toHaveLength(3);
  });

  it('is found at a provider after others have failed', async () => {
    kept.set('GET /v1/responses/resp_there', { id: 'resp_there', object: 'response', status: 'completed' });
    expect(await json(await send('GET', '/v1/responses/resp_there'))).toMatchObject({ id: 'resp_there' });
    kept.set('GET /v1/files/file-there', { id: 'file-there', object: 'file' });
    expect(await json(await send('GET', '/v1/files/file-there'))).toMatchObject({ provider: 'openai-c' });
  });

  it.each([...onResponses('resp_none'), ...onObjects].filter(([, path]) => !path.endsWith('/content')))(
    "at a named provider that refuses the gateway's key is a 502 that names it: %s %s",
    async (method, path) => {
      const query = `${path.includes('?') ? '&' : '?'}provider=openai-b`;
      expect(await errorOf(await send(method, path + query), 502)).toMatchObject({
        type: 'provider_error',
        code: 'provider_credentials_refused',
        provider: 'openai-b',
        message: expect.stringContaining("'openai-b' refused the gateway's credentials"),
      });
    },
  );
});

describe('a deleted id', () => {
  async function deleted(): Promise<string> {
    const id = `resp_deleted${requests.length}${Math.random().toString(16).slice(2)}`;
    kept.set('POST /v1/responses', { id, object: 'response', status: 'completed', output: [] });
    await json(await gateway.post('/v1/responses', { model: 'openai-c/scripted', input: 'hi' }));
    expect((await send('DELETE', `/v1/responses/${id}`)).status).toBe(200);
    // Some providers still return an object after its deletion.
    for (const path of [`/v1/responses/${id}`, `/v1/responses/${id}/input_items`]) kept.set(`GET ${path}`, { id });
    requests = [];
    return id;
  }

  it('of a response is a 404 everywhere, without a call to a provider', async () => {
    const id = await deleted();
    for (const [method, path] of onResponses(id)) await errorOf(await send(method, path), 404);
    for (const [method, path] of onResponses(id)) {
      await errorOf(await send(method, `${path}${path.includes('?') ? '&' : '?'}provider=openai-c`), 404);
    }
    const body = { model: 'openai-c/scripted', input: 'hi', previous_response_id: id };
    expect(await errorOf(await gateway.post('/v1/responses', body), 404)).toMatchObject({
      code: 'previous_response_not_found',
    });
    expect(requests).toEqual([]);
  });

  it('of a file is a 404, without a call to a provider', async () => {
    const made = { id: 'file-made', object: 'file', created_at: 1, purpose: 'batch' };
    kept.set('POST /v1/files', made);
    const form = new FormData();
    form.set('purpose', 'batch');
    form.set('file', new File(['{}'], 'a.jsonl'));
    const uploaded = await gateway.fetch('/v1/files?provider=openai-c', { method: 'POST', body: form });
    expect(uploaded.status, await uploaded.clone().text()).toBe(200);
    expect((await send('DELETE', '/v1/files/file-made')).status).toBe(200);
    kept.set('GET /v1/files/file-made', made);
    requests = [];
    await errorOf(await send('GET', '/v1/files/file-made'), 404);
    await errorOf(await send('GET', '/v1/files/file-made/content'), 404);
    await errorOf(await send('DELETE', '/v1/files/file-made'), 404);
    expect(requests).toEqual([]);
  });
});

it('a retrieved stream is passed on from the provider that has the response', async () => {
  keeping.script((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end('event: response.completed\ndata: {"type":"response.completed","sequence_number":0}\n\n');
  });
  const text = await (await send('GET', '/v1/responses/resp_there?stream=true')).text();
  expect(dataOf(text)).toEqual([{ type: 'response.completed', sequence_number: 0 }]);
});
