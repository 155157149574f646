/** Realtime sessions: what passes, what is recorded and charged, and how they end. */
import { once } from 'node:events';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { startTestGateway } from '../support/gateway.ts';
import { guard, saveGuardrail, withGuardrails } from '../support/guarded.ts';
import { newKey, put, setPolicy } from '../support/managed-keys.ts';
import {
  AUDIO,
  type ProviderSession,
  type RealtimeProvider,
  startRealtimeProvider,
} from '../support/realtime-provider.ts';
import { openSocket, refusedSocket } from '../support/response-socket.ts';
import { eventsUntil, type LoggedEvent, withGateway } from '../support/with-gateway.ts';

let provider: RealtimeProvider;
let other: RealtimeProvider;
const providers = () => ({
  ...{ OPENAI_BASE_URL: provider.url, OPENAI_API_KEY: 'sk-of-the-provider' },
  ...{ XAI_BASE_URL: other.url, XAI_API_KEY: 'xai-of-the-provider' },
});
const gateway = withGateway(async () => {
  provider = await startRealtimeProvider();
  other = await startRealtimeProvider(['grok-voice']);
  return { env: { ...providers(), RETRY_MAX_RETRIES: '0', CIRCUIT_BREAKER_ENABLED: 'false' } };
});
afterEach(() => {
  provider.endsResponses = true;
  provider.refuse(undefined);
  other.refuse(undefined);
});
afterAll(async () => {
  await provider.close();
  await other.close();
});

const MODEL = 'openai/gpt-realtime';
const at = (model: string) => ({ path: `/v1/realtime?model=${encodeURIComponent(model)}` });
const ofType = (type: string) => (message: { type: string }) => message.type === type;

/** A session whose provider is connected. */
async function session(key?: string, model = MODEL, on: { url: string } = gateway, by = provider, headers = {}) {
  const opening = by.next();
  const client = await openSocket(on.url, key, { ...at(model), headers });
  expect(await client.until(() => true)).toMatchObject({ type: 'session.created' });
  const upstream: ProviderSession = await opening;
  return { client, upstream };
}

async function keyAt(path: string) {
  const key = await newKey(gateway, { user_path: path });
  /** The events of the exchange of the key, up to its end. */
  const events = async (isLast: (event: LoggedEvent) => boolean = ({ type }) => ENDS.has(type)) => {
    const found = await eventsUntil(gateway, `user_path=${path}`, (event) => event.userPath === path && isLast(event));
    return found.filter(({ userPath, stream }) => userPath === path && stream.startsWith('exchange-'));
  };
  return { ...key, events };
}

const ENDS = new Set(['exchange.completed', 'exchange.failed', 'client.disconnected', 'request.refused']);
const types = (events: readonly LoggedEvent[]) => events.map(({ type }) => type);

