/** Budgets and requests that do not limit their answer: the longest answer is reserved, and the provider gets its limit. */
import { beforeAll, describe, expect, test } from 'vitest';
import {
  errorOf,
  eventsOfExchange,
  exchangeOf,
  json,
  type StartedGateway,
  user,
  withGateway,
} from '../support/with-gateway.ts';

const gateway = withGateway({ simulated: { models: ['plain', 'thinker'] } });
const MODEL = 'llamacpp/plain';
const CHAT = '/v1/chat/completions';
/** US dollars for one token of an answer. */
const TOKEN = 0.001;

const at = (path: string, body: object, userPath: string) =>
  gateway.post(path, body, { headers: { 'x-gateway-user-path': userPath } });
const chat = (content: string, userPath: string, more: object = {}) =>
  at(CHAT, { model: MODEL, messages: user(content), ...more }, userPath);
const long = (words: number) => `Write ${words} words about rivers.`;

function budget(userPath: string, amount: number, of: StartedGateway = gateway) {
  const path = `/admin/budgets/${encodeURIComponent(userPath)}/daily`;
  return of.post(path, { amount }, { method: 'PUT' });
}

async function row(userPath: string) {
  const { budgets } = await json(await gateway.fetch('/admin/budgets'));
  return budgets.find(({ user_path }: { user_path: string }) => user_path === userPath);
}

/** When nothing is reserved any more: every cost is counted. */
async function spent(userPath: string): Promise<number> {
  await expect.poll(async () => (await row(userPath)).reserved).toBe(0);
  return (await row(userPath)).spent;
}

beforeAll(async () => {
  const pricing = { input_per_mtok: 1, output_per_mtok: TOKEN * 1_000_000 };
  const answer = await gateway.post('/admin/model-pricing-overrides', { selector: MODEL, pricing }, { method: 'PUT' });
  expect(answer.status).toBe(200);
});

describe('a burst of requests without a limit', () => {
  test('spends no more than the budget, however short earlier answers were', async () => {
    await budget('/burst', 1);
    for (let n = 0; n < 25; n++) await (await chat('Reply with exactly: a b c d e', '/burst')).text();
    gateway.simulated.control.always({ firstByteDelayMs: 100 });
    const answers = await Promise.all(
      Array.from({ length: 100 }, async () => {
        const answer = await chat(long(200), '/burst');
        return { status: answer.status, text: await answer.text() };
      }),
    );
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 429]));
    const sum = await spent('/burst');
    expect(sum).toBeLessThanOrEqual(1);
    expect(sum).toBeGreaterThan(0.9);
  });
});

