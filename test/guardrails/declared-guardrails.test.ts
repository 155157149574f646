import { describe, expect, it } from 'vitest';
import { declaredGuardrails, type GuardrailRule } from '../../src/commands/guardrails/directory.ts';
import { prepareGuardrail } from '../../src/commands/guardrails/guardrail.ts';
import { stepProblem } from '../../src/commands/workflows/chains.ts';
import { types } from '../workflows/made.ts';

const prepare: Parameters<typeof declaredGuardrails>[2] = (guardrail) =>
  prepareGuardrail(guardrail, {
    types,
    openSecret: () => '',
    servicesOf: ({ name, userPath }) => ({
      name,
      userPath,
      callModel: () => Promise.reject(new Error('no model')),
      fetch: () => Promise.reject(new Error('no server')),
    }),
  });
const declared = (...rules: readonly GuardrailRule[]) => declaredGuardrails(rules, types, prepare);

describe('guardrails of the configuration', () => {
  it('are steps of the default workflow in the order of their rules', () => {
    const { guardrails, steps } = declared(
      { name: 'a', type: 'watch', config: {} },
      { name: 'b', type: 'shout', config: {}, phases: ['prompt', 'response'], failMode: 'open', timeoutMs: 9 },
      { name: 'c', type: 'watch', config: { limit: 5 }, phases: ['stream'], step: 0 },
      { name: 'd', type: 'watch', config: {}, phases: [] },
    );
    expect([...guardrails.values()]).toEqual([
      { name: 'a', type: 'watch', config: { limit: 0 }, failMode: 'closed', timeoutMs: 0 },
      { name: 'b', type: 'shout', config: {}, failMode: 'open', timeoutMs: 9 },
      { name: 'c', type: 'watch', config: { limit: 5 }, failMode: 'closed', timeoutMs: 0 },
      { name: 'd', type: 'watch', config: { limit: 0 }, failMode: 'closed', timeoutMs: 0 },
    ]);
    expect(steps).toEqual([
      { ref: 'a', phase: 'prompt', step: 0 },
      { ref: 'b', phase: 'prompt', step: 1 },
      { ref: 'b', phase: 'response', step: 1 },
      { ref: 'c', phase: 'stream', step: 0 },
    ]);
    const catalogue = {
      prepared(name: string) {
        const found = guardrails.get(name);
        return found === undefined ? { problem: 'missing' } : prepare(found);
      },
    };
    expect(stepProblem(steps, catalogue)).toBeUndefined();
  });

  it.each<[string, GuardrailRule[]]>([
    [
      "'a' is declared twice",
      [
        { name: 'a', type: 'watch', config: {} },
        { name: 'a', type: 'shout', config: {} },
      ],
    ],
    ["'a' is invalid: there is no guardrail type 'none'", [{ name: 'a', type: 'none', config: {} }]],
    ["'a' is invalid", [{ name: 'a', type: 'vault', config: {} }]],
    [
      "'a' cannot run in the stream phase: it needs a 'limit'",
      [{ name: 'a', type: 'watch', config: {}, phases: ['stream'] }],
    ],
    ["'a' cannot run in the stream phase: its type", [{ name: 'a', type: 'shout', config: {}, phases: ['stream'] }]],
    ['guardrails.rules.0', [{ name: 'a/b', type: 'watch', config: {} }]],
  ])('prevent the start with "%s"', (message, rules) => {
    expect(() => declared(...rules)).toThrow(message);
  });
});
