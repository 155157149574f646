/** A restart keeps the workflow with which a request was recorded. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { attemptStarted, chunkReceived, requestReceived } from '../../src/events/catalogue/exchange.ts';
import { streamName } from '../../src/events/event.ts';
import { eventsIn } from '../e2e/recorded-events.ts';
import { startTestGateway } from '../support/gateway.ts';
import { json } from '../support/with-gateway.ts';
import { inLog, workflowWrite } from '../workflows/in-log.ts';
import { admin } from '../workflows/made.ts';

let dataDir = '';
beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'chancery-workflow-restart-'));
});
afterEach(() => rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 }));

async function typesOf(stream: string): Promise<string[]> {
  return (await eventsIn(dataDir)).filter((event) => event.stream === stream).map(({ type }) => type);
}

describe('a background response that is resumed', () => {
  it('keeps the version of its workflow, which a newer one has superseded', async () => {
    const provider = createSimulatedProvider({ responses: 'absent' });
    const LLAMACPP_BASE_URL = await provider.listen();
    const env = { LLAMACPP_BASE_URL, DRAIN_TIMEOUT: '0s', RETRY_MAX_RETRIES: '0' };
    const start = () => startTestGateway({ simulated: false, dataDir, env });
    const chat = { path: '/v1/chat/completions' };
    const calls = () => provider.requests.filter(({ method, path }) => method === 'POST' && path === chat.path).length;
    await inLog(dataDir, (log) =>
      log.append([workflowWrite({ id: 'old', userPath: '/team', features: { usage: false } })]),
    );

    const first = await start();
    provider.control.next({ hang: true }, chat);
    const headers = { 'x-gateway-user-path': '/team' };
    const body = { model: 'llamacpp/simulated-small', background: true, input: 'Reply with exactly: hello' };
    const queued = await first.fetch('/v1/responses', { json: body, headers });
    const { id, status } = await json(queued);
    expect(status).toBe('queued');
    await expect.poll(calls).toBe(1);
    await first.close();
    await inLog(dataDir, (log) => log.append([workflowWrite({ id: 'new', version: 2, userPath: '/team' })]));

    const second = await start();
    await (await second.fetch(`/v1/responses/${id}?stream=true`, { signal: AbortSignal.timeout(10_000) })).text();
    expect(await json(await second.fetch(`/v1/responses/${id}`))).toMatchObject({ status: 'completed' });
    const types = await typesOf(`exchange-${queued.headers.get('x-exchange-id')}`);
    expect(types).toContain('exchange.resumed');
    expect(types).toContain('exchange.completed');
    expect(types).not.toContain('usage.recorded');
    await second.close();
    await provider.close();
  });
});

describe('an exchange that a crash left open', () => {
  it('is closed without usage when its workflow records none, and with usage otherwise', async () => {
    const model = 'simulated-small';
    const answer = {
      id: 'chatcmpl-1',
      object: 'chat.completion',
      created: 1,
      model,
      choices: [{ index: 0, message: { role: 'assistant', content: 'hi' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 },
    };
    const left = (id: string, off: readonly 'usage'[]) => {
      const facts = { dialect: 'chat' as const, method: 'POST', path: '/v1/chat/completions', headers: {}, model };
      const workflow = { id: 'w', version: 1, scope: 'path:/team', off };
      const more = { stream: false, authMethod: 'master_key' as const, capture: 'full' as const, workflow };
      const request = Buffer.from(JSON.stringify({ model, messages: [{ role: 'user', content: 'hello' }] }));
      const of = { attempt: 1, kind: 'primary' as const, provider: 'llamacpp', providerType: 'llamacpp', model };
      return {
        stream: streamName('exchange', id),
        expectedRevision: 'noStream' as const,
        events: [
          requestReceived.create({ ...facts, ...more }, admin, request),
          attemptStarted.create({ ...of, dialect: 'chat' }, admin),
          chunkReceived.create({ attempt: 1, index: 0 }, admin, Buffer.from(JSON.stringify(answer))),
        ],
      };
    };
    await inLog(dataDir, (log) => log.append([left('counted', []), left('uncounted', ['usage'])]));
    await (await startTestGateway({ dataDir })).close();
    expect(await typesOf('exchange-counted')).toEqual(expect.arrayContaining(['exchange.completed', 'usage.recorded']));
    const types = await typesOf('exchange-uncounted');
    expect(types).toContain('exchange.completed');
    expect(types).not.toContain('usage.recorded');
  });
});
