import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { families } from '../../src/events/catalogue/catalogue.ts';
import { type RecordedEvent, streamName } from '../../src/events/event.ts';
import type { EventLog } from '../../src/events/log.ts';
import { openLog } from '../../src/events/open-log.ts';
import { MASTER_KEY, startTestGateway, type TestGateway } from '../support/gateway.ts';
import { exchangeOf, modelsListed } from '../support/with-gateway.ts';

const PROVIDER_KEY = 'sk-provider-secret-8d1f0c7e55aa';
const secrets = {
  'the master key': MASTER_KEY,
  "the provider's API key": PROVIDER_KEY,
  'a cookie': 'cookie-secret-51c2',
  'an x-api-key': 'header-secret-77f1',
  'a key in the query': 'query-secret-e0b9',
  "a proxy's token": 'proxied-secret-90ac',
  'a wrong bearer token': 'wrong-secret-1234',
  "a provider's cookie": 'set-cookie-secret-aa',
  'a password in a base URL': 'url-secret-0451',
};

interface Said {
  readonly exchange: string;
  readonly status: number;
  readonly text: string;
}

/** A gateway that served some requests and stopped, and its log. */
interface Afterwards {
  readonly said: Readonly<Record<string, Said>>;
  readonly log: EventLog;
  readonly dataDir: string;
}

async function afterwards(
  env: Record<string, string>,
  ask: (gateway: TestGateway, send: Send) => Promise<void>,
): Promise<Afterwards> {
  const dataDir = mkdtempSync(join(tmpdir(), 'chancery-recorded-'));
  const gateway = await startTestGateway({
    dataDir,
    simulated: { responses: 'absent', apiKey: PROVIDER_KEY },
    register: (url) => ({
      LLAMACPP_BASE_URL: url,
      LLAMACPP_URL_BASE_URL: url.replace('http://', `http://someone:${secrets['a password in a base URL']}@`),
      LLAMACPP_API_KEY: PROVIDER_KEY,
    }),
    env: { RETRY_MAX_RETRIES: '1', RETRY_INITIAL_BACKOFF: '1ms', ...env },
  });
  await modelsListed(gateway);
  const said: Record<string, Said> = {};
  await ask(gateway, async (name, path, body, init = {}) => {
    const answer = await gateway.fetch(path, { method: 'POST', body, ...init });
    const text = await answer.text();
    said[name] = { exchange: exchangeOf(answer), status: answer.status, text };
    return text;
  });
  await gateway.close();
  return { said, log: await openLog(`file:${join(dataDir, 'log')}`), dataDir };
}

type Send = (name: string, path: string, body?: string, init?: RequestInit) => Promise<string>;

async function recorded({ said, log }: Afterwards, name: string): Promise<RecordedEvent[]> {
  const events = [];
  for await (const event of log.readStream(streamName('exchange', said[name]?.exchange ?? ''))) events.push(event);
  return events;
}

const types = (events: readonly RecordedEvent[]) => events.map(({ type }) => type);
const bodyOf = (event: RecordedEvent | undefined) => Buffer.from(event?.body ?? []).toString();

/** Every file below the folder, with its bytes. */
function filesBelow(folder: string): [string, Buffer][] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .map((file) => [file, readFileSync(file)]);
}

/** Everything that can be read from the log, as text. */
async function everythingIn(log: EventLog): Promise<string> {
  const parts: string[] = [];
  for await (const { body, data, context } of log.readAll()) {
    parts.push(JSON.stringify({ data, context }), Buffer.from(body ?? []).toString('latin1'));
  }
  return parts.join('\n');
}

async function end({ log, dataDir }: Afterwards): Promise<void> {
  await log.close();
  rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
}

