/** Client secrets, calls over WebRTC, and sessions of a provider's own API. */
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { startTestGateway } from '../support/gateway.ts';
import { newKey, put, setPolicy } from '../support/managed-keys.ts';
import { type RealtimeProvider, startRealtimeProvider } from '../support/realtime-provider.ts';
import { openSocket, refusedSocket } from '../support/response-socket.ts';
import { errorOf, eventsUntil, json, type LoggedEvent, withGateway } from '../support/with-gateway.ts';

let provider: RealtimeProvider;
const gateway = withGateway(async () => {
  provider = await startRealtimeProvider();
  return {
    env: {
      ...{ OPENAI_BASE_URL: provider.url, OPENAI_API_KEY: 'sk-of-the-provider' },
      ...{ GEMINI_BASE_URL: provider.url.replace('/v1', '/v1beta/openai'), GEMINI_API_KEY: 'key-of-gemini' },
      ...{ GEMINI_MODELS: 'gemini-live', ENABLED_PASSTHROUGH_PROVIDERS: 'gemini,openai' },
    },
  };
}, 2);
afterAll(() => provider.close());

const MODEL = 'openai/gpt-realtime';
const SECRETS = '/v1/realtime/client_secrets';
const config = { type: 'realtime', model: MODEL, instructions: 'Speak slowly.', audio: { output: { voice: 'marin' } } };
const ofType = (type: string) => (message: { type: string }) => message.type === type;
const protocolsOf = (secret: string) => ['realtime', `openai-insecure-api-key.${secret}`];

async function secretOf(key: { fetch(path: string, init: { json: unknown }): Promise<Response> }, more: object = {}) {
  const answer = await key.fetch(SECRETS, { json: { session: config, ...more } });
  expect(answer.status, await answer.clone().text()).toBe(200);
  return json(answer);
}

const events = (path: string, isLast: (event: LoggedEvent) => boolean) =>
  eventsUntil(gateway, `user_path=${path}`, (event) => event.userPath === path && isLast(event));