describe('a session', () => {
  it('passes messages in both directions and records them in order, with the usage of each response', async () => {
    const key = await keyAt('/realtime/passing');
    const { client, upstream } = await session(key.value);
    expect(upstream.path).toBe('/v1/realtime?model=gpt-realtime');
    expect(upstream.headers.authorization).toBe('Bearer sk-of-the-provider');
    client.send({ type: 'input_audio_buffer.append', audio: AUDIO });
    client.send({ type: 'response.create' });
    expect((await client.until(ofType('response.output_audio.delta'))).delta).toBe(AUDIO);
    const done = await client.until(ofType('response.done'));
    expect(done.response.usage).toMatchObject({ total_tokens: 150 });
    client.send({ type: 'response.create' });
    await client.until(ofType('response.done'));
    expect(upstream.received.map(({ type }) => type)).toEqual([
      ...['input_audio_buffer.append', 'response.create', 'response.create'],
    ]);
    client.socket.close(1000);
    expect((await upstream.closed)[0]).toBe(1000);
    const events = await key.events();
    expect(types(events).slice(0, 3)).toEqual(['request.received', 'model.resolved', 'attempt.started']);
    expect(events[0]).toMatchObject({ data: { dialect: 'realtime', model: MODEL, stream: true } });
    const spent = events.filter(ofType('usage.recorded'));
    expect(spent).toHaveLength(2);
    expect(spent[0]?.data).toMatchObject({
      ...{ model: 'gpt-realtime', endpoint: '/v1/realtime', providerId: 'resp_1', inputTokens: 100, outputTokens: 50 },
      ...{ audioInputTokens: 60, audioOutputTokens: 40, source: 'provider' },
    });
    // Each usage follows the message that reported it.
    const places = spent.map((event) => events.indexOf(event));
    for (const place of places) expect(events[place - 1]?.type).toBe('chunk.received');
    expect(events.filter(ofType('request.body_received')).map(({ data }) => data.index)).toEqual([0, 1, 2]);
    expect(events.filter(ofType('chunk.received'))).toHaveLength(11);
    expect(events.at(-1)).toMatchObject({ type: 'exchange.completed', data: { status: 200, chunks: 11 } });
    expect(JSON.stringify(events)).not.toContain(key.value);
  });

  it('keeps the messages as they were, or without their audio', async () => {
    const silent = await startTestGateway({ env: { ...providers(), REALTIME_RECORD_AUDIO: 'false' } });
    try {
      for (const [on, isKept] of [
        [gateway, true],
        [silent, false],
      ] as const) {
        const path = '/realtime/kept';
        const headers = { 'x-gateway-user-path': path };
        const { client, upstream } = await session(undefined, MODEL, on, provider, headers);
        client.send({ type: 'input_audio_buffer.append', audio: AUDIO });
        client.send({ type: 'response.create' });
        await client.until(ofType('response.done'));
        expect(upstream.received[0].audio).toBe(AUDIO);
        client.socket.close(1000);
        const ends = await eventsUntil(on, 'types=exchange.completed', ({ userPath }) => userPath === path);
        const id = ends.at(-1)?.stream.slice('exchange-'.length);
        const answer = await on.fetch(`/admin/audit/events?log_id=${id}&limit=100`);
        const text = await answer.text();
        expect(answer.status, text).toBe(200);
        expect(text.includes(AUDIO.slice(0, 100))).toBe(isKept);
        expect(text.includes('[4800 bytes left out]')).toBe(!isKept);
        const detail = await on.fetch(`/admin/audit/detail?log_id=${id}`);
        expect(await detail.json()).toMatchObject({ outcome: 'completed', usage: { entries: 1, total_tokens: 150 } });
      }
    } finally {
      await silent.close();
    }
  });

  it('is authenticated by a subprotocol, which is not recorded', async () => {
    const key = await keyAt('/realtime/browser');
    const opening = provider.next();
    const protocols = ['realtime', `openai-insecure-api-key.${key.value}`, 'openai-beta.realtime-v1'];
    const client = await openSocket(gateway.url, '', { ...at(MODEL), protocols });
    expect(client.socket.protocol).toBe('realtime');
    const upstream = await opening;
    expect(upstream.headers['openai-beta']).toBe('realtime=v1');
    expect(upstream.headers['sec-websocket-protocol']).toBeUndefined();
    client.socket.close(1000);
    expect(JSON.stringify(await key.events())).not.toContain(key.value);
  });

  it('names the model for its provider in a change of the session', async () => {
    const { client, upstream } = await session();
    client.send({ type: 'session.update', session: { type: 'realtime', model: MODEL, instructions: 'Be brief.' } });
    expect(await upstream.until(ofType('session.update'))).toEqual({
      ...{ type: 'session.update', session: { type: 'realtime', model: 'gpt-realtime', instructions: 'Be brief.' } },
    });
    client.socket.close(1000);
  });

  it('chooses the target of a virtual model when it begins, the next one when the first refuses', async () => {
    const targets = [
      { provider: 'openai', model: 'gpt-realtime' },
      { provider: 'xai', model: 'grok-voice' },
    ];
    const saved = await gateway.fetch('/admin/virtual-models', put({ source: 'voice', targets, strategy: 'failover' }));
    expect(saved.status, await saved.text()).toBeLessThan(300);
    for (const [status, message] of [
      [503, 'overloaded'],
      [404, 'no such route'],
    ] as const) {
      provider.refuse({ status, body: { error: { message } } });
      const { client, upstream } = await session(undefined, 'voice', gateway, other);
      expect(upstream.path).toBe('/v1/realtime?model=grok-voice');
      client.socket.close(1000);
    }
  });

  it.each([
    ['an unknown model', 'openai/none', 'model_not_found'],
    ['a provider without sessions', 'llamacpp/simulated-small', 'unsupported_operation'],
  ])('is refused with an error for %s', async (_what, model, code) => {
    const client = await openSocket(gateway.url, undefined, at(model));
    expect(await client.until(ofType('error'))).toMatchObject({ error: { code, message: expect.any(String) } });
    expect((await client.closed)[1]).toBe(code);
  });

  it('is refused without a model, without a key, and without an upgrade', async () => {
    const client = await openSocket(gateway.url, undefined, { path: '/v1/realtime' });
    expect(await client.until(ofType('error'))).toMatchObject({
      ...{ error: { code: 'missing_required_parameter', param: 'model' } },
    });
    expect((await refusedSocket(gateway.url, {}, '/v1/realtime')).status).toBe(401);
    expect((await gateway.fetch('/v1/realtime')).status).toBe(426);
  });

  it("gets the provider's refusal, without its credentials", async () => {
    provider.refuse({ status: 401, body: { error: { message: 'Incorrect API key provided: sk-of-the-provider' } } });
    const client = await openSocket(gateway.url, undefined, at(MODEL));
    const { error } = await client.until(ofType('error'));
    expect(error).toMatchObject({ code: 'provider_credentials_refused', provider: 'openai' });
    expect(error.message).not.toContain('sk-of-the-provider');
    expect((await client.closed)[0]).toBe(1011);
  });
});

