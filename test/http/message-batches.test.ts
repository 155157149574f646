/** Anthropic's batches, by its own client: at a provider with its API, and at one with OpenAI's. */
import Anthropic from '@anthropic-ai/sdk';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { setBudget, setPrice, spentOf } from '../support/batches.ts';
import { MASTER_KEY } from '../support/gateway.ts';
import { type ManagedKey, newKey } from '../support/managed-keys.ts';
import { type MessageBatchStore, messageBatchStore } from '../support/message-batch-store.ts';
import { type ScriptedProvider, startScriptedProvider } from '../support/scripted-provider.ts';
import { eventsUntil, json, modelsListed, withGateway } from '../support/with-gateway.ts';

const CLAUDE = 'anthropic/claude-scripted';
const OTHER = 'openai/simulated-small';
const openai = createSimulatedProvider({ apiKey: 'sk-openai' });
const store: MessageBatchStore = messageBatchStore('claude-scripted');
let anthropic: ScriptedProvider;

const gateway = withGateway(async () => {
  anthropic = await startScriptedProvider();
  anthropic.script(store.script);
  const url = await openai.listen();
  return {
    register: () => ({
      ANTHROPIC_BASE_URL: anthropic.url,
      ANTHROPIC_API_KEY: 'sk-ant',
      OPENAI_BASE_URL: url,
      OPENAI_API_KEY: 'sk-openai',
      RETRY_MAX_RETRIES: '0',
    }),
  };
});
let client: Anthropic;
beforeAll(async () => {
  await modelsListed(gateway, 2);
  client = clientOf(MASTER_KEY);
});
afterEach(() => {
  openai.control.clear();
  openai.control.release();
});
afterAll(async () => {
  await anthropic.close();
  await openai.close();
});

function clientOf(apiKey: string): Anthropic {
  return new Anthropic({ baseURL: gateway.url, apiKey, maxRetries: 0 });
}

const messagesLine = (custom_id: string, model: string, more: object = {}) => ({
  custom_id,
  params: {
    model,
    max_tokens: 100,
    messages: [{ role: 'user' as const, content: `Reply with exactly: ${custom_id}` }],
    ...more,
  },
});

async function errorOf(call: PromiseLike<unknown>): Promise<InstanceType<typeof Anthropic.APIError>> {
  try {
    await call;
  } catch (error) {
    if (error instanceof Anthropic.APIError) return error;
    throw error;
  }
  throw new Error('the call succeeded');
}

async function resultsOf(id: string, by = client) {
  const results = [];
  for await (const result of await by.messages.batches.results(id)) results.push(result);
  return results;
}

async function ended(id: string): Promise<Anthropic.Messages.MessageBatch> {
  await expect
    .poll(async () => (await client.messages.batches.retrieve(id)).processing_status, { timeout: 20_000 })
    .toBe('ended');
  return client.messages.batches.retrieve(id);
}

/** The events of the exchange that created the batch, once all of it is charged. */
async function settled(id: string) {
  const [tracked] = await eventsUntil(gateway, `stream=batch-${id}`, () => true);
  return eventsUntil(gateway, `stream=exchange-${tracked?.data.exchangeId}`, ({ type }) => type === 'usage.settled');
}

describe("a batch at a provider with Anthropic's API", () => {
  it('is created there byte for byte but for the names of its models, and returned unchanged', async () => {
    const batch = await client.messages.batches.create({
      requests: [messagesLine('a', CLAUDE), messagesLine('b', CLAUDE)],
    });
    expect(batch).toMatchObject({ type: 'message_batch', processing_status: 'in_progress', results_url: null });
    expect(JSON.parse(store.bodyOf(batch.id))).toEqual({
      requests: [messagesLine('a', 'claude-scripted'), messagesLine('b', 'claude-scripted')],
    });
    expect(anthropic.last().headers).toMatchObject({
      'x-api-key': 'sk-ant',
      'anthropic-version': expect.stringMatching(/^\d{4}-/),
    });
    store.end(batch.id, { id: 'b', type: 'errored' });
    expect(await client.messages.batches.retrieve(batch.id)).toMatchObject({
      id: batch.id,
      processing_status: 'ended',
      results_url: `/v1/messages/batches/${batch.id}/results`,
    });
    expect(await resultsOf(batch.id)).toMatchObject([
      { custom_id: 'a', result: { type: 'succeeded', message: { content: [{ text: 'answer to a' }] } } },
      {
        custom_id: 'b',
        result: { type: 'errored', error: { error: { type: 'invalid_request_error', message: 'odd' } } },
      },
    ]);
    const usage = (await settled(batch.id)).filter(({ type }) => type === 'usage.recorded');
    expect(usage.map(({ data }) => data)).toMatchObject([
      {
        provider: 'anthropic',
        model: 'claude-scripted',
        endpoint: '/v1/messages/batches',
        answers: 1,
        inputTokens: 11,
      },
    ]);
  });

  it('is cancelled, and can be deleted when it has ended', async () => {
    const { id } = await client.messages.batches.create({ requests: [messagesLine('a', CLAUDE)] });
    expect(await client.messages.batches.cancel(id)).toMatchObject({ id, processing_status: 'canceling' });
    expect(await errorOf(client.messages.batches.delete(id))).toMatchObject({ status: 400 });
    const early = await gateway.fetch(`/v1/messages/batches/${id}/results`);
    expect(early.status).toBe(409);
    store.end(id);
    expect(await client.messages.batches.delete(id)).toEqual({ id, type: 'message_batch_deleted' });
    expect(await errorOf(client.messages.batches.retrieve(id))).toMatchObject({ status: 404 });
  });

  it('that was not created here is visible to callers that see everything', async () => {
    const { id } = await json(
      await fetch(`${anthropic.url}/messages/batches`, { method: 'POST', body: JSON.stringify({ requests: [] }) }),
    );
    expect(await client.messages.batches.retrieve(id)).toMatchObject({ id });
    const key = await newKey(gateway, { user_path: '/elsewhere' });
    expect(await errorOf(clientOf(key.value).messages.batches.retrieve(id))).toMatchObject({ status: 404 });
  });
});