const chat = `{ "model":"llamacpp/simulated-small", "x":9007199254740993123,"messages":[{"role":"user","content":"PROMPT-MARK: reply with exactly: ANSWER-MARK"}] }`;
const adding = (body: string, more: string) => `${body.trimEnd().slice(0, -1)},${more}}`;
const response = `{"model":"llamacpp/simulated-small","input":"PROMPT-MARK: reply with exactly: ANSWER-MARK"}`;

describe('the record', () => {
  let after: Afterwards;
  beforeAll(async () => {
    after = await afterwards({}, async (gateway, send) => {
      const { control } = gateway.simulated;
      const headers = {
        cookie: `session=${secrets['a cookie']}`,
        'x-api-key': secrets['an x-api-key'],
        'x-gateway-user-path': '/team/ann',
        'x-request-id': 'the-json-one',
        'x-custom': 'kept',
        'cf-access-jwt-assertion': secrets["a proxy's token"],
        traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
      };
      await send('json', '/v1/chat/completions', chat, { headers });
      await send('stream', '/v1/chat/completions', adding(chat, '"stream":true'));
      await send('probed', '/v1/responses', response);
      await send('response', '/v1/responses', adding(response, '"stream":true'));
      await send('unstored', '/v1/responses', adding(response, '"store":false'));
      await send('refused', '/v1/chat/completions', '{"model":"nobody/x","messages":[{"role":"user","content":"hi"}]}');
      await send('malformed', '/v1/chat/completions', '{"model":');
      control.next({ status: 503 });
      await send('retried', '/v1/chat/completions', chat);
      const leak = `Incorrect API key provided: ${PROVIDER_KEY}. Bearer ${PROVIDER_KEY}`;
      control.always({ status: 401, message: leak });
      await send('leaking', '/v1/chat/completions', chat);
      await send('leaking passthrough', '/p/llamacpp/chat/completions', chat);
      control.clear();
      control.next({ errorInStream: 3, message: leak });
      await send('leaking stream', '/v1/chat/completions', adding(chat, '"stream":true'));
      control.next({ headers: { 'set-cookie': `a=${secrets["a provider's cookie"]}` } });
      const query = `?api_key=${secrets['a key in the query']}&token=${secrets['a key in the query']}&X-Amz-Signature=${secrets['a key in the query']}`;
      await send('passthrough', `/p/llamacpp/chat/completions${query}`, chat);
      await fetch(`${gateway.url}/v1/models`, {
        headers: { authorization: `Bearer ${secrets['a wrong bearer token']}` },
      });
    });
  });
  afterAll(() => end(after));

  it('of a chat completion has the request and the answer, byte for byte', async () => {
    const events = await recorded(after, 'json');
    expect(types(events)).toEqual([
      'request.received',
      'model.resolved',
      'attempt.started',
      'chunk.received',
      'exchange.completed',
      'usage.recorded',
    ]);
    expect(bodyOf(events[0])).toBe(chat);
    expect(bodyOf(events[3])).toBe(after.said['json']?.text);
    expect(events[0]?.data).toMatchObject({
      dialect: 'chat',
      method: 'POST',
      path: '/v1/chat/completions',
      model: 'llamacpp/simulated-small',
      stream: false,
      authMethod: 'master_key',
      capture: 'full',
      clientIp: '127.0.0.1',
      headers: { authorization: '[REDACTED]', 'x-api-key': '[REDACTED]', cookie: '[REDACTED]', 'x-custom': 'kept' },
    });
    expect(events[4]?.data).toMatchObject({
      status: 200,
      attempt: 1,
      finishReason: 'stop',
      chunks: 1,
      bytes: events[3]?.body?.length,
    });
    for (const { context } of events) {
      expect(context).toMatchObject({
        actor: 'master',
        userPath: '/team/ann',
        requestId: 'the-json-one',
        traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
      });
    }
  });

  it('of a stream has every event, byte for byte, and the usage that only the gateway requested', async () => {
    const events = await recorded(after, 'stream');
    const chunks = events.filter(({ type }) => type === 'chunk.received');
    expect(types(events)).toEqual([
      'request.received',
      'model.resolved',
      'attempt.started',
      ...chunks.map(() => 'chunk.received'),
      'exchange.completed',
      'usage.recorded',
    ]);
    expect(chunks.map(({ data }) => (data as { index: number }).index)).toEqual(chunks.map((_, index) => index));
    const [usage] = chunks.splice(-2, 1);
    expect(bodyOf(usage)).toContain('"choices":[],"usage":{"prompt_tokens"');
    expect(chunks.map(bodyOf).join('')).toBe(after.said['stream']?.text);
  });

  it("of a translated stream has the provider's chunks and the resulting response", async () => {
    const events = await recorded(after, 'response');
    const chunks = events.filter(({ type }) => type === 'chunk.received');
    expect(types(events)).toEqual([
      'request.received',
      'model.resolved',
      'attempt.started',
      ...chunks.map(() => 'chunk.received'),
      'exchange.completed',
      'usage.recorded',
    ]);
    for (const chunk of chunks)
      expect(bodyOf(chunk)).toMatch(/^data: (\{.*"object":"chat.completion.chunk".*\}|\[DONE\])\n\n$/);
    const received = (after.said['response']?.text ?? '').split('\n').filter((line) => line.startsWith('data: {'));
    const final = JSON.parse(received.at(-1)?.slice('data: '.length) ?? '').response;
    const stored = [];
    for await (const event of after.log.readStream(streamName('response', final.id))) stored.push(event);
    expect(types(stored)).toEqual(['response.stored']);
    const kept = JSON.parse(bodyOf(stored[0]));
    expect(kept.response).toEqual(final);
    expect(kept.input_items).toMatchObject([{ type: 'message', role: 'user' }]);
    expect(stored[0]?.data).toMatchObject({
      status: 'completed',
      native: false,
      exchangeId: after.said['response']?.exchange,
    });
    expect(events.at(-2)?.data).toMatchObject({ responseId: final.id });
  });

  it('of a translated answer that is not to be stored has the answer itself', async () => {
    const events = await recorded(after, 'unstored');
    expect(bodyOf(events.find(({ type }) => type === 'exchange.completed'))).toBe(after.said['unstored']?.text);
    const { id } = JSON.parse(after.said['unstored']?.text ?? '');
    const first = await after.log.readStream(streamName('response', id))[Symbol.asyncIterator]().next();
    expect(first.done).toBe(true);
  });

  it('of a server without /v1/responses has the probe', async () => {
    expect(types(await recorded(after, 'probed'))).toEqual([
      'request.received',
      'model.resolved',
      'attempt.started',
      'attempt.failed',
      'attempt.started',
      'chunk.received',
      'exchange.completed',
      'usage.recorded',
    ]);
    const learned = [];
    for await (const event of after.log.readStream(streamName('provider', 'llamacpp'))) learned.push(event);
    expect(learned.find(({ type }) => type === 'provider.capability_learned')?.data).toEqual({
      capability: 'responses',
      supported: false,
    });
  });

  it('of a request that was refused has the request and the refusal', async () => {
    for (const [name, code] of [
      ['refused', 'model_not_found'],
      ['malformed', 'invalid_json'],
    ] as const) {
      const events = await recorded(after, name);
      expect(types(events)).toEqual(['request.received', 'request.refused']);
      expect(events[1]?.data).toMatchObject({ code, status: after.said[name]?.status });
    }
    expect(bodyOf((await recorded(after, 'malformed'))[0])).toBe('{"model":');
  });

  it('of a request that was retried has every attempt', async () => {
    const events = await recorded(after, 'retried');
    expect(types(events)).toEqual([
      'request.received',
      'model.resolved',
      'attempt.started',
      'attempt.failed',
      'attempt.started',
      'chunk.received',
      'exchange.completed',
      'usage.recorded',
    ]);
    expect(bodyOf(events[3])).toContain('simulated error 503');
  });

  it('of a request that failed has the failure, in the words that the client received', async () => {
    const events = await recorded(after, 'leaking');
    expect(types(events).slice(-2)).toEqual(['attempt.failed', 'exchange.failed']);
    const { error } = JSON.parse(after.said['leaking']?.text ?? '');
    expect(events.at(-1)?.data).toMatchObject({ status: 502, message: error.message, reason: 'provider_error' });
  });

  it('consists of events in the catalogue, each of its declared shape', async () => {
    const shapes = new Map(
      Object.values(families)
        .flatMap((family) => Object.values(family))
        .filter((member) => typeof member === 'object' && 'data' in member)
        .map((definition) => [definition.type as string, definition.data]),
    );
    let count = 0;
    for await (const { type, data } of after.log.readAll()) {
      count += 1;
      const shape = shapes.get(type);
      expect(shape, type).toBeDefined();
      expect(shape?.strict().safeParse(data), `${type} ${JSON.stringify(data)}`).toMatchObject({ success: true });
    }
    expect(count).toBeGreaterThan(50);
  });

  it.each(Object.entries(secrets))('never contains %s, in no byte of any file', async (_what, secret) => {
    const files = filesBelow(after.dataDir);
    expect(files.length).toBeGreaterThan(1);
    for (const [file, bytes] of files) expect(bytes.includes(secret) ? file : undefined).toBeUndefined();
    expect(await everythingIn(after.log)).not.toContain(secret);
  });
});

