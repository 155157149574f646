/** A provider refuses the gateway's own credential: clients receive 502, since a 401 is about their own key. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ScriptedProvider, startScriptedProvider } from '../support/scripted-provider.ts';
import { saved } from '../support/several-providers.ts';
import { errorOf, eventsOfExchange, exchangeOf, json, user, withGateway } from '../support/with-gateway.ts';

let locked: ScriptedProvider;
let open: ScriptedProvider;
const gateway = withGateway(async () => {
  locked = await startScriptedProvider();
  open = await startScriptedProvider();
  // Anthropic's list has a query.
  locked.script((_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end('{"data":[{"type":"model","id":"scripted","display_name":"scripted"}],"has_more":false}');
  });
  return {
    simulated: false,
    env: {
      ...{ OPENAI_BASE_URL: locked.url, OPENAI_API_KEY: 'sk-refused-by-the-provider' },
      ...{ ANTHROPIC_BASE_URL: locked.url, ANTHROPIC_API_KEY: 'sk-refused-by-the-provider' },
      LLAMACPP_BASE_URL: open.url,
      CIRCUIT_BREAKER_ENABLED: 'false',
    },
  };
});
afterAll(() => Promise.all([locked.close(), open.close()]));

function refuses(status: number, code = 'invalid_api_key'): void {
  locked.script((_request, response) => {
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ error: { message: 'Incorrect API key', type: 'invalid_request_error', code } }));
  });
}

beforeAll(async () => {
  const targets = ['openai', 'llamacpp'].map((provider) => ({ provider, model: 'scripted' }));
  await saved(gateway, { source: 'both', targets, strategy: 'failover' });
});

const chat = { messages: user('hi') };
const form = (model: string): FormData => {
  const form = new FormData();
  form.append('model', model);
  form.append('file', new Blob(['sound']), 'a.wav');
  return form;
};
const bodies: Record<string, object> = {
  '/v1/chat/completions': chat,
  '/v1/responses': { input: 'hi' },
  '/v1/responses/input_tokens': { input: 'hi' },
  '/v1/responses/compact': { input: 'hi' },
  '/v1/messages': { ...chat, max_tokens: 9 },
  '/v1/embeddings': { input: 'hi' },
  '/v1/completions': { prompt: 'hi' },
  '/v1/audio/speech': { input: 'hi', voice: 'alloy' },
  '/v1/images/generations': { prompt: 'hi' },
};
const streamed = ['/v1/chat/completions', '/v1/responses', '/v1/messages', '/v1/completions'];
const cases: [string, string, object][] = [
  ...Object.entries(bodies).map<[string, string, object]>(([path, body]) => [path, 'whole', body]),
  ...streamed.map<[string, string, object]>((path) => [path, 'streamed', { ...bodies[path], stream: true }]),
];

describe('a 401 of a provider', () => {
  it.each(cases)('is 502 on %s, %s, and recorded with its status', async (path, _kind, body) => {
    refuses(401);
    const answer = await gateway.post(path, { ...body, model: 'openai/scripted' });
    expect(answer.headers.get('www-authenticate')).toBeNull();
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    const text = await answer.text();
    expect({ status: answer.status, text }).toEqual({
      status: 502,
      text: expect.stringContaining("The provider 'openai' refused the gateway's credentials: Incorrect API key"),
    });
    // Anthropic has another name for it.
    const { error } = JSON.parse(text);
    if (path === '/v1/messages') expect(error).toMatchObject({ type: 'api_error' });
    else
      expect(error).toMatchObject({ type: 'provider_error', provider: 'openai', code: 'provider_credentials_refused' });
    expect(events.find(({ type }) => type === 'attempt.failed')?.data).toMatchObject({ status: 401 });
    expect(events.at(-1)).toMatchObject({ type: 'exchange.failed', data: { status: 502, reason: 'provider_error' } });
  });

  it.each(['/v1/audio/transcriptions', '/v1/images/edits'])('is 502 for a form of %s', async (path) => {
    refuses(401);
    const answer = await gateway.fetch(path, { method: 'POST', body: form('openai/scripted') });
    expect(await errorOf(answer, 502)).toMatchObject({ code: 'provider_credentials_refused', provider: 'openai' });
  });

  it.each(['/v1/chat/completions', '/v1/responses', '/v1/messages'])('of Anthropic is 502 on %s', async (path) => {
    locked.script((_request, response) => {
      response.writeHead(401, { 'content-type': 'application/json' });
      response.end('{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}');
    });
    const answer = await gateway.post(path, { ...bodies[path], model: 'anthropic/scripted' });
    expect(answer.status).toBe(502);
    expect(await answer.text()).toContain("The provider 'anthropic' refused the gateway's credentials");
  });

  it('leads to the next target', async () => {
    refuses(401);
    open.script((_request, response) => {
      const choices = [{ index: 0, message: { role: 'assistant', content: 'open' }, finish_reason: 'stop' }];
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ object: 'chat.completion', choices }));
    });
    const answer = await gateway.post('/v1/chat/completions', { ...chat, model: 'both' });
    expect(answer.status).toBe(200);
    expect(await json(answer)).toMatchObject({ choices: [{ message: { content: 'open' } }] });
  });

  it('is forwarded under /p', async () => {
    refuses(401);
    const answer = await gateway.post('/p/openai/v1/chat/completions', { ...chat, model: 'scripted' });
    expect(await errorOf(answer, 401)).toMatchObject({ code: 'invalid_api_key', provider: 'openai' });
  });
});

describe('a 403 of a provider', () => {
  it('is 502 where its code is about the credential, else forwarded', async () => {
    const ask = () => gateway.post('/v1/chat/completions', { ...chat, model: 'openai/scripted' });
    refuses(403);
    expect(await errorOf(await ask(), 502)).toMatchObject({ code: 'provider_credentials_refused' });
    refuses(403, 'unsupported_country');
    expect(await errorOf(await ask(), 403)).toMatchObject({ code: 'unsupported_country' });
  });
});
