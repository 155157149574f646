/** What a budget reserves for a stream under way: the provider counts the input in its first event, or sends more than the limit. */
import type { ServerResponse } from 'node:http';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { type ScriptedProvider, startScriptedProvider } from '../support/scripted-provider.ts';
import { errorOf, json, modelsListed, user } from '../support/with-gateway.ts';

/** US dollars for one token, of input or output. */
const TOKEN = 0.001;
const prompt = 'word '.repeat(1_000);
const body = { messages: user(prompt), max_tokens: 100, stream: true };

const event = (data: { type: string }) => `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`;
const chunk = (data: object) => `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', ...data })}\n\n`;
const said = (content: string) => chunk({ choices: [{ index: 0, delta: { content }, finish_reason: null }] });

function messageStart(inputTokens: number): string {
  const usage = { input_tokens: inputTokens, output_tokens: 1 };
  const message = {
    id: 'm',
    type: 'message',
    role: 'assistant',
    model: 'claude',
    content: [],
    stop_reason: null,
    usage,
  };
  const block = { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } };
  const delta = { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'hi' } };
  return [{ type: 'message_start', message }, block, delta].map(event).join('');
}

function messageEnd(outputTokens: number): string {
  const delta = { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: outputTokens } };
  return [{ type: 'content_block_stop', index: 0 }, delta, { type: 'message_stop' }].map(event).join('');
}

describe.each(['1', '2'])('a stream under a budget, with %s workers', (workers) => {
  let provider: ScriptedProvider;
  let gateway: TestGateway;
  let paths = 0;

  beforeAll(async () => {
    provider = await startScriptedProvider();
    provider.list('m');
    const { url } = provider;
    gateway = await startTestGateway({
      simulated: false,
      env: {
        ...{ ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: 'a-key', ANTHROPIC_MODELS: 'm', LLAMACPP_BASE_URL: url },
        ...{ GEMINI_BASE_URL: url, GEMINI_API_KEY: 'g-key', GEMINI_MODELS: 'm', GATEWAY_WORKERS: workers },
      },
    });
    await modelsListed(gateway);
    const pricing = { input_per_mtok: TOKEN * 1e6, output_per_mtok: TOKEN * 1e6 };
    for (const selector of ['anthropic/m', 'gemini/m', 'llamacpp/m', 'anthropic/claude'])
      await put('/admin/model-pricing-overrides', { selector, pricing });
  });
  afterAll(async () => {
    await gateway?.close();
    await provider?.close();
  });

  async function put(path: string, given: object): Promise<void> {
    expect((await gateway.fetch(path, { method: 'PUT', json: given })).ok, path).toBe(true);
  }

  /** Sends the request under a budget of its own, and returns the answer of the provider, to which nothing is written yet. */
  async function begin(path: string, given: object) {
    const userPath = `/corrected/${++paths}`;
    await put(`/admin/budgets/${encodeURIComponent(userPath)}/daily`, { amount: 100 });
    const called = Promise.withResolvers<ServerResponse>();
    provider.script((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      called.resolve(response);
    });
    const headers = { 'x-gateway-user-path': userPath };
    const answer = gateway.fetch(path, { json: given, headers });
    const row = async () => {
      const { budgets } = await json(await gateway.fetch('/admin/budgets'));
      return budgets.find(({ user_path }: { user_path: string }) => user_path === userPath);
    };
    const upstream = await called.promise;
    await expect.poll(async () => (await row()).reserved).toBeGreaterThan((prompt.length + 100) * TOKEN);
    const again = () => gateway.fetch(path, { json: given, headers });
    return { row, upstream, answer, again };
  }

  test.each([
    ['messages', '/v1/messages', { model: 'anthropic/m', ...body }],
    ['a chat completion', '/v1/chat/completions', { model: 'anthropic/m', ...body }],
    ['a response', '/v1/responses', { model: 'anthropic/m', input: prompt, max_output_tokens: 100, stream: true }],
    ['its own API', '/p/anthropic/v1/messages', { model: 'm', ...body }],
  ])('reserves the counted input once the provider has sent it, for %s', async (_name, path, given) => {
    const { row, upstream, answer } = await begin(path, given);
    upstream.write(messageStart(1_200));
    await expect.poll(async () => (await row()).reserved).toBeCloseTo(1_300 * TOKEN);
    upstream.end(messageEnd(40));
    await (await answer).text();
    await expect.poll(async () => (await row()).reserved).toBe(0);
    expect((await row()).spent).toBeCloseTo(1_240 * TOKEN);
  });

  test('reserves the counted input of a provider that repeats its count in every chunk', async () => {
    const { row, upstream, answer } = await begin('/v1/chat/completions', { model: 'gemini/m', ...body });
    const counted = (completion: number) => ({ prompt_tokens: 1_200, completion_tokens: completion });
    const choice = (content: string, reason: string | null) => ({
      index: 0,
      delta: { content },
      finish_reason: reason,
    });
    upstream.write(chunk({ choices: [choice('hi', null)], usage: counted(1) }));
    await expect.poll(async () => (await row()).reserved).toBeCloseTo(1_300 * TOKEN);
    upstream.end(`${chunk({ choices: [choice('', 'stop')], usage: counted(40) })}data: [DONE]\n\n`);
    await (await answer).text();
    await expect.poll(async () => (await row()).reserved).toBe(0);
    expect((await row()).spent).toBeCloseTo(1_240 * TOKEN);
  });

  test('reserves more when the provider counts more input than the request has bytes', async () => {
    const { row, upstream, answer } = await begin('/v1/messages', { model: 'anthropic/m', ...body });
    upstream.write(messageStart(20_000));
    await expect.poll(async () => (await row()).reserved).toBeCloseTo(20_100 * TOKEN);
    upstream.end(messageEnd(1));
    await (await answer).text();
  });

  test.each([
    ['a count of 0', '/v1/messages', 'anthropic/m', messageStart(0)],
    [
      'the first event of a provider that need not count the whole input in it',
      '/v1/chat/completions',
      'llamacpp/m',
      chunk({ choices: [{ index: 0, delta: { content: 'hi' } }], usage: { prompt_tokens: 7, completion_tokens: 1 } }),
    ],
  ])('keeps its reservation after %s', async (_name, path, model, first) => {
    const { row, upstream, answer } = await begin(path, { model, ...body });
    const { reserved } = await row();
    upstream.write(first);
    const pieces = (await answer).body?.values();
    expect((await pieces?.next())?.value.length).toBeGreaterThan(0);
    expect((await row()).reserved).toBe(reserved);
    await pieces?.return?.();
  });

  test('costs what its provider sends beyond the limit, and the next request is refused', async () => {
    const { row, upstream, answer, again } = await begin('/v1/chat/completions', { model: 'llamacpp/m', ...body });
    const { reserved } = await row();
    upstream.write(said('word ').repeat(500));
    const pieces = (await answer).body?.values();
    expect((await pieces?.next())?.value.length).toBeGreaterThan(0);
    const usage = { prompt_tokens: 1_000, completion_tokens: 120_000, total_tokens: 121_000 };
    const stop = { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] };
    expect((await row()).reserved).toBe(reserved);
    upstream.end(`${chunk(stop)}${chunk({ choices: [], usage })}data: [DONE]\n\n`);
    for await (const _ of pieces ?? []);
    await expect.poll(async () => (await row()).reserved).toBe(0);
    expect((await row()).spent).toBeCloseTo(121_000 * TOKEN);
    expect(await errorOf(await again(), 429)).toMatchObject({ code: 'budget_exceeded' });
  });
});