describe('a client secret', () => {
  it('begins a session of its key with its configuration, and is on record by its hash', async () => {
    const path = '/secrets/one';
    const key = await newKey(gateway, { user_path: path });
    const before = Math.floor(Date.now() / 1000);
    const created = await secretOf(key, { expires_after: { anchor: 'created_at', seconds: 60 } });
    expect(created.value).toMatch(/^ek_chancery_[\w.-]+$/);
    expect(created.expires_at - before).toBeGreaterThanOrEqual(60);
    expect(created.session).toMatchObject(config);
    const opening = provider.next();
    const client = await openSocket(gateway.url, '', { path: '/v1/realtime', protocols: protocolsOf(created.value) });
    const upstream = await opening;
    const { model: _model, ...session } = config;
    expect(await upstream.until(ofType('session.update'))).toEqual({ type: 'session.update', session });
    expect(upstream.path).toBe('/v1/realtime?model=gpt-realtime');
    client.send({ type: 'response.create' });
    await client.until(ofType('response.done'));
    client.socket.close(1000);
    const all = await events(path, ofType('exchange.completed'));
    const text = JSON.stringify(all);
    expect(text).not.toContain(created.value);
    expect(text).not.toContain(key.value);
    expect(all.find(ofType('client_secret.created'))?.data).toMatchObject({
      ...{ secretHash: createHash('sha256').update(created.value).digest('hex'), model: MODEL },
    });
    expect(all.findLast(ofType('usage.recorded'))).toMatchObject({
      actor: `key:${key.id}`,
      data: { inputTokens: 100 },
    });
  });

  it('is accepted for its model only, and nowhere else', async () => {
    const key = await newKey(gateway);
    const { value } = await secretOf(key);
    const client = await openSocket(gateway.url, value, { path: '/v1/realtime?model=openai/other' });
    expect(await client.until(ofType('error'))).toMatchObject({ error: { code: 'model_mismatch' } });
    const headers = { authorization: `Bearer ${value}` };
    for (const path of ['/v1/models', '/v1/responses/resp_1', '/admin/budgets', '/v1/usage/summary']) {
      expect((await errorOf(await gateway.fetch(path, { headers }), 401)).code).toBe('client_secret_not_accepted');
    }
    const again = await gateway.fetch(SECRETS, { headers, json: { session: config } });
    expect((await errorOf(again, 401)).code).toBe('client_secret_not_accepted');
    expect(await refusedSocket(gateway.url, headers)).toMatchObject({ status: 401 });
  });

  it('ends with its key, and does not outlive its time', async () => {
    const key = await newKey(gateway);
    const { value } = await secretOf(key);
    expect((await gateway.fetch(`/admin/auth-keys/${key.id}/deactivate`, { method: 'POST' })).ok).toBe(true);
    const refused = await refusedSocket(gateway.url, { authorization: `Bearer ${value}` }, '/v1/realtime');
    expect(refused).toMatchObject({ status: 401, error: { code: 'invalid_api_key' } });
    const elsewhere = await newKey(gateway);
    const { value: other } = await secretOf(elsewhere);
    const networks = put({ allowed_cidrs: ['192.0.2.0/24'] });
    expect((await gateway.fetch(`/admin/auth-keys/${elsewhere.id}/allowed-cidrs`, networks)).ok).toBe(true);
    expect(await refusedSocket(gateway.url, { authorization: `Bearer ${other}` }, '/v1/realtime')).toMatchObject({
      ...{ status: 403, error: { code: 'network_not_allowed' } },
    });
    const damaged = `${value.slice(0, -2)}${value.endsWith('AA') ? 'BB' : 'AA'}`;
    expect(await refusedSocket(gateway.url, { authorization: `Bearer ${damaged}` }, '/v1/realtime')).toMatchObject({
      ...{ status: 401, error: { code: 'invalid_api_key' } },
    });
  });

  it('ends with the secret of its key, at the end of the time of grace', async () => {
    const key = await newKey(gateway);
    const [{ value: kept }, { value: ended }] = [await secretOf(key), await secretOf(key)];
    const headers = (value: string) => ({ authorization: `Bearer ${value}` });
    const rotate = async (grace_seconds: number) => {
      const answer = await gateway.fetch(`/admin/auth-keys/${key.id}/rotate`, { json: { grace_seconds } });
      expect(answer.status, await answer.text()).toBe(200);
    };
    await rotate(60);
    const opening = provider.next();
    const client = await openSocket(gateway.url, kept, { path: '/v1/realtime' });
    await opening;
    await rotate(0);
    expect((await client.closed)[0]).toBe(1008);
    expect(await refusedSocket(gateway.url, headers(ended), '/v1/realtime')).toMatchObject({
      ...{ status: 401, error: { code: 'invalid_api_key' } },
    });
  });

  it('is not created, and begins no session or call, with a transcription model that its key may not use', async () => {
    const path = '/secrets/transcribing';
    await setPolicy(gateway, path, [MODEL]);
    const key = await newKey(gateway, { user_path: path });
    const transcription = { model: 'whisper-1' };
    for (const more of [{ audio: { input: { transcription } } }, { input_audio_transcription: transcription }]) {
      const session = { ...config, ...more };
      const created = await key.fetch(SECRETS, { json: { session } });
      expect((await errorOf(created, 400)).code).toBe('model_access_denied');
      const body = new FormData();
      body.set('sdp', 'v=0');
      body.set('session', JSON.stringify(session));
      const called = await key.fetch('/v1/realtime/calls', { method: 'POST', body });
      expect((await errorOf(called, 400)).code).toBe('model_access_denied');
    }
    // Of a virtual model the provider is known when the session begins.
    const targets = [{ provider: 'openai', model: 'gpt-realtime' }];
    expect((await gateway.fetch('/admin/virtual-models', put({ source: 'speaker', targets }))).ok).toBe(true);
    await setPolicy(gateway, path, [MODEL, 'speaker']);
    const session = { ...config, model: 'speaker', audio: { input: { transcription } } };
    const { value } = await secretOf(key, { session });
    const client = await openSocket(gateway.url, value, { path: '/v1/realtime' });
    expect(await client.until(ofType('error'))).toMatchObject({ error: { code: 'model_access_denied' } });
    expect((await client.closed)[0]).toBe(1008);
  });

  it.each([
    [{}, 'session'],
    [{ session: {} }, 'session.model'],
    [{ session: config, expires_after: { seconds: 1 } }, 'expires_after.seconds'],
    [{ session: config, expires_after: { seconds: 7201 } }, 'expires_after.seconds'],
  ])('is not created by %j', async (body, param) => {
    expect(await errorOf(await gateway.fetch(SECRETS, { json: body }), 400)).toMatchObject({ param });
  });
});