describe('the end of a session', () => {
  it("passes a provider's own end on, and turns a broken one into an error", async () => {
    const first = await session();
    first.upstream.socket.close(4000, 'session_expired');
    expect(await first.client.closed).toEqual([4000, 'session_expired']);
    const key = await keyAt('/realtime/broken');
    const second = await session(key.value);
    second.upstream.socket.terminate();
    expect(await second.client.until(ofType('error'))).toMatchObject({ error: { code: 'session_interrupted' } });
    expect((await second.client.closed)[0]).toBe(1011);
    expect((await key.events()).at(-1)).toMatchObject({
      ...{ type: 'exchange.failed', data: { reason: 'stream_broken', code: 'session_interrupted' } },
    });
  });

  it('charges an estimate of a response that had not ended when the client left', async () => {
    const key = await keyAt('/realtime/leaving');
    const { client, upstream } = await session(key.value);
    provider.endsResponses = false;
    client.send({ type: 'response.create' });
    await client.until(ofType('response.output_audio.delta'));
    client.socket.terminate();
    await upstream.closed;
    const events = await key.events(ofType('client.disconnected'));
    const spent = events.filter(ofType('usage.recorded'));
    expect(spent).toHaveLength(1);
    // Two tokens of a transcript of five bytes, and two of a tenth of a second.
    expect(spent[0]?.data).toMatchObject({ partial: true, estimated: true, estimatedOutputTokens: 4 });
  });

  it('comes when the budget has no room for another response, with what was spent on record', async () => {
    const path = '/realtime/budget';
    const key = await keyAt(path);
    const pricing = { input_per_mtok: 10_000, output_per_mtok: 10_000 };
    await gateway.fetch('/admin/model-pricing-overrides', put({ selector: MODEL, pricing }));
    // A response costs 1.5 dollars.
    const budget = `/admin/budgets/${encodeURIComponent(path)}/daily`;
    await gateway.fetch(budget, put({ amount: 13 }));
    try {
      const { client, upstream } = await session(key.value);
      let last = { type: '' };
      while (last.type !== 'error') {
        client.send({ type: 'response.create' });
        last = await client.until(({ type }) => type === 'response.done' || type === 'error');
      }
      expect(last).toMatchObject({ status: 429, error: { code: 'budget_exceeded' } });
      expect((await client.closed)[0]).toBe(1008);
      await upstream.closed;
      const events = await key.events();
      const costs = events.filter(ofType('usage.recorded')).map(({ data }) => data.totalCost);
      // With the next one it would be more than 13, or, where several gateways decide, than what they leave free of it.
      expect(costs.length).toBeGreaterThanOrEqual(7);
      expect(costs.length).toBeLessThanOrEqual(8);
      expect(new Set(costs)).toEqual(new Set(['1500000000']));
      expect(events.at(-1)).toMatchObject({ type: 'exchange.failed', data: { reason: 'budget_exceeded' } });
      await gateway.fetch(budget, put({ amount: 3 }));
      const late = await openSocket(gateway.url, key.value, at(MODEL));
      expect(await late.until(ofType('error'))).toMatchObject({ error: { code: 'budget_exceeded' } });
    } finally {
      await gateway.fetch('/admin/model-pricing-overrides', { ...put({ selector: MODEL }), method: 'DELETE' });
    }
  });

  it('charges each response that had not ended, and estimates one without usage', async () => {
    const key = await keyAt('/realtime/several');
    const { client, upstream } = await session(key.value);
    const created = (id: string) => upstream.send({ type: 'response.created', response: { id } });
    for (const id of ['r1', 'r2', 'r3']) created(id);
    const delta = 'eight by';
    for (const response_id of ['r1', 'r2', 'r3']) upstream.send({ type: 'response.text.delta', response_id, delta });
    for (let times = 0; times < 2; times++) upstream.send({ type: 'response.done', response: { id: 'r2', usage: -1 } });
    await client.until(ofType('response.done'));
    await client.until(ofType('response.done'));
    client.socket.close(1000);
    const spent = (await key.events()).filter(ofType('usage.recorded')).map(({ data }) => data);
    expect(spent).toHaveLength(3);
    for (const [at, id] of ['r2', 'r1', 'r3'].entries()) {
      expect(spent[at]).toMatchObject({ providerId: id, estimated: true, estimatedOutputTokens: 2 });
      expect(spent[at].partial === true).toBe(id !== 'r2');
    }
  });

  it('does not come with a reservation of nothing, when a response reports no usage', async () => {
    const path = '/realtime/unreported';
    const key = await keyAt(path);
    await gateway.fetch(
      '/admin/model-pricing-overrides',
      put({ selector: MODEL, pricing: { input_per_mtok: 0, output_per_mtok: 1000 } }),
    );
    await gateway.fetch(`/admin/budgets/${encodeURIComponent(path)}/daily`, put({ amount: 50 }));
    const reserved = async () => {
      const { budgets } = (await (await gateway.fetch('/admin/budgets')).json()) as {
        budgets: { user_path: string; reserved: number }[];
      };
      return budgets.find((row) => row.user_path === path)?.reserved;
    };
    try {
      const { client, upstream } = await session(key.value);
      const before = await reserved();
      expect(before).toBeGreaterThan(0);
      upstream.send({
        type: 'response.done',
        response: { id: 'nothing', usage: { input_tokens: 0, output_tokens: 0 } },
      });
      await client.until(ofType('response.done'));
      expect(await reserved()).toBe(before);
      client.socket.close(1000);
    } finally {
      await gateway.fetch('/admin/model-pricing-overrides', { ...put({ selector: MODEL }), method: 'DELETE' });
    }
  });

  it('does not come with a response over the limit, which is not begun, unless its provider begins it', async () => {
    const path = '/realtime/limited';
    const key = await keyAt(path);
    const rule = { user_path: path, limit_key: { period: 'hour' }, max_requests: 2 };
    expect((await gateway.fetch('/admin/rate-limits', put(rule))).status).toBe(200);
    const { client, upstream } = await session(key.value);
    for (let responses = 0; responses < 5; responses++) {
      client.send({ type: 'response.create', event_id: `create_${responses}` });
    }
    const answers = [];
    for (let ends = 0; ends < 5; ends++) {
      answers.push(await client.until(({ type }) => type === 'response.done' || type === 'error'));
    }
    const refused = answers.filter(ofType('error'));
    expect(refused.map(({ error }) => [error.code, error.event_id])).toEqual([
      ...['create_2', 'create_3', 'create_4'].map((id) => ['rate_limit_exceeded', id]),
    ]);
    expect(upstream.received).toHaveLength(2);
    upstream.send({ type: 'response.created', response: { id: 'by_the_provider' } });
    expect(await client.until(ofType('error'))).toMatchObject({ error: { code: 'rate_limit_exceeded' } });
    expect((await client.closed)[0]).toBe(1008);
  });

  it('comes when its key is deactivated, or may not use the model any more', async () => {
    const [off, narrowed] = [await keyAt('/realtime/off'), await keyAt('/realtime/narrowed')];
    const first = await session(off.value);
    const second = await session(narrowed.value);
    expect((await gateway.fetch(`/admin/auth-keys/${off.id}/deactivate`, { method: 'POST' })).ok).toBe(true);
    await setPolicy(gateway, '/realtime/narrowed', ['xai/grok-voice']);
    expect(await first.client.until(ofType('error'))).toMatchObject({ status: 401 });
    expect((await first.client.closed)[0]).toBe(1008);
    expect(await second.client.until(ofType('error'))).toMatchObject({ error: { code: 'model_access_denied' } });
    expect((await second.client.closed)[0]).toBe(1008);
    await first.upstream.closed;
    await second.upstream.closed;
  });

  it('does not come with a message that is refused', async () => {
    await setPolicy(gateway, '/realtime/transcribing', [MODEL]);
    const key = await keyAt('/realtime/transcribing');
    const { client, upstream } = await session(key.value);
    const transcription = { model: 'gpt-4o-transcribe' };
    client.send({ type: 'session.update', session: { type: 'realtime', audio: { input: { transcription } } } });
    expect(await client.until(ofType('error'))).toMatchObject({ error: { code: 'model_access_denied' } });
    for (const [message, code] of [
      ['{"type":"session.update","session":{},"session":{}}', 'repeated_member'],
      ['{"type":"session.update","session":{"temperature":NaN}}', 'invalid_json'],
      ['{"type":"response.create","n":-Infinity}', 'invalid_json'],
      ['\ufeff{"type":"response.create"}', 'invalid_json'],
      ['{"type":"response.create"}{"type":"response.create"}', 'invalid_json'],
      ['[{"type":"response.create"}]', 'invalid_json'],
      ['12345678901234567890', 'invalid_json'],
      [`{"type":"response.create","n":${'['.repeat(1000)}${']'.repeat(1000)}}`, 'nested_too_deeply'],
      [
        { type: 'conversation.item.create', event_id: 'mine', item: { content: [{ file_id: 'file-of-others' }] } },
        null,
      ],
    ] as const) {
      client.send(message);
      const { error } = await client.until(ofType('error'));
      expect(error).toMatchObject({ code, event_id: code === null ? 'mine' : null });
    }
    client.send({ type: 'response.create' });
    await client.until(ofType('response.done'));
    expect(upstream.received.map(({ type }) => type)).toEqual(['response.create']);
    client.socket.close(1000);
    const all = await key.events();
    expect(all.filter(ofType('request.body_received'))).toHaveLength(11);
  });

  it('comes when the model of its transcriptions is taken from the key', async () => {
    const path = '/realtime/transcribed';
    await setPolicy(gateway, path, [MODEL, 'openai/whisper-1']);
    const key = await keyAt(path);
    const { client } = await session(key.value);
    const transcription = { model: 'whisper-1' };
    client.send({ type: 'session.update', session: { type: 'realtime', audio: { input: { transcription } } } });
    await client.until(ofType('session.updated'));
    await setPolicy(gateway, path, [MODEL]);
    const { error } = await client.until(ofType('error'));
    expect(error).toMatchObject({ code: 'model_access_denied' });
    expect((await client.closed)[0]).toBe(1008);
  });

  it('comes after its time without messages and at its age, and with a stop of the gateway', async () => {
    const short = await startTestGateway({ env: { ...providers(), WEBSOCKET_IDLE_TIMEOUT: '100ms' } });
    const aged = await startTestGateway({ env: { ...providers(), WEBSOCKET_MAX_AGE: '1s', DRAIN_TIMEOUT: '20s' } });
    try {
      const idle = await session(undefined, MODEL, short);
      const old = await session(undefined, MODEL, aged);
      expect(await idle.client.until(ofType('error'))).toMatchObject({ error: { code: 'session_idle' } });
      expect((await idle.client.closed)[0]).toBe(1001);
      expect(await old.client.until(ofType('error'))).toMatchObject({
        ...{ error: { code: 'websocket_connection_limit_reached' } },
      });
      expect((await old.client.closed)[0]).toBe(1001);
    } finally {
      await short.close();
      await aged.close();
    }
    const stopping = await startTestGateway({ env: { ...providers(), DRAIN_TIMEOUT: '20s' } });
    const waiting = await session(undefined, MODEL, stopping);
    const stopped = stopping.close();
    expect(await waiting.client.until(ofType('error'))).toMatchObject({ status: 503 });
    expect((await waiting.client.closed)[0]).toBe(1012);
    await stopped;
  });

  it('comes with code 1009 for a message over the limit of bodies', async () => {
    const small = await startTestGateway({ env: { ...providers(), BODY_SIZE_LIMIT: '100K' } });
    try {
      const { client } = await session(undefined, MODEL, small);
      const own = await openSocket(small.url, undefined, { path: '/p/openai/v1/realtime?model=gpt-realtime' });
      for (const one of [client, own]) {
        one.send({ type: 'input_audio_buffer.append', audio: 'A'.repeat(200_000) });
        expect((await one.closed)[0]).toBe(1009);
      }
    } finally {
      await small.close();
    }
  });
});

