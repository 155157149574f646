/** The record of an answer that was being collected for guardrails, and of which its client had got nothing. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { attemptStarted, chunkReceived, requestReceived } from '../../../src/events/catalogue/exchange.ts';
import { streamName } from '../../../src/events/event.ts';
import { eventsIn } from '../../e2e/recorded-events.ts';
import { startTestGateway } from '../../support/gateway.ts';
import { guard, saveGuardrail, withGuardrails } from '../../support/guarded.ts';
import { errorOf, eventsUntil, modelsListed, user } from '../../support/with-gateway.ts';
import { inLog } from '../../workflows/in-log.ts';
import { admin } from '../../workflows/made.ts';

let dataDir = '';
beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'chancery-unsent-'));
});
afterEach(() => rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 }));

async function recordedFailure(): Promise<unknown> {
  return (await eventsIn(dataDir)).find(({ type }) => type === 'exchange.failed')?.data;
}

describe('a stream that guardrails collect', () => {
  it('is recorded with the status 503 that its client gets when the gateway stops', async () => {
    const gateway = await startTestGateway({ dataDir, env: { ...withGuardrails, DRAIN_TIMEOUT: '0s' } });
    await modelsListed(gateway);
    await saveGuardrail(gateway, { name: 'words', type: 'string_replace', config: { rules: 'bad => good' } });
    await guard(gateway, '/collected', [{ ref: 'words', phase: 'response' }]);
    gateway.simulated.control.always({ holdAfterChunks: 3 });
    const headers = { 'x-gateway-user-path': '/collected' };
    const json = { model: 'llamacpp/simulated-small', messages: user('hello'), stream: true };
    const answer = gateway.fetch('/v1/chat/completions', { json, headers });
    await eventsUntil(gateway, 'types=chunk.received', () => true);
    await gateway.close();
    expect(await errorOf(await answer, 503)).toMatchObject({ code: 'stopping' });
    expect(await recordedFailure()).toMatchObject({ status: 503, reason: 'gateway_stopped' });
  });

  it('is recorded as unanswered after a crash', async () => {
    const model = 'simulated-small';
    const facts = { dialect: 'chat' as const, method: 'POST', path: '/v1/chat/completions', headers: {}, model };
    const more = { stream: true, authMethod: 'master_key' as const, capture: 'full' as const };
    const of = { attempt: 1, kind: 'primary' as const, provider: 'llamacpp', providerType: 'llamacpp', model };
    const request = Buffer.from(JSON.stringify({ model, stream: true, messages: user('hello') }));
    const chunk = Buffer.from('data: {"id":"c","choices":[{"index":0,"delta":{"content":"bad"}}]}\n\n');
    const events = [
      requestReceived.create({ ...facts, ...more }, admin, request),
      attemptStarted.create({ ...of, dialect: 'chat', guarded: true }, admin),
      chunkReceived.create({ attempt: 1, index: 0 }, admin, chunk),
    ];
    const stream = streamName('exchange', 'open');
    await inLog(dataDir, (log) => log.append([{ stream, events, expectedRevision: 'noStream' }]));
    await (await startTestGateway({ dataDir })).close();
    expect(await recordedFailure()).toMatchObject({ status: 0, reason: 'gateway_stopped' });
  });
});