describe('POST /v1/realtime/calls', () => {
  it("sends the client's SDP and the configuration of its secret to the provider", async () => {
    const key = await newKey(gateway);
    const { value } = await secretOf(key);
    const headers = { authorization: `Bearer ${value}`, 'content-type': 'application/sdp' };
    const answer = await gateway.fetch('/v1/realtime/calls', { method: 'POST', headers, body: 'v=0 offer' });
    expect(answer.status, await answer.clone().text()).toBe(201);
    expect(answer.headers.get('location')).toBe('/v1/realtime/calls/rtc_1');
    expect(await answer.text()).toBe('v=0 answer');
    const { body, headers: sent } = provider.calls.at(-1) ?? { body: '', headers: {} };
    expect(sent.authorization).toBe('Bearer sk-of-the-provider');
    expect(body).toContain('v=0 offer');
    expect(body).toContain('"instructions":"Speak slowly."');
    expect(body).toContain('"model":"gpt-realtime"');
  });

  it('takes a form with a key, and is refused where a budget counts', async () => {
    const path = '/calls/counted';
    const key = await newKey(gateway, { user_path: path });
    const form = () => {
      const body = new FormData();
      body.set('sdp', 'v=0 form');
      body.set('session', JSON.stringify(config));
      return { method: 'POST', body };
    };
    expect((await key.fetch('/v1/realtime/calls', form())).status).toBe(201);
    expect(provider.calls.at(-1)?.body).toContain('v=0 form');
    await gateway.fetch(`/admin/budgets/${encodeURIComponent(path)}/daily`, put({ amount: 5 }));
    const before = provider.calls.length;
    expect((await key.fetch('/v1/realtime/calls', form())).status).toBeGreaterThanOrEqual(400);
    expect(provider.calls.length).toBe(before);
  });
});

describe("a session of a provider's own API", () => {
  it('passes and charges the messages of Gemini', async () => {
    const path = '/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent';
    const opening = provider.next();
    const query = 'key=AIza-of-the-client&alt=json&access_token=ya29';
    const client = await openSocket(gateway.url, undefined, { path: `/p/gemini${path}?${query}` });
    const upstream = await opening;
    expect(upstream.path).toBe(`${path}?alt=json`);
    expect(upstream.headers['x-goog-api-key']).toBe('key-of-gemini');
    expect(upstream.headers.authorization).toBeUndefined();
    client.send({ setup: { model: 'models/gemini-live' } });
    await upstream.until(({ setup }) => setup !== undefined);
    const usageMetadata = { promptTokenCount: 30, responseTokenCount: 12, totalTokenCount: 42 };
    upstream.socket.send(Buffer.from(JSON.stringify({ serverContent: { turnComplete: true }, usageMetadata })));
    expect(await client.until((message) => message.usageMetadata !== undefined)).toMatchObject({ usageMetadata });
    client.socket.close(1000);
    const spent = await eventsUntil(gateway, 'types=usage.recorded', ({ data }) => data.provider === 'gemini');
    expect(spent.at(-1)?.data).toMatchObject({
      model: 'gemini-live',
      inputTokens: 30,
      outputTokens: 12,
      endpoint: '/p',
    });
  });

  it.each([
    '{"setup":{"model":"models/gemini-live"},"setup":{"model":"models/other"}}',
    '{"setup":{"model":"models/other","n":NaN}}',
    '\ufeff{"setup":{"model":"models/other"}}',
    '[{"setup":{"model":"models/other"}}]',
  ])('ends with a message that its provider may read otherwise: %s', async (message) => {
    const opening = provider.next();
    const client = await openSocket(gateway.url, undefined, { path: '/p/gemini/ws/BidiGenerateContent' });
    const upstream = await opening;
    client.send(message);
    const [code, reason] = await client.closed;
    expect(code).toBe(1008);
    expect(reason).not.toBe('');
    await upstream.closed;
    expect(upstream.received).toEqual([]);
  });

  it('is for keys that see everything', async () => {
    const key = await newKey(gateway, { user_path: '/narrow' });
    const refused = await refusedSocket(gateway.url, { authorization: `Bearer ${key.value}` }, '/p/gemini/ws/live');
    expect(refused).toMatchObject({ status: 403 });
  });
});

describe('a gateway that was restarted', () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'chancery-secrets-'));
  afterAll(() => rmSync(dataDir, { recursive: true, force: true }));

  it('accepts the secrets of before', async () => {
    const env = { OPENAI_BASE_URL: provider.url, OPENAI_API_KEY: 'sk-of-the-provider' };
    const first = await startTestGateway({ env, dataDir });
    const { value } = await secretOf(first);
    await first.close();
    const restarted = await startTestGateway({ env, dataDir });
    const opening = provider.next();
    const client = await openSocket(restarted.url, value, { path: '/v1/realtime' });
    expect((await opening).path).toContain('gpt-realtime');
    client.socket.close(1000);
    await restarted.close();
  });
});