describe('the number of sockets of a key', () => {
  it('counts sessions and sockets of responses together', async () => {
    const narrow = await startTestGateway({ env: { ...providers(), WEBSOCKET_MAX_PER_KEY: '1' } });
    try {
      const responses = await openSocket(narrow.url);
      const headers = { authorization: 'Bearer test-master-key' };
      expect(await refusedSocket(narrow.url, headers, at(MODEL).path)).toMatchObject({
        ...{ status: 429, error: { code: 'too_many_websockets' } },
      });
      responses.socket.close();
      await responses.closed;
    } finally {
      await narrow.close();
    }
  });
});

describe('a workflow with guardrails', () => {
  it('has no sessions, also of the own API of a provider, since guardrails read no audio', async () => {
    const guarded = await startTestGateway({ env: { ...providers(), ...withGuardrails } });
    try {
      const config = { rules: 'a => b' };
      await saveGuardrail(guarded, { name: 'words', type: 'string_replace', config });
      await guard(guarded, '/guarded', [{ ref: 'words' }]);
      const before = provider.sessions.length;
      const headers = { 'x-gateway-user-path': '/guarded' };
      const client = await openSocket(guarded.url, undefined, { ...at(MODEL), headers });
      expect(await client.until(ofType('error'))).toMatchObject({ error: { code: 'endpoint_not_guarded' } });
      const path = '/p/openai/v1/realtime?model=gpt-realtime';
      const own = await openSocket(guarded.url, undefined, { path, headers });
      expect((await own.closed)[0]).toBe(1008);
      expect(provider.sessions.length).toBe(before);
    } finally {
      await guarded.close();
    }
  });
});

