/**
 * A gateway in front of a provider that keeps files and batches, and outlives the gateway; and functions for batches.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect } from 'vitest';
import {
  createSimulatedProvider,
  type SimulatedProvider,
  type SimulatedProviderOptions,
} from '../../infra/simulated-provider/server.ts';
import { type RecordedEvent, streamName } from '../../src/events/event.ts';
import { openLog } from '../../src/events/open-log.ts';
import { startTestGateway, type TestGateway } from './gateway.ts';
import { put } from './managed-keys.ts';
import { exchangeOf, json, type LoggedEvent, modelsListed } from './with-gateway.ts';

export const MODEL = 'simulated-small';

export interface LastingProvider {
  readonly provider: SimulatedProvider;
  readonly url: string;
  /** The gateway that runs now, registered as `openai`. */
  readonly gateway: TestGateway;
  /** Stops it and starts another one on the same data. */
  restart(between?: (dataDir: string) => void): Promise<void>;
  /** All recorded events of an exchange, once none can be added: restarts the gateway. */
  recordedAfterStop(exchange: string): Promise<RecordedEvent[]>;
}

export function withLastingProvider(options: SimulatedProviderOptions = {}): LastingProvider {
  const provider = createSimulatedProvider({ apiKey: 'sk-lasting', ...options });
  const dataDir = mkdtempSync(join(tmpdir(), 'chancery-lasting-'));
  let url = '';
  let running: TestGateway | undefined;
  const start = async () => {
    const env = { OPENAI_BASE_URL: url, OPENAI_API_KEY: 'sk-lasting', RETRY_MAX_RETRIES: '0' };
    running = await startTestGateway({ dataDir, simulated: false, env });
    await modelsListed(running);
  };
  beforeAll(async () => {
    url = await provider.listen();
    await start();
  });
  afterEach(() => {
    provider.control.clear();
    provider.control.release();
  });
  afterAll(async () => {
    await running?.close();
    await provider.close();
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
  });
  return {
    provider,
    get url() {
      return url;
    },
    get gateway() {
      if (running === undefined) throw new Error('the gateway runs only within tests');
      return running;
    },
    async restart(between) {
      await running?.close();
      between?.(dataDir);
      await start();
    },
    async recordedAfterStop(exchange) {
      await running?.close();
      const log = await openLog(`file:${join(dataDir, 'log')}`);
      const events = [];
      for await (const event of log.readStream(streamName('exchange', exchange))) events.push(event);
      await log.close();
      await start();
      return events;
    },
  };
}

type Gateway = Pick<TestGateway, 'fetch'>;

export function line(body: object = {}, more: object = {}): object {
  const chat = { model: MODEL, messages: [{ role: 'user', content: 'Reply with exactly: hello' }], ...body };
  return { custom_id: 'a', method: 'POST', url: '/v1/chat/completions', body: chat, ...more };
}

/** @returns the id of a file with these lines, each an object or its text */
export async function upload(gateway: Gateway, lines: readonly (object | string)[], init: RequestInit = {}) {
  const text = lines.map((one) => (typeof one === 'string' ? one : JSON.stringify(one))).join('\n');
  const form = new FormData();
  form.set('purpose', 'batch');
  form.set('provider', 'openai');
  form.set('file', new File([`${text}\n`], 'input.jsonl'));
  const answer = await gateway.fetch('/v1/files', { ...init, method: 'POST', body: form });
  expect(answer.status, await answer.clone().text()).toBe(200);
  return String((await json(answer)).id);
}

export function createBatch(gateway: Gateway, input_file_id: string, init: RequestInit = {}): Promise<Response> {
  return gateway.fetch('/v1/batches', { ...init, json: { input_file_id, endpoint: '/v1/chat/completions' } });
}

/** A batch that is made. @returns its id and that of its exchange */
export async function newBatch(gateway: Gateway, lines: readonly object[], init: RequestInit = {}) {
  const answer = await createBatch(gateway, await upload(gateway, lines, init), init);
  expect(answer.status, await answer.clone().text()).toBe(200);
  return { id: String((await json(answer)).id), exchange: exchangeOf(answer) };
}

export const at = (userPath: string): RequestInit => ({ headers: { 'x-gateway-user-path': userPath } });

export async function setPrice(gateway: Gateway, selector: string, pricing: object): Promise<void> {
  const answer = await gateway.fetch('/admin/model-pricing-overrides', put({ selector, pricing }));
  expect(answer.status, await answer.clone().text()).toBe(200);
}

export async function setBudget(gateway: Gateway, userPath: string, amount: number): Promise<void> {
  const answer = await gateway.fetch(`/admin/budgets/${encodeURIComponent(userPath)}/daily`, put({ amount }));
  expect(answer.status, await answer.clone().text()).toBe(200);
}

/** US dollars. */
export async function spentOf(gateway: Gateway, userPath: string): Promise<number> {
  const { budgets } = await json(await gateway.fetch('/admin/budgets'));
  return budgets.find((one: { user_path: string }) => one.user_path === userPath).spent;
}

export const usagesIn = (events: readonly LoggedEvent[]) =>
  events.filter(({ type }) => type === 'usage.recorded').map(({ data }) => data);
