/** A response stream that fails has the same error with guardrails as without them. */
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { Fault } from '../../../infra/simulated-provider/fault.ts';
import { guard, saveGuardrail, withGuardrails } from '../../support/guarded.ts';
import { dataOf, withGateway } from '../../support/with-gateway.ts';

const gateway = withGateway({
  simulated: { responses: 'absent' },
  env: { ...withGuardrails, LLAMACPP_STREAM_IDLE_TIMEOUT: '1s', CIRCUIT_BREAKER_ENABLED: 'false' },
});
afterEach(() => gateway.simulated.control.clear());

beforeAll(async () => {
  const config = { rules: '∅∅ => nothing', roles: ['user', 'assistant'] };
  await saveGuardrail(gateway, { name: 'codenames', type: 'string_replace', config });
  await guard(gateway, '/arriving', [{ ref: 'codenames', phase: 'stream' }]);
});

async function errorsOf(userPath: string, fault: Fault) {
  gateway.simulated.control.next(fault, { path: '/v1/chat/completions' });
  const answer = await gateway.post(
    '/v1/responses',
    { model: 'simulated-small', input: 'Tell me something.', stream: true },
    { headers: { 'x-gateway-user-path': userPath } },
  );
  const events = dataOf(await answer.text());
  const { sequence_number: _own, ...error } = events.find(({ type }) => type === 'error') ?? {};
  const failed = events.find(({ type }) => type === 'response.failed')?.response;
  return { error, failed: { status: failed?.status, error: failed?.error } };
}

describe('a translated response stream with guardrails', () => {
  it.each<[string, Fault]>([
    ['whose provider reports an error without a code', { errorInStream: 4, message: 'out of memory' }],
    ['whose provider reports an error with a code', { errorInStream: 4, message: 'out of memory', code: 'oom' }],
    ['whose provider is limited', { errorInStream: 4, message: 'Slow down.', code: 'rate_limit_exceeded' }],
    ['that is cut', { cutAfterChunks: 4 }],
    ['that ends before its finish reason', { endWithoutFinish: true, endWithoutDone: true }],
    ['that falls silent', { holdAfterChunks: 4 }],
    ['with an event that is not JSON', { garbage: true, words: 5 }],
  ])('%s has the error that it has without guardrails', async (_what, fault) => {
    const { error, failed } = await errorsOf('/none', fault);
    expect(error).toMatchObject({ code: expect.any(String), error: { code: expect.any(String) } });
    expect(await errorsOf('/arriving', fault)).toEqual({ error, failed });
  });
});