describe('the answer to the upgrade', () => {
  it('has the id of the request', async () => {
    const headers = { authorization: 'Bearer test-master-key', 'x-request-id': 'mine-of-the-upgrade' };
    const opening = provider.next();
    const socket = new WebSocket(gateway.url.replace(/^http/, 'ws') + at(MODEL).path, { headers });
    const [answer] = await once(socket, 'upgrade');
    expect(answer.headers['x-request-id']).toBe('mine-of-the-upgrade');
    await opening;
    socket.close(1000);
  });
});

describe('the query of a session', () => {
  it.each([
    ['call_id=rtc_of_another', 'unknown_parameter', 'call_id'],
    ['deployment=secret', 'unknown_parameter', 'deployment'],
    ['api-version=2020-01-01', 'unknown_parameter', 'api-version'],
    ['Model=secret', 'unknown_parameter', 'Model'],
    ['model=openai%2Fother', 'invalid_value', 'model'],
  ])('refuses %s', async (parameter, code, param) => {
    const before = provider.sessions.length;
    const client = await openSocket(gateway.url, undefined, { path: `${at(MODEL).path}&${parameter}` });
    expect(await client.until(ofType('error'))).toMatchObject({ error: { code, param } });
    expect((await client.closed)[0]).toBe(1008);
    expect(provider.sessions.length).toBe(before);
  });

  it('passes intent on', async () => {
    const opening = provider.next();
    const client = await openSocket(gateway.url, undefined, { path: `${at(MODEL).path}&intent=transcription` });
    expect((await opening).path).toBe('/v1/realtime?intent=transcription&model=gpt-realtime');
    client.socket.close(1000);
  });
});

