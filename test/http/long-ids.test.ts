/** Ids that a provider or a client chooses and that no stream can have: an error of the provider, or of the request. */
import { afterAll, describe, expect, it } from 'vitest';
import { type ScriptedProvider, startScriptedProvider } from '../support/scripted-provider.ts';
import { errorOf, eventsUntil, exchangeOf, withGateway } from '../support/with-gateway.ts';

let scripted: ScriptedProvider;
const gateway = withGateway(async () => {
  scripted = await startScriptedProvider();
  return {
    simulated: false,
    env: {
      ...{ OPENAI_BASE_URL: scripted.url, OPENAI_API_KEY: 'sk-of-all' },
      RETRY_MAX_RETRIES: '0',
      CIRCUIT_BREAKER_ENABLED: 'false',
    },
  };
});
afterAll(() => scripted.close());

const model = 'openai/scripted';
const usage = { input_tokens: 3, output_tokens: 2, total_tokens: 5 };
const LONG = 'x'.repeat(100_000);
/** `JSON.parse` makes a lone surrogate of it. */
const TORN = '\ud800';

function answersWith(json: object, isStream = false): void {
  const events = `data: ${JSON.stringify({ type: 'response.created', response: json })}\n\n`;
  scripted.script((_request, response) => {
    response.writeHead(200, { 'content-type': isStream ? 'text/event-stream' : 'application/json' });
    response.end(isStream ? events : JSON.stringify(json));
  });
}

describe.each([
  ['100,000 characters', LONG],
  ['half of a character', `resp_${TORN}`],
])('an id of %s', (_name, id) => {
  it.each([false, true])('that a provider gives a response is 502 and charged; a stream: %s', async (stream) => {
    answersWith({ id, object: 'response', status: 'completed', output: [], usage }, stream);
    const answer = await gateway.post('/v1/responses', { model, input: 'Say hello.', stream });
    expect(await errorOf(answer, 502)).toMatchObject({ code: 'bad_provider_answer' });
    const recorded = `stream=exchange-${exchangeOf(answer)}`;
    const events = await eventsUntil(gateway, recorded, ({ type }) => type === 'exchange.failed');
    expect(events.at(-1)?.data).toMatchObject({ status: 502, code: 'bad_provider_answer' });
    expect(events.find(({ type }) => type === 'usage.recorded')?.data).toMatchObject({ inputTokens: 3 });
  });

  it('that a provider gives an item does not fail its response', async () => {
    const item = { type: 'message', id, role: 'assistant', content: [{ type: 'output_text', text: 'Hello.' }] };
    answersWith({ id: `resp_${id.length}`, object: 'response', status: 'completed', output: [item], usage });
    const answer = await gateway.post('/v1/responses', { model, input: 'Say hello.' });
    expect(answer.status, await answer.text()).toBe(200);
  });

  it.each([
    ['/v1/responses', { model, input: 'x', previous_response_id: id }],
    ['/v1/responses', { model, input: 'x', conversation: id }],
    ['/v1/responses', { model, input: [{ type: 'item_reference', id }] }],
    ['/v1/responses', { model, input: [{ type: 'message', role: 'user', content: 'x', id }] }],
    ['/v1/conversations', { items: [{ type: 'message', role: 'user', content: 'x', id }] }],
  ])('that a client sends to %s is never an internal error: %#', async (path, body) => {
    answersWith({ id: 'resp_1', object: 'response', status: 'completed', output: [], usage });
    const answer = await gateway.post(path, body);
    await answer.text();
    expect(answer.status).toBeLessThan(500);
  });
});
