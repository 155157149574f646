/** Background responses without any output when the gateway stopped: how the next start resumes them. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { newKey, put } from '../support/managed-keys.ts';
import { exchangeOf, json } from '../support/with-gateway.ts';

const model = 'llamacpp/simulated-small';
const chat = { path: '/v1/chat/completions' };
const provider = createSimulatedProvider({ responses: 'absent' });
let upstream = '';
let dataDir = '';
let running: TestGateway | undefined;

beforeAll(async () => {
  upstream = await provider.listen();
});
beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'chancery-taken-up-'));
});
afterEach(async () => {
  provider.control.clear();
  provider.control.release();
  await running?.close();
  running = undefined;
  rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
});
afterAll(() => provider.close());

async function start(env: Record<string, string> = { LLAMACPP_BASE_URL: upstream }): Promise<TestGateway> {
  await running?.close();
  const always = { DRAIN_TIMEOUT: '0s', RETRY_MAX_RETRIES: '0' };
  running = await startTestGateway({ simulated: false, dataDir, env: { ...always, ...env } });
  return running;
}

const calls = () => provider.requests.filter(({ method, path }) => method === 'POST' && path === chat.path).length;

/** A response that the provider does not answer. */
async function promised(gateway: Pick<TestGateway, 'fetch'>, body: object = {}): Promise<string> {
  const before = calls();
  provider.control.next({ hang: true }, chat);
  const given = { model, background: true, input: 'Reply with exactly: hello', ...body };
  const { id, status } = await json(await gateway.fetch('/v1/responses', { json: given }));
  expect(status).toBe('queued');
  await expect.poll(calls).toBe(before + 1);
  return id;
}

const get = async (gateway: TestGateway, id: string) => json(await gateway.fetch(`/v1/responses/${id}`));

/** The response once it has ended: its stream ends when it does. */
async function ended(gateway: TestGateway, id: string) {
  const signal = AbortSignal.timeout(4000);
  await (await gateway.fetch(`/v1/responses/${id}?stream=true`, { signal })).text();
  return get(gateway, id);
}

describe('a background response that is resumed', () => {
  it('has on record what its provider received in each attempt, before and after the restart', async () => {
    const all = () => provider.requests.filter(({ method }) => method === 'POST');
    const before = all().length;
    const called = calls();
    provider.control.next({ hang: true }, chat);
    const given = { model, background: true, input: 'Reply with exactly: hello' };
    const answer = await (await start()).fetch('/v1/responses', { json: given });
    const { id } = await json(answer);
    await expect.poll(calls).toBe(called + 1);
    const gateway = await start();
    expect(await ended(gateway, id)).toMatchObject({ status: 'completed' });
    const got = all().slice(before);
    expect(got.length).toBeGreaterThan(1);
    for (const [place, { bytes }] of got.entries()) {
      const query = `log_id=${exchangeOf(answer)}&attempt=${place + 1}`;
      const recorded = await json(await gateway.fetch(`/admin/audit/provider-request?${query}`));
      expect(recorded).toMatchObject({ recorded: 'body', body: bytes.toString() });
    }
  });

  it('is resumed each time the gateway stops before any output', async () => {
    const id = await promised(await start());
    for (let round = 0; round < 2; round++) {
      const before = calls();
      provider.control.next({ hang: true }, chat);
      await start();
      await expect.poll(calls).toBe(before + 1);
    }
    const made = await ended(await start(), id);
    expect(made).toMatchObject({ id, status: 'completed' });
    expect(made.output[0].content[0].text).toBe('hello');
  });

  it('ends as failed when its provider was removed', async () => {
    const id = await promised(await start());
    const other = { OPENAI_BASE_URL: upstream, OPENAI_API_KEY: 'k' };
    const failed = await ended(await start(other), id);
    expect(failed).toMatchObject({ id, status: 'failed', error: { code: 'model_not_found' } });
  });

  it('ends as failed when its previous response was deleted', async () => {
    const first = await start();
    const before = await json(await first.fetch('/v1/responses', { json: { model, input: 'hi' } }));
    const id = await promised(first, { previous_response_id: before.id });
    await first.fetch(`/v1/responses/${before.id}`, { method: 'DELETE' });
    const failed = await ended(await start(), id);
    expect(failed).toMatchObject({ id, status: 'failed', error: { code: 'previous_response_not_found' } });
  });

  it("can be cancelled while it waits for its provider's list of models", async () => {
    const id = await promised(await start());
    provider.control.always({ hang: true }, { path: '/v1/models' });
    const before = calls();
    const second = await start({ SIMULATED_BASE_URL: upstream });
    const cancelled = await json(await second.fetch(`/v1/responses/${id}/cancel`, { json: {} }));
    expect(cancelled).toMatchObject({ id, status: 'cancelled' });
    provider.control.clear();
    const third = await start();
    expect(await get(third, id)).toEqual(cancelled);
    expect(calls()).toBe(before);
  });

  it('is completed for the key that requested it', async () => {
    const first = await start();
    const key = await newKey(first, { user_path: '/team' });
    const ids = [await promised(key), await promised(key)];
    const again = await start();
    for (const id of ids) expect(await ended(again, id)).toMatchObject({ id, status: 'completed' });
  });

  it('ends as failed when the key that requested it was deactivated', async () => {
    const first = await start();
    const key = await newKey(first);
    const id = await promised(key);
    await first.fetch(`/admin/auth-keys/${key.id}/deactivate`, { method: 'POST' });
    const before = calls();
    const failed = await ended(await start(), id);
    expect(failed).toMatchObject({ id, status: 'failed', error: { code: 'key_not_active' } });
    expect(calls()).toBe(before);
  });

  it('ends as failed when the key that requested it may not use the model any more', async () => {
    const first = await start();
    const key = await newKey(first);
    const id = await promised(key);
    await first.fetch(`/admin/auth-keys/${key.id}/allowed-models`, put({ allowed_models: ['simulated-large'] }));
    const failed = await ended(await start(), id);
    expect(failed).toMatchObject({ id, status: 'failed', error: { code: 'model_access_denied' } });
  });
});
