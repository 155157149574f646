/** Streams of odd providers are the same streams when they are retrieved, or requested again under a key. */
import { afterAll, describe, expect, it } from 'vitest';
import { type ScriptedProvider, startScriptedProvider } from '../support/scripted-provider.ts';
import { dataOf, eventsUntil, json, withGateway } from '../support/with-gateway.ts';

const KEY = 'sk-very-secret-key-of-the-provider';
let chat: ScriptedProvider;
let openai: ScriptedProvider;
const gateway = withGateway(async () => {
  [chat, openai] = await Promise.all([startScriptedProvider(), startScriptedProvider()]);
  return {
    simulated: false,
    env: {
      LLAMACPP_BASE_URL: chat.url,
      OPENAI_BASE_URL: openai.url,
      OPENAI_API_KEY: KEY,
      RETRY_MAX_RETRIES: '0',
      CIRCUIT_BREAKER_ENABLED: 'false',
    },
  };
});
afterAll(() => Promise.all([chat.close(), openai.close()]));

let made = 0;
const newId = () => `resp_odd${++made}`;

/** A native stream of one text; `end` is everything from its terminal event on. */
function nativeStream(id: string, end: (response: object) => string): string {
  const response = { id, object: 'response', created_at: 1, status: 'in_progress', model: 'scripted', output: [] };
  const event = (type: string, sequence_number: number, members: object) =>
    `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number, ...members })}\n\n`;
  return event('response.created', 0, { response }) + event('response.in_progress', 1, { response }) + end(response);
}

const terminal = (type: string, members: object) => (response: object) =>
  `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: 2, response: { ...response, ...members } })}\n\n`;
const completed = terminal('response.completed', { status: 'completed' });

function streams(provider: ScriptedProvider, body: string): void {
  provider.script(({ path }, response) => {
    if (provider === chat && path === '/v1/responses') response.writeHead(404).end();
    else response.writeHead(200, { 'content-type': 'text/event-stream' }).end(body);
  });
}