describe("a batch at a provider with OpenAI's API", () => {
  it('consists of chat completions, and its results are messages', async () => {
    const batch = await client.messages.batches.create({
      requests: [
        messagesLine('one', OTHER),
        messagesLine('two', OTHER, { system: 'Be brief.', stop_sequences: ['STOP'] }),
      ],
    });
    expect(batch.id).toMatch(/^msgbatch_/);
    expect(batch).toMatchObject({ type: 'message_batch', processing_status: 'in_progress' });
    const over = await ended(batch.id);
    expect(over).toMatchObject({ request_counts: { processing: 0, succeeded: 2, errored: 0 }, archived_at: null });
    expect(Date.parse(over.expires_at) - Date.parse(over.created_at)).toBe(86_400_000);
    const results = await resultsOf(batch.id);
    expect(results).toMatchObject([
      {
        custom_id: 'one',
        result: {
          type: 'succeeded',
          message: {
            type: 'message',
            role: 'assistant',
            stop_reason: 'end_turn',
            content: [{ type: 'text', text: 'one' }],
          },
        },
      },
      { custom_id: 'two', result: { type: 'succeeded' } },
    ]);
    // The same batch in OpenAI's API.
    const id = batch.id.slice('msg'.length);
    const same = await json(await gateway.fetch(`/v1/batches/${id}`));
    expect(same).toMatchObject({ id, object: 'batch', endpoint: '/v1/chat/completions', provider: 'openai' });
    const lines = await (await gateway.fetch(`/v1/files/${same.input_file_id}/content`)).text();
    expect(JSON.parse(lines.split('\n')[1] ?? '')).toMatchObject({
      custom_id: 'two',
      url: '/v1/chat/completions',
      body: { model: 'simulated-small', stop: ['STOP'], messages: [{ role: 'system', content: 'Be brief.' }, {}] },
    });
    const usage = (await settled(id)).filter(({ type }) => type === 'usage.recorded');
    expect(usage.map(({ data }) => data)).toMatchObject([{ provider: 'openai', model: 'simulated-small', answers: 2 }]);
    expect(await client.messages.batches.delete(batch.id)).toMatchObject({ type: 'message_batch_deleted' });
    expect(await errorOf(client.messages.batches.retrieve(batch.id))).toMatchObject({ status: 404 });
  });

  it('is cancelled, and lists every request that was not made', async () => {
    openai.control.always({ holdBackground: 'in_progress' }, { path: '/v1/batches' });
    const { id } = await client.messages.batches.create({
      requests: [messagesLine('a', OTHER), messagesLine('b', OTHER)],
    });
    expect(await errorOf(client.messages.batches.delete(id))).toMatchObject({ status: 400 });
    expect(await client.messages.batches.cancel(id)).toMatchObject({ processing_status: 'canceling' });
    const over = await ended(id);
    expect(over.cancel_initiated_at).toMatch(/^\d{4}-/);
    expect(over.request_counts).toMatchObject({ succeeded: 0, canceled: 2 });
    expect(await resultsOf(id)).toEqual([
      { custom_id: 'a', result: { type: 'canceled' } },
      { custom_id: 'b', result: { type: 'canceled' } },
    ]);
  });

  it('of another API is not found', async () => {
    const made = await gateway.fetch('/v1/batches', {
      json: { requests: [{ custom_id: 'a', url: '/v1/chat/completions', body: { model: OTHER, messages: [] } }] },
    });
    const { id } = await json(made);
    expect(await errorOf(client.messages.batches.retrieve(`msg${id}`))).toMatchObject({ status: 404 });
    const listed = await client.messages.batches.list();
    expect(listed.data.map((batch) => batch.id)).not.toContain(`msg${id}`);
  });
});

