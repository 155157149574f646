/** Which requests a circuit breaker refuses, and what an error says of a retry. */
import { afterEach, describe, expect, it } from 'vitest';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { newKey } from '../support/managed-keys.ts';
import { startScriptedProvider } from '../support/scripted-provider.ts';
import { errorOf, eventsUntil, modelsListed, user } from '../support/with-gateway.ts';

const running: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of running.splice(0).reverse()) await one.close();
});

const PATH = '/v1/chat/completions';
const WHOLE = { id: 'c', object: 'chat.completion', choices: [{ index: 0, message: { content: 'hi' } }] };

/** A provider that fails when the request contains one of these words. */
async function failing(...words: readonly string[]) {
  const provider = await startScriptedProvider();
  running.push(provider);
  provider.list('one', 'two');
  let calls = 0;
  let fails = words;
  provider.script(({ body }, response) => {
    calls += 1;
    const isFailure = fails.some((word) => body.includes(word));
    response.writeHead(isFailure ? 500 : 200, { 'content-type': 'application/json' });
    response.end(isFailure ? '{"error":{"message":"It broke."}}' : JSON.stringify(WHOLE));
  });
  const gateway = await startTestGateway({ simulated: false, env: { LLAMACPP_BASE_URL: provider.url } });
  running.push(gateway);
  await modelsListed(gateway);
  const status = async (by: Pick<TestGateway, 'fetch'>, content: string, model = 'one') => {
    const answer = await by.fetch(PATH, { json: { model, messages: user(content) } });
    await answer.text();
    return answer.status;
  };
  return {
    gateway,
    status,
    calls: () => calls,
    fail(...now: readonly string[]) {
      fails = now;
    },
  };
}

describe('the circuit breaker of a model', () => {
  it('refuses neither other callers nor other requests after one request failed again and again', async () => {
    const { gateway, status, calls } = await failing('poison');
    const [a, b] = [await newKey(gateway), await newKey(gateway)];
    for (let call = 0; call < 6; call++) expect(await status(a, 'poison')).toBe(call < 5 ? 500 : 503);
    expect(calls()).toBe(5);
    expect(await status(a, 'good')).toBe(200);
    for (let call = 0; call < 5; call++) expect(await status(a, 'poison')).toBe(500);
    expect(await status(b, 'good')).toBe(200);
  });

  it('does not refuse other callers after all requests of one failed', async () => {
    const { gateway, status } = await failing('poison');
    const [a, b] = [await newKey(gateway), await newKey(gateway)];
    for (let call = 0; call < 5; call++) expect(await status(a, `poison ${call}`)).toBe(500);
    expect(await status(a, 'good')).toBe(503);
    expect(await status(b, 'good')).toBe(200);
    expect(await status(a, 'good')).toBe(200);
  });

  it('refuses every caller when the calls of several callers fail, and not the other models of the provider', async () => {
    const { gateway, status, calls } = await failing('one');
    const [a, b, c] = [await newKey(gateway), await newKey(gateway), await newKey(gateway)];
    for (let call = 0; call < 3; call++) expect(await status(a, `a ${call}`)).toBe(500);
    for (let call = 0; call < 2; call++) expect(await status(b, `b ${call}`)).toBe(500);
    const before = calls();
    const refused = await c.fetch(PATH, { json: { model: 'one', messages: user('c') } });
    const { message } = await errorOf(refused, 503);
    expect(refused.headers.get('retry-after')).toBe('30');
    expect(message).toBe(
      "The provider 'llamacpp' is temporarily unavailable for 'one' after repeated failures. The gateway calls it again in 30 s.",
    );
    expect(calls()).toBe(before);
    expect(await status(c, 'c', 'two')).toBe(200);
    const changed = await eventsUntil(gateway, 'types=provider.circuit_changed', () => true);
    expect(changed.map(({ data }) => [data.model, data.state])).toEqual([['one', 'open']]);
  });
});

describe('a provider with two API keys, one of which it refuses', () => {
  it.each([401, 403, 429, 500])(
    'is called with the other one, whatever it answers to the first: %i',
    async (refused) => {
      const provider = await startScriptedProvider();
      running.push(provider);
      provider.script(({ headers }, response) => {
        const isRefused = headers.authorization === 'Bearer refused-key';
        response.writeHead(isRefused ? refused : 200, { 'content-type': 'application/json' });
        response.end(isRefused ? '{"error":{"message":"Not with this key."}}' : JSON.stringify(WHOLE));
      });
      const env = {
        ...{ LLAMACPP_BASE_URL: provider.url, LLAMACPP_API_KEY: 'good-key', LLAMACPP_API_KEY_2: 'refused-key' },
        // Also where the operator counts it as a failure.
        ...{ CIRCUIT_BREAKER_FAILURE_ON_STATUSES: '401,403,5xx', CIRCUIT_BREAKER_FAILURE_THRESHOLD: '3' },
      };
      const gateway = await startTestGateway({ simulated: false, env });
      running.push(gateway);
      await modelsListed(gateway);
      const statuses: number[] = [];
      for (let n = 0; n < 40; n++) {
        const answer = await gateway.fetch(PATH, { json: { model: 'scripted', messages: user(`hello ${n}`) } });
        await answer.text();
        statuses.push(answer.status);
      }
      expect(statuses.filter((status) => status === 200)).toHaveLength(20);
      expect(statuses.filter((status) => status === 503)).toEqual([]);
    },
  );
});

describe("a provider's 500", () => {
  it('tells clients not to retry, as the gateway does not', async () => {
    const { gateway } = await failing('poison');
    const answer = await gateway.fetch(PATH, { json: { model: 'one', messages: user('poison') } });
    expect(answer.headers.get('x-should-retry')).toBe('false');
    await errorOf(answer, 500);
  });
});