describe('a request to a provider’s own API under a budget', () => {
  const pass = (userPath: string, body: object, path = 'v1/chat/completions') =>
    at(`/p/llamacpp/${path}`, { model: 'plain', ...body }, userPath);
  const reservedNow = async (userPath: string) => (await row(userPath)).reserved;

  test.each([
    ['chat', 'v1/chat/completions', { messages: user('hi'), max_tokens: 50 }, 50],
    ['messages', 'v1/messages', { messages: user('hi'), max_tokens: 60 }, 60],
    ['Responses', 'v1/responses', { input: 'hi', max_output_tokens: 70 }, 70],
    ['chat without a limit', 'v1/chat/completions', { messages: user('hi') }, 32_768],
    ['a long prompt', 'v1/chat/completions', { messages: user('word '.repeat(20_000)), max_tokens: 50 }, 50],
    ['a path that the gateway does not know', 'api/chat', { messages: user('hi'), options: { num_predict: 80 } }, 80],
  ])('reserves the longest answer, before the first request of its kind: %s', async (name, path, body, tokens) => {
    const userPath = `/passed/${name.replaceAll(' ', '-')}`;
    await budget(userPath, 100);
    gateway.simulated.control.next({ hang: true });
    const leaves = new AbortController();
    const headers = { 'x-gateway-user-path': userPath };
    const json = { model: 'plain', ...body };
    const answer = gateway.post(`/p/llamacpp/${path}`, json, { headers, signal: leaves.signal }).catch(() => {});
    await expect.poll(() => reservedNow(userPath)).toBeGreaterThanOrEqual(tokens * TOKEN);
    // A token of input costs a thousandth of one of output.
    expect(await reservedNow(userPath)).toBeLessThan((tokens + 101) * TOKEN);
    leaves.abort();
    await answer;
    await expect.poll(() => reservedNow(userPath)).toBe(0);
  });

  test('is one of a burst that spends no more than the budget', async () => {
    await budget('/passed/burst', 1);
    gateway.simulated.control.always({ firstByteDelayMs: 20 });
    const answers = await Promise.all(
      Array.from({ length: 60 }, async () => {
        const answer = await pass('/passed/burst', { messages: user(long(200)), max_tokens: 45 });
        await answer.text();
        return answer.status;
      }),
    );
    gateway.simulated.control.clear();
    expect(new Set(answers)).toEqual(new Set([200, 429]));
    const sum = await spent('/passed/burst');
    expect(sum).toBeLessThanOrEqual(1);
    expect(sum).toBeGreaterThan(0.9);
  });

  test('passes unchanged, and is refused when its longest answer does not fit', async () => {
    await budget('/passed/whole', 1);
    const refused = await pass('/passed/whole', { messages: user('hi') });
    expect((await errorOf(refused, 429)).code).toBe('budget_exceeded');
    const body = { messages: user('hi'), max_tokens: 900 };
    const answer = await pass('/passed/whole', body);
    expect(answer.status).toBe(200);
    await answer.text();
    expect(JSON.parse(gateway.simulated.requests.at(-1)?.body ?? '')).toEqual({ model: 'plain', ...body });
  });

  test('costs no more than its limit when the provider reports no usage', async () => {
    await budget('/passed/unreported', 1);
    const body = { messages: user(long(200)), max_tokens: 45, stream: true, simulate: { usage: false } };
    await (await pass('/passed/unreported', body)).text();
    const sum = await spent('/passed/unreported');
    expect(sum).toBeGreaterThan(40 * TOKEN);
    expect(sum).toBeLessThan(46 * TOKEN);
  });

  test('reserves nothing when its body names no model', async () => {
    await budget('/passed/none', 1);
    const models = await gateway.fetch('/p/llamacpp/v1/models', { headers: { 'x-gateway-user-path': '/passed/none' } });
    expect(models.status).toBe(200);
    expect(await spent('/passed/none')).toBe(0);
  });
});