describe('a provider that is silent within a response', () => {
  it('ends the session, with the response on record as an estimate', async () => {
    const quiet = await startTestGateway({ env: { ...providers(), HTTP_STREAM_IDLE_TIMEOUT: '300ms' } });
    try {
      const { client, upstream } = await session(undefined, MODEL, quiet);
      provider.endsResponses = false;
      client.send({ type: 'response.create' });
      const { error } = await client.until(ofType('error'));
      expect(error).toMatchObject({ code: 'session_interrupted' });
      expect(error.message).toContain('HTTP_STREAM_IDLE_TIMEOUT');
      expect((await client.closed)[0]).toBe(1011);
      await upstream.closed;
      const spent = await eventsUntil(quiet, 'types=usage.recorded', () => true);
      expect(spent.at(-1)?.data).toMatchObject({ estimated: true, partial: true });
    } finally {
      await quiet.close();
    }
  });
});

describe('a slow client', () => {
  it('holds the provider back, and is ended after the stall timeout', async () => {
    const slow = await startTestGateway({ env: { ...providers(), STREAM_STALL_TIMEOUT: '300ms' } });
    try {
      const { client, upstream } = await session(undefined, MODEL, slow);
      (client.socket as unknown as { _socket: { pause(): void } })._socket.pause();
      const delta = 'A'.repeat(1_000_000);
      for (let sent = 0; sent < 60; sent++) upstream.send({ type: 'response.output_audio.delta', delta });
      const left = await eventsUntil(slow, 'types=client.disconnected', () => true);
      expect(left.at(-1)?.data.chunks).toBeLessThan(40);
      client.socket.terminate();
    } finally {
      await slow.close();
    }
  });
});

describe('REALTIME_ENABLED=false', () => {
  let off: Awaited<ReturnType<typeof startTestGateway>>;
  beforeAll(async () => {
    off = await startTestGateway({ env: { ...providers(), REALTIME_ENABLED: 'false' } });
  });
  afterAll(() => off.close());

  it('leaves the routes out', async () => {
    expect((await refusedSocket(off.url, undefined, at(MODEL).path)).status).toBe(404);
    expect((await off.fetch('/v1/realtime/client_secrets', { json: { session: { model: MODEL } } })).status).toBe(404);
  });
});