const chunk = (delta: object, finish_reason: string | null = null) =>
  `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'scripted', choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
const hello = chunk({ role: 'assistant', content: 'hello' });
const stop = chunk({}, 'stop');
const failure = `data: ${JSON.stringify({ error: { message: `no luck with ${KEY}`, type: 'server_error', param: 'seed', code: 'unlucky' } })}\n\n`;

async function create(model: string, headers: Record<string, string> = {}): Promise<string> {
  const answer = await gateway.post('/v1/responses', { model, input: 'hi', stream: true }, { headers });
  expect(answer.status).toBe(200);
  return answer.text();
}

async function retrieved(id: string): Promise<string> {
  const answer = await gateway.fetch(`/v1/responses/${id}?stream=true`);
  expect(answer.status).toBe(200);
  return answer.text();
}

describe('a stream of a native provider', () => {
  it.each<[string, (response: object) => string]>([
    ['has no [DONE]', completed],
    ['has a [DONE]', (response) => `${completed(response)}data: [DONE]\n\n`],
    ['forgets the blank line behind its last event', (response) => completed(response).trimEnd()],
    ['reports an error that names a parameter', () => failure],
    ['just stops', () => ''],
    ['fails', terminal('response.failed', { status: 'failed', error: { code: 'x', message: 'out of luck' } })],
    [
      'reports an error in an event, and then fails',
      (response) =>
        `event: error\ndata: ${JSON.stringify({ type: 'error', sequence_number: 2, code: 'x', message: `no ${KEY}` })}\n\n${terminal('response.failed', { status: 'failed' })(response)}`,
    ],
  ])('that %s is returned again byte for byte', async (_what, end) => {
    const id = newId();
    streams(openai, nativeStream(id, end));
    const sent = await create('openai/scripted');
    expect(dataOf(sent).length).toBeGreaterThan(2);
    expect(sent).not.toContain(KEY);
    expect(await retrieved(id)).toBe(sent);
  });

  it('whose failure contains the key of its provider shows it neither to the client nor in the log', async () => {
    const id = newId();
    const error = { code: 'invalid_api_key', message: `Incorrect API key provided: ${KEY}.` };
    streams(openai, nativeStream(id, terminal('response.failed', { status: 'failed', error })));
    const sent = await create('openai/scripted');
    expect(sent).not.toContain(KEY);
    expect(dataOf(sent).at(-1)).toMatchObject({ type: 'response.failed', response: { error: { code: error.code } } });
    expect(await retrieved(id)).toBe(sent);
    expect(JSON.stringify(await json(await gateway.fetch(`/v1/responses/${id}`)))).not.toContain(KEY);
    const events = await eventsUntil(gateway, `stream=response-${id}`, () => true);
    expect(JSON.stringify(events)).not.toContain(KEY);
  });
});

it('a translated stream with an event that is larger than a provider may send is returned again byte for byte', async () => {
  const part = chunk({ content: 'x'.repeat(6 * 2 ** 20) });
  streams(chat, `${part}${part}${part}${stop}data: [DONE]\n\n`);
  const sent = await create('llamacpp/scripted');
  const id = /"id":"(resp_[^"]+)"/.exec(sent)?.[1] ?? '';
  const again = await retrieved(id);
  expect(again.length).toBe(sent.length);
  expect(again === sent).toBe(true);
});

it.each([
  ['in one piece', {}],
  ['in the background', { background: true }],
])('a failed response made %s does not contain the key of its provider', async (_how, how) => {
  const id = newId();
  const error = { code: 'invalid_api_key', message: `Incorrect API key provided: ${KEY}.` };
  openai.script(({ method }, response) => {
    const status = 'background' in how && method === 'POST' ? 'queued' : 'failed';
    const body = { id, object: 'response', status, output: [], ...how, ...(status === 'failed' ? { error } : {}) };
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  });
  const made = await json(await gateway.post('/v1/responses', { model: 'openai/scripted', input: 'hi', ...how }));
  const failed = await json(await gateway.fetch(`/v1/responses/${id}`));
  expect(failed).toMatchObject({ id, status: 'failed', error: { code: error.code } });
  const events = await eventsUntil(gateway, `stream=response-${id}`, ({ data }) => data.status === 'failed');
  expect(JSON.stringify([made, failed, events])).not.toContain(KEY);
});

it('a response id that a provider returns to two callers stays with the first', async () => {
  const id = newId();
  const failures = async () => {
    const metrics = await (await gateway.fetch('/metrics')).text();
    return Number(
      /^gateway_response_snapshot_store_failures_total\{[^}]*openai[^}]*\} (\d+)$/m.exec(metrics)?.[1] ?? 0,
    );
  };
  const before = await failures();
  const requestBody = { model: 'openai/scripted', input: 'hi', stream: true };
  for (const [path, text] of [
    ['/a', 'first'],
    ['/b', 'second'],
  ]) {
    streams(openai, nativeStream(id, terminal('response.completed', { status: 'completed', metadata: { text } })));
    const headers = { 'x-gateway-user-path': String(path) };
    expect(await (await gateway.post('/v1/responses', requestBody, { headers })).text()).toContain(text);
  }
  const get = (path: string) => gateway.fetch(`/v1/responses/${id}`, { headers: { 'x-gateway-user-path': path } });
  expect(await json(await get('/a'))).toMatchObject({ metadata: { text: 'first' } });
  expect((await get('/b')).status).toBe(404);
  expect(await failures()).toBe(before + 1);
});

describe('a translated stream', () => {
  it.each([
    ['forgets the blank line behind its last event', `${hello}${stop}data: [DONE]`],
    ['has no [DONE], and no blank line at its end', (hello + stop).trimEnd()],
    ['has no [DONE]', hello + stop],
    ['reports an error that names a parameter', hello + failure],
    ['just stops', hello],
  ])('and %s is returned again byte for byte', async (_what, body) => {
    streams(chat, body);
    const sent = await create('llamacpp/scripted');
    expect(sent).not.toContain(KEY);
    const { id } = dataOf(sent)[0].response;
    expect(await retrieved(id)).toBe(sent);
  });
});

describe('an answer under a key', () => {
  it.each([
    ['forgets the blank line behind its last event', `${hello}${stop}data: [DONE]`],
    ['has no [DONE], and no blank line at its end', (hello + stop).trimEnd()],
    ['has comments between its events', `: a\n\n${hello}: b\n\n${stop}data: [DONE]\n\n`],
  ])('whose provider %s is returned again byte for byte', async (_what, body) => {
    streams(chat, body);
    for (const [path, requestBody] of [
      ['/v1/chat/completions', { messages: [{ role: 'user', content: 'hi' }] }],
      ['/v1/responses', { input: 'hi' }],
    ] as const) {
      const headers = { 'idempotency-key': `odd-${++made}` };
      const twice = await Promise.all(
        [1, 2].map(() => gateway.post(path, { model: 'llamacpp/scripted', stream: true, ...requestBody }, { headers })),
      );
      const [one, other] = await Promise.all(twice.map((answer) => answer.text()));
      expect(other).toBe(one);
    }
  });
});
