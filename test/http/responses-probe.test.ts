/** How the gateway finds out whether a provider has `/v1/responses`, and how long it keeps the result. */
import { afterAll, describe, expect, it } from 'vitest';
import { type ScriptedProvider, startScriptedProvider } from '../support/scripted-provider.ts';
import { errorOf, eventsUntil, json, withGateway } from '../support/with-gateway.ts';

let scripted: ScriptedProvider;
const gateway = withGateway(async () => {
  scripted = await startScriptedProvider();
  return { simulated: false, env: { VLLM_BASE_URL: scripted.url, RETRY_MAX_RETRIES: '0' } };
});
afterAll(() => scripted.close());

/** @returns the paths requested from now on */
function withoutResponses(status: number, body: string): string[] {
  const requests: string[] = [];
  scripted.script(({ path }, response) => {
    requests.push(path);
    if (path === '/v1/responses') {
      response.writeHead(status, { 'content-type': body.startsWith('{') ? 'application/json' : 'text/html' }).end(body);
      return;
    }
    const choices = [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'ok' } }];
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ choices }));
  });
  return requests;
}

const create = (model = 'scripted') => gateway.post('/v1/responses', { model: `vllm/${model}`, input: 'hi' });

describe('a 404 for a model', () => {
  it.each([
    ['a code', '{"error":{"message":"not found","code":"model_not_found"}}'],
    [
      'a message alone, as from vLLM',
      '{"message":"The model `scripted` does not exist.","type":"NotFoundError","code":404}',
    ],
    ['the name of the model', '{"error":"scripted: no such name"}'],
  ])('with %s is passed on, and the route is requested again', async (_what, body) => {
    const requests = withoutResponses(404, body);
    expect(await errorOf(await create(), 404)).toMatchObject({ type: 'not_found_error', provider: 'vllm' });
    await errorOf(await create(), 404);
    expect(requests).toEqual(['/v1/responses', '/v1/responses']);
  });
});

describe('a missing route', () => {
  it('is stored, and chat completions are used from then on', async () => {
    const requests = withoutResponses(404, '{"detail":"Not Found"}');
    for (const _ of [1, 2]) expect((await json(await create())).output[0].content[0].text).toBe('ok');
    expect(requests).toEqual(['/v1/responses', '/v1/chat/completions', '/v1/chat/completions']);
    const learned = await eventsUntil(
      gateway,
      'types=provider.capability_learned',
      ({ type }) => type === 'provider.capability_learned',
    );
    expect(learned.map(({ data }) => data)).toEqual([{ capability: 'responses', supported: false }]);
  });

  it('is requested again when the provider lists other models', async () => {
    const requests = withoutResponses(404, '{"detail":"Not Found"}');
    await (await create()).text();
    expect(requests).not.toContain('/v1/responses');
    scripted.list('scripted', 'newer');
    expect((await gateway.fetch('/admin/runtime/refresh', { method: 'POST' })).status).toBe(200);
    await (await create('newer')).text();
    expect(requests.filter((path) => path === '/v1/responses')).toHaveLength(1);
  });
});