describe('the record without bodies (LOGGING_LOG_BODIES=false)', () => {
  let after: Afterwards;
  beforeAll(async () => {
    after = await afterwards({ LOGGING_LOG_BODIES: 'false' }, async ({ simulated }, send) => {
      await send('json', '/v1/chat/completions', chat);
      await send('stream', '/v1/chat/completions', adding(chat, '"stream":true'));
      await send('response', '/v1/responses', adding(response, '"store":false'));
      await send('response stream', '/v1/responses', adding(response, '"stream":true,"store":false'));
      await send('passthrough', '/p/llamacpp/chat/completions', chat);
      await send('upload', '/p/llamacpp/chat/completions', adding(chat, `"padding":"${'PROMPT-MARK'.repeat(10_000)}"`));
      simulated.control.always({ status: 400, body: 'text', message: `ANSWER-MARK ${'x'.repeat(5000)}` });
      await send('failed', '/v1/chat/completions', chat);
      await send('failed passthrough', '/p/llamacpp/chat/completions', chat);
    });
  });
  afterAll(() => end(after));

  it('has all that happened', async () => {
    for (const name of ['json', 'stream', 'response', 'response stream']) {
      const events = await recorded(after, name);
      expect(events[0]?.data).toMatchObject({ capture: 'metadata', model: 'llamacpp/simulated-small' });
      expect(types(events)).toContain('chunk.received');
      expect(types(events).slice(-2)).toEqual(['exchange.completed', 'usage.recorded']);
      expect(events.at(-1)?.data).toMatchObject({ source: 'provider', outputTokens: expect.any(Number) });
    }
  });

  it('has no text of requests and answers', async () => {
    for (const name of Object.keys(after.said)) {
      for (const event of await recorded(after, name))
        expect([name, event.type, bodyOf(event)]).toEqual([name, event.type, '']);
    }
    expect(after.said['json']?.text).toContain('ANSWER-MARK');
    for (const [file, bytes] of filesBelow(after.dataDir)) {
      expect(bytes.includes('PROMPT-MARK') ? file : undefined).toBeUndefined();
    }
  });

  it('still has a response when the client wants it stored', async () => {
    const other = await afterwards({ LOGGING_LOG_BODIES: 'false' }, async (gateway, send) => {
      const { id } = JSON.parse(await send('kept', '/v1/responses', response));
      expect((await gateway.fetch(`/v1/responses/${id}`)).status).toBe(200);
    });
    await end(other);
  });
});