describe('a request without a limit under a budget', () => {
  test.each([
    ['chat', CHAT, { messages: user('hi') }, 'max_tokens'],
    ['Responses', '/v1/responses', { input: 'hi' }, 'max_output_tokens'],
    ['completions', '/v1/completions', { prompt: 'hi' }, 'max_tokens'],
  ])('of %s gets the limit that its reservation covers, on record', async (name, path, body, member) => {
    const userPath = `/limit/${name}`;
    await budget(userPath, 0.5);
    const answer = await at(path, { model: MODEL, ...body }, userPath);
    expect(answer.status).toBe(200);
    await answer.text();
    const limit = JSON.parse(gateway.lastProviderRequest().body)[member];
    expect(limit).toBeGreaterThan(450);
    expect(limit).toBeLessThan(500);
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    const attempt = events.find(({ type }) => type === 'attempt.started');
    expect(attempt?.data.outputLimit).toBe(limit);
  });

  test('is sent as it is where no budget applies, and a limit that fits stays', async () => {
    await (await chat('hi', '/elsewhere')).text();
    expect(JSON.parse(gateway.lastProviderRequest().body)).not.toHaveProperty('max_tokens');
    await budget('/stays', 0.5);
    await (await chat('hi', '/stays', { max_completion_tokens: 20 })).text();
    expect(JSON.parse(gateway.lastProviderRequest().body)).toMatchObject({ max_completion_tokens: 20 });
    await (await chat('hi', '/stays', { max_completion_tokens: 900 })).text();
    expect(JSON.parse(gateway.lastProviderRequest().body).max_completion_tokens).toBeLessThan(500);
  });

  test('ends at the last token that the budget covers', async () => {
    await budget('/end', 0.1);
    const body = await json(await chat(long(400), '/end'));
    expect(body.choices[0].finish_reason).toBe('length');
    const sum = await spent('/end');
    expect(sum).toBeLessThanOrEqual(0.1);
    expect(sum).toBeGreaterThan(0.095);
  });

  test('is refused when not even its input fits, also the first one', async () => {
    await budget('/tiny', 1e-9);
    const before = gateway.simulated.requests.length;
    expect(await errorOf(await chat('hi', '/tiny'), 429)).toMatchObject({ code: 'budget_exceeded' });
    expect(await errorOf(await chat('hi', '/tiny', { max_tokens: 1 }), 429)).toMatchObject({ code: 'budget_exceeded' });
    expect(gateway.simulated.requests.length).toBe(before);
  });

  test('waits for what others have reserved when that is likely to leave enough', async () => {
    await budget('/wait', 1);
    await (await chat('Reply with exactly: a', '/wait')).text();
    gateway.simulated.control.next({ holdAfterChunks: 1 });
    const first = await chat(long(20), '/wait', { stream: true });
    let isAnswered = false;
    const second = chat('Reply with exactly: b', '/wait').finally(() => {
      isAnswered = true;
    });
    await expect.poll(async () => (await row('/wait')).reserved).toBeGreaterThan(0.9);
    await (await chat('Reply with exactly: c', '/elsewhere')).text();
    expect(isAnswered).toBe(false);
    gateway.simulated.control.release();
    await first.text();
    expect((await second).status).toBe(200);
    await (await second).text();
  });
});

test('a price that is higher for small requests is reserved, whichever tier a request ends in', async () => {
  const model = 'llamacpp/thinker';
  const tiers = [{ up_to_tokens: 50, input_per_mtok: 1, output_per_mtok: TOKEN * 1_000_000 }];
  const pricing = { input_per_mtok: 1, output_per_mtok: 1, tiers };
  await gateway.post('/admin/model-pricing-overrides', { selector: model, pricing }, { method: 'PUT' });
  await budget('/tiers', 1);
  gateway.simulated.control.always({ firstByteDelayMs: 50 });
  const answers = await Promise.all(
    Array.from({ length: 10 }, async () => {
      const body = { model, messages: user(long(900)), max_tokens: 400 };
      const answer = await at(CHAT, body, '/tiers');
      await answer.text();
      return answer.status;
    }),
  );
  expect(answers).toContain(200);
  const sum = await spent('/tiers');
  expect(sum).toBeGreaterThan(0.3);
  expect(sum).toBeLessThanOrEqual(1);
});