describe('POST /v1/messages/batches', () => {
  const create = (requests: unknown, by = client) => by.post('/v1/messages/batches', { body: { requests } });

  it.each<[string, unknown, string]>([
    ['nothing', undefined, 'requests'],
    ['no request', [], 'requests'],
    ['no custom_id', [{ params: messagesLine('a', CLAUDE).params }], 'requests[0].custom_id'],
    ['the same custom_id twice', [messagesLine('a', CLAUDE), messagesLine('a', CLAUDE)], 'requests[1].custom_id'],
    [
      'no model',
      [messagesLine('a', CLAUDE), { custom_id: 'b', params: { max_tokens: 1, messages: [] } }],
      'requests[1].params.model',
    ],
    ['no max_tokens', [messagesLine('a', CLAUDE, { max_tokens: undefined })], 'requests[0].params.max_tokens'],
    ['a stream', [messagesLine('a', CLAUDE, { stream: true })], 'requests[0].params.stream'],
    ['models of two providers', [messagesLine('a', CLAUDE), messagesLine('b', OTHER)], 'requests[1].params.model'],
  ])('refuses %s, and names it', async (_what, requests, param) => {
    const made = () => store.requests.filter((one) => one.startsWith('POST')).length;
    const before = made();
    const error = await errorOf(create(requests));
    expect(error.status).toBe(400);
    expect(error.error).toMatchObject({ type: 'error', error: { type: 'invalid_request_error', details: { param } } });
    expect(made()).toBe(before);
  });

  it('refuses features that a provider of chat completions does not support', async () => {
    expect(await errorOf(create([messagesLine('a', OTHER, { container: 'c' })]))).toMatchObject({ status: 400 });
  });

  it('checks the models of a key, and the objects that it may name', async () => {
    const key = await newKey(gateway, { user_path: '/few', allowed_models: [OTHER] });
    const by = clientOf(key.value);
    expect(await errorOf(create([messagesLine('a', CLAUDE)], by))).toMatchObject({ status: 400 });
    const container = await newKey(gateway, { user_path: '/named' });
    expect(
      await errorOf(create([messagesLine('a', CLAUDE, { container: 'container_strange' })], clientOf(container.value))),
    ).toMatchObject({ status: 400 });
  });

  it('reserves the expected cost of all requests, and charges the actual cost', async () => {
    await setPrice(gateway, OTHER, { per_request: 1 });
    await setBudget(gateway, '/batched', 3);
    const key = await newKey(gateway, { user_path: '/batched' });
    const by = clientOf(key.value);
    openai.control.always({ holdBackground: 'in_progress' }, { path: '/v1/batches' });
    const { id } = await by.messages.batches.create({ requests: [messagesLine('a', OTHER), messagesLine('b', OTHER)] });
    expect(await errorOf(create([messagesLine('a', OTHER), messagesLine('b', OTHER)], by))).toMatchObject({
      status: 429,
    });
    openai.control.clear();
    openai.control.release();
    await ended(id);
    await settled(id.slice('msg'.length));
    await expect.poll(() => spentOf(gateway, '/batched')).toBe(2);
  });
});

describe('batches of messages', () => {
  let ann: ManagedKey;
  let bob: ManagedKey;
  beforeAll(async () => {
    ann = await newKey(gateway, { user_path: '/tenant/ann' });
    bob = await newKey(gateway, { user_path: '/tenant/bob' });
  });

  it.each([[CLAUDE], [OTHER]])('at %s are visible to their owners only', async (model) => {
    openai.control.always({ holdBackground: 'in_progress' }, { path: '/v1/batches' });
    const { id } = await clientOf(ann.value).messages.batches.create({ requests: [messagesLine('a', model)] });
    const { batches } = clientOf(bob.value).messages;
    for (const call of [batches.retrieve(id), batches.cancel(id), batches.delete(id)]) {
      expect(await errorOf(call)).toMatchObject({ status: 404, error: { error: { type: 'not_found_error' } } });
    }
    expect((await bob.fetch(`/v1/messages/batches/${id}/results`)).status).toBe(404);
    const theirs = async (key: ManagedKey) => {
      const ids: string[] = [];
      for await (const batch of clientOf(key.value).messages.batches.list({ limit: 1 })) ids.push(batch.id);
      return ids;
    };
    expect(await theirs(ann)).toContain(id);
    expect(await theirs(bob)).toEqual([]);
  });

  it('are in one list, the newest first, page by page', async () => {
    const made: string[] = [];
    for (const model of [CLAUDE, OTHER, CLAUDE]) {
      made.unshift((await clientOf(ann.value).messages.batches.create({ requests: [messagesLine('a', model)] })).id);
    }
    const ids: string[] = [];
    for await (const batch of clientOf(ann.value).messages.batches.list({ limit: 2 })) ids.push(batch.id);
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids).toEqual(expect.arrayContaining(made));
    expect((await gateway.fetch('/v1/messages/batches?limit=0')).status).toBe(400);
    expect((await gateway.fetch('/v1/messages/batches?after_id=none')).status).toBe(404);
  });
});
