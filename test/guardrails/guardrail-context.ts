/** A compiled guardrail and the context of an exchange, for tests. */
import type { EvaluationContext, GuardrailServices } from '../../src/commands/guardrails/guardrail-type.ts';
import type { GuardrailStep } from '../../src/commands/guardrails/phases/guardrail-step.ts';
import { Placeholders } from '../../src/commands/guardrails/placeholders.ts';
import { guardrailTypeNamed } from '../../src/commands/guardrails/types/known-types.ts';

export function context(change: Partial<EvaluationContext> = {}): EvaluationContext {
  return {
    requestId: 'request-1',
    userPath: '/team/jane',
    model: 'gpt-5',
    provider: 'openai',
    labels: ['blue', 'green'],
    now: new Date('2026-03-04T22:05:06Z'),
    signal: new AbortController().signal,
    placeholders: new Placeholders(),
    ...change,
  };
}

export const services: GuardrailServices = {
  name: 'test',
  userPath: undefined,
  callModel: () => Promise.reject(new Error('this test calls no model')),
  fetch: (url, init) => fetch(url, init),
};

export function guardrail(type: string, config: object, change: Partial<GuardrailServices> = {}) {
  return readConfig(type, config).compile({ ...services, ...change });
}

function readConfig(type: string, config: object) {
  const read = guardrailTypeNamed(type)?.read(config);
  if (read?.ok !== true) throw new Error(read?.problem ?? `there is no type ${type}`);
  return read;
}

export function step(
  type: string,
  config: object,
  change: Partial<GuardrailStep> = {},
  used: Partial<GuardrailServices> = {},
): GuardrailStep {
  return {
    name: type,
    type,
    step: 0,
    failMode: 'closed',
    timeoutMs: 0,
    mutating: readConfig(type, config).mutating,
    guardrail: guardrail(type, config, used),
    ...change,
  };
}

export function problemOf(type: string, config: object): string | undefined {
  const read = guardrailTypeNamed(type)?.read(config);
  return read?.ok === false ? read.problem : undefined;
}
