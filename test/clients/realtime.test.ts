/** Clients of realtime sessions, unchanged: OpenAI's package and the agents SDK. */
import { createSecureContext } from 'node:tls';
import { RealtimeAgent, RealtimeSession, tool } from '@openai/agents/realtime';
import OpenAI from 'openai';
import { OpenAIRealtimeWS } from 'openai/realtime/ws';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { createAuthority, missingOpenssl } from '../support/certificates.ts';
import { MASTER_KEY, startTestGateway, type TestGateway } from '../support/gateway.ts';
import { AUDIO, type RealtimeProvider, startRealtimeProvider } from '../support/realtime-provider.ts';
import { fetchWith } from '../support/tls-client.ts';
import { json, modelsListed, withGateway } from '../support/with-gateway.ts';

let provider: RealtimeProvider;
const env = () => ({ OPENAI_BASE_URL: provider.url, OPENAI_API_KEY: 'sk-of-the-provider' });
const gateway = withGateway(async () => {
  provider = await startRealtimeProvider();
  return { env: env() };
});
afterAll(() => provider.close());

const model = 'openai/gpt-realtime';
const url = () => `${gateway.url.replace('http', 'ws')}/v1/realtime?model=${model}`;

describe('RealtimeSession of the agents SDK', () => {
  it('gets audio, and calls a tool', async () => {
    const cities: string[] = [];
    const weather = tool({
      name: 'get_weather',
      description: 'The weather in a city',
      parameters: z.object({ city: z.string() }),
      execute: async ({ city }) => {
        cities.push(city);
        return `sunny in ${city}`;
      },
    });
    const session = new RealtimeSession(new RealtimeAgent({ name: 'Guide', tools: [weather] }), {
      transport: 'websocket',
      model,
    });
    const audio = new Promise<ArrayBuffer>((resolve) => session.on('audio', ({ data }) => resolve(data)));
    const opening = provider.next();
    await session.connect({ apiKey: MASTER_KEY, url: url() });
    const upstream = await opening;
    const update = await upstream.until(({ type }) => type === 'session.update');
    expect(update.session).toMatchObject({ model: 'gpt-realtime', tools: [{ name: 'get_weather' }] });
    session.sendAudio(new Uint8Array(480).buffer);
    session.sendMessage('Say hello');
    expect((await audio).byteLength).toBe(Buffer.from(AUDIO, 'base64').length);
    const item = {
      type: 'function_call',
      status: 'completed',
      id: 'fc_1',
      call_id: 'call_1',
      name: 'get_weather',
      arguments: '{"city":"Paris"}',
    };
    upstream.send({ type: 'response.output_item.done', response_id: 'resp_x', output_index: 0, item });
    const output = await upstream.until(({ item: given }) => given?.type === 'function_call_output');
    expect(output.item).toMatchObject({ call_id: 'call_1', output: 'sunny in Paris' });
    expect(cities).toEqual(['Paris']);
    session.close();
    await upstream.closed;
  });

  it('begins with a client secret', async () => {
    const secret = await json(
      await gateway.fetch('/v1/realtime/client_secrets', { json: { session: { type: 'realtime', model } } }),
    );
    const session = new RealtimeSession(new RealtimeAgent({ name: 'Guide' }), { transport: 'websocket', model });
    const opening = provider.next();
    await session.connect({ apiKey: secret.value, url: url() });
    await opening;
    session.close();
  });
});

describe.skipIf(missingOpenssl() !== undefined)("OpenAI's package", () => {
  const authority = createAuthority();
  let secure: TestGateway;
  let client: OpenAI;
  beforeAll(async () => {
    const { certFile, keyFile } = authority.issue('gateway', 'DNS:localhost,IP:127.0.0.1');
    secure = await startTestGateway({ env: { ...env(), TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile } });
    await modelsListed({ fetch: fetchWith(secure.url, { ca: authority.ca.cert }, MASTER_KEY) }, 2);
    client = new OpenAI({ baseURL: `${secure.url}/v1`, apiKey: MASTER_KEY, maxRetries: 0 });
  });
  afterAll(async () => {
    await secure.close();
    authority.remove();
  });

  it('opens sessions with OpenAIRealtimeWS', async () => {
    const options = { secureContext: createSecureContext({ ca: authority.ca.cert }) } as object;
    const socket = new OpenAIRealtimeWS({ model, options }, client);
    const done = new Promise<OpenAI.Realtime.ResponseDoneEvent>((resolve, reject) => {
      socket.on('response.done', resolve);
      socket.on('error', reject);
    });
    socket.socket.on('open', () => socket.send({ type: 'response.create' }));
    expect((await done).response.usage).toMatchObject({ total_tokens: 150 });
    const closed = new Promise((resolve) => socket.socket.once('close', resolve));
    socket.close();
    await closed;
  });

  it('gets the errors of the gateway', async () => {
    const options = { secureContext: createSecureContext({ ca: authority.ca.cert }) } as object;
    const socket = new OpenAIRealtimeWS({ model: 'openai/none', options }, client);
    const error = await new Promise<Error>((resolve) => socket.on('error', resolve));
    expect(error.message).toContain('openai/none');
  });
});