describe('members that limit answers in the APIs of other providers', () => {
  const providers = withGateway({
    simulated: { models: ['plain'] },
    register: (url) => ({
      ...{ VLLM_BASE_URL: url, OLLAMA_BASE_URL: url, SGLANG_BASE_URL: url, LLAMACPP_BASE_URL: url },
      ...{ ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: 'key', OPENAI_BASE_URL: url, OPENAI_API_KEY: 'key' },
    }),
    env: { ANTHROPIC_MODELS: 'plain' },
  });
  const BODIES: Readonly<Record<string, object>> = { '/v1/responses': { input: 'hi' } };
  let paths = 0;

  /** The body that the provider gets, under a budget of 0.5 USD. */
  async function sent(type: string, path: string, more: object) {
    const userPath = `/foreign/${++paths}`;
    await budget(userPath, 0.5, providers);
    const body = { model: `${type}/plain`, ...(BODIES[path] ?? { messages: user('hi') }), ...more };
    const answer = await providers.post(path, body, { headers: { 'x-gateway-user-path': userPath } });
    // Anthropic's API refuses members that it does not have.
    expect(type === 'anthropic' ? [200, 400] : [200], await answer.text()).toContain(answer.status);
    return JSON.parse(providers.lastProviderRequest().body);
  }

  beforeAll(async () => {
    const pricing = { input_per_mtok: 1, output_per_mtok: TOKEN * 1_000_000 };
    for (const type of ['vllm', 'ollama', 'sglang', 'llamacpp', 'anthropic', 'openai']) {
      const override = { selector: `${type}/plain`, pricing };
      const answer = await providers.post('/admin/model-pricing-overrides', override, { method: 'PUT' });
      expect(answer.status).toBe(200);
    }
  });

  const limitOf = (body: { options?: { num_predict?: number } } & Record<string, number>, member: string) =>
    member === 'num_predict' ? body.options?.num_predict : body[member];

  test.each([
    ['vllm', CHAT, { n_predict: 10 }, 'max_tokens'],
    ['vllm', CHAT, { num_predict: -1 }, 'max_tokens'],
    ['vllm', CHAT, { max_output_tokens: 10 }, 'max_tokens'],
    ['openai', CHAT, { max_new_tokens: 10 }, 'max_tokens'],
    ['sglang', CHAT, { options: { num_predict: 0.5 } }, 'max_tokens'],
    ['llamacpp', CHAT, { num_predict: 10 }, 'max_tokens'],
    ['openai', '/v1/responses', { n_predict: 10 }, 'max_output_tokens'],
    ['openai', '/v1/responses', { max_completion_tokens: 10 }, 'max_output_tokens'],
    ['openai', '/v1/responses', { num_predict: 10 }, 'max_output_tokens'],
    ['anthropic', CHAT, { options: { num_predict: 50_000 } }, 'max_tokens'],
    ['anthropic', '/v1/messages', { n_predict: 10, max_tokens: 5000 }, 'max_tokens'],
    ['ollama', CHAT, { n_predict: 10 }, 'num_predict'],
    ['ollama', CHAT, { options: { num_predict: -1 } }, 'num_predict'],
    ['ollama', CHAT, { options: { num_predict: 0.5 } }, 'num_predict'],
    ['ollama', '/v1/messages', { max_tokens: 10, options: { num_predict: -1 } }, 'num_predict'],
    ['ollama', '/v1/messages', { max_tokens: 10, options: { num_predict: 50_000 } }, 'num_predict'],
    ['vllm', '/v1/messages', { max_tokens: 10, max_completion_tokens: 50_000 }, 'max_completion_tokens'],
    ['llamacpp', CHAT, { max_tokens: 10, n_predict: -1 }, 'n_predict'],
    ['llamacpp', '/v1/responses', { max_output_tokens: 10, max_tokens: 50_000 }, 'max_tokens'],
  ])('do not replace the limit that %s gets: %s %j', async (type, path, more, member) => {
    const limit = limitOf(await sent(type, path, more), member);
    expect(limit).toBeGreaterThan(300);
    expect(limit).toBeLessThan(500);
  });

  test.each([
    ['vllm', CHAT, { n_predict: 50_000, max_tokens: 10 }, 'max_tokens'],
    ['anthropic', '/v1/messages', { options: { num_predict: 50_000 }, max_tokens: 10 }, 'max_tokens'],
    ['ollama', CHAT, { options: { num_predict: 10 } }, 'num_predict'],
    ['llamacpp', CHAT, { n_predict: 10 }, 'n_predict'],
  ])('do not raise the limit that %s gets: %s %j', async (type, path, more, member) => {
    const body = await sent(type, path, more);
    expect(limitOf(body, member)).toBe(10);
    if (member === 'n_predict') expect(body).not.toHaveProperty('max_tokens');
  });
});
