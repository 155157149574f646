/** An evaluation that the gateway or the client ended decides nothing, also when its guardrail may be skipped. */
import { expect, it } from 'vitest';
import { ExchangeRecord } from '../../../src/commands/exchange/exchange-record.ts';
import { ExchangeGuard } from '../../../src/commands/exchange/guarding/exchange-guard.ts';
import { guardedBodies } from '../../../src/commands/guardrails/body/guarded-bodies.ts';
import type { GuardrailStep } from '../../../src/commands/guardrails/phases/guardrail-step.ts';
import { Refusal } from '../../../src/commands/refusal.ts';
import { MemoryLog } from '../../../src/events/memory/memory-log.ts';

const body = { choices: [{ message: { role: 'assistant', content: 'unjudged' } }] };

it.each([
  ['gateway_stopping', 'stopping'],
  ['client_gone', 'client_disconnected'],
])('ends with the refusal of %s', async (reason, code) => {
  const ended = new AbortController();
  const judge: GuardrailStep = {
    ...{ name: 'judge', type: 'llm_judge', step: 0, failMode: 'open', timeoutMs: 0, mutating: false },
    guardrail: {
      response: async (_parts, { signal }) => {
        ended.abort(reason);
        throw signal.reason;
      },
    },
  };
  const guard = new ExchangeGuard({
    steps: { prompt: [], response: [judge], collected: [judge], stream: [] },
    record: new ExchangeRecord(new MemoryLog(), 'id', { actor: 'master' }),
    keepBodies: true,
    facts: { requestId: 'r', userPath: '/', model: 'm', provider: 'p', labels: [] },
    placeholders: [],
    signal: () => ended.signal,
  });
  const of = guardedBodies.chat.answer;
  if (of === undefined) throw new Error('chat answers have texts');
  const evaluated = guard.answer('response', [judge], 1, { body, of });
  await expect(evaluated).rejects.toSatisfy((error) => error instanceof Refusal && error.code === code);
});
