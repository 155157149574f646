import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { guardedBodies } from '../../src/commands/guardrails/body/guarded-bodies.ts';
import { restoreValues } from '../../src/commands/guardrails/body/restore-values.ts';
import type { CompiledGuardrail, EvaluationContext } from '../../src/commands/guardrails/guardrail-type.ts';
import { blockStatus, type GuardrailStep, warningHeader } from '../../src/commands/guardrails/phases/guardrail-step.ts';
import { runPhase } from '../../src/commands/guardrails/phases/run-phase.ts';
import { Placeholders } from '../../src/commands/guardrails/placeholders.ts';
import { countOf } from '../support/seed.ts';
import { context, step } from './guardrail-context.ts';
import { cardNumbers, ibans } from './valid-numbers.ts';

const user = (text: string) => ({ model: 'm', messages: [{ role: 'user', content: text }] });

function onPrompt(steps: readonly GuardrailStep[], body: unknown, change: Partial<EvaluationContext> = {}) {
  return runPhase({ phase: 'prompt', steps, body, of: guardedBodies.chat.request, context: context(change) });
}

/** A step that another test program would install: an interface of the product, implemented here. */
function stepOf(name: string, compiled: CompiledGuardrail, change: Partial<GuardrailStep> = {}): GuardrailStep {
  return {
    name,
    type: name,
    step: 0,
    failMode: 'closed',
    timeoutMs: 0,
    mutating: false,
    guardrail: compiled,
    ...change,
  };
}

const blocks = step('string_replace', { rules: 'bad', on_match: 'block' }, { name: 'blocks' });
const warns = step('string_replace', { rules: 'bad', on_match: 'warn' }, { name: 'warns' });
const responds = step(
  'string_replace',
  { rules: 'bad', on_match: 'respond', respond_text: 'No.' },
  { name: 'responds' },
);
const failing = (change: Partial<GuardrailStep> = {}) =>
  stepOf('failing', { prompt: () => Promise.reject(new Error('the server is away')) }, change);
const waiting = (change: Partial<GuardrailStep> = {}) => {
  const guardrail: CompiledGuardrail = {
    prompt: (_parts, { signal }) =>
      new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
  };
  return stepOf('waiting', guardrail, { timeoutMs: 10, ...change });
};

describe('runPhase', () => {
  it('runs steps in ascending order, each on what the step before returned', async () => {
    const steps = [
      step('string_replace', { rules: 'b => c' }, { name: 'second', step: 2 }),
      step('string_replace', { rules: 'a => b' }, { name: 'first', step: 1 }),
    ];
    const { body, runs, decision } = await onPrompt(steps, user('aXb'));
    expect(body).toEqual(user('cXc'));
    expect(runs.map(({ guardrail, edited, findings }) => [guardrail, edited, findings])).toEqual([
      ['first', true, { match: 1 }],
      ['second', true, { match: 2 }],
    ]);
    expect(decision).toEqual({ action: 'allow' });
  });

  it('gives guardrails of one step the same texts', async () => {
    const seen: string[] = [];
    const watcher = stepOf('watcher', {
      prompt: ([part]) => {
        seen.push(part?.text ?? '');
        return { decision: { action: 'allow' } };
      },
    });
    await onPrompt([step('string_replace', { rules: 'a => b' }), watcher, { ...watcher, step: 1 }], user('a'));
    expect(seen).toEqual(['a', 'b']);
  });

  it('gives a system text that was added to the steps after it', async () => {
    const steps = [
      step('system_prompt', { content: 'Today is {{chancery.date}}, {{ chancery.weekday }}.' }),
      step('tag_replace', { timezone: 'Asia/Tokyo' }, { step: 1 }),
    ];
    const { body } = await onPrompt(steps, user('u'));
    expect(body).toEqual({
      model: 'm',
      messages: [
        { role: 'system', content: 'Today is 2026-03-05, Thursday.' },
        { role: 'user', content: 'u' },
      ],
    });
  });

  it.each([
    [[warns, blocks, responds], 'block', 'blocks'],
    [[warns, responds], 'respond', 'responds'],
    [[warns], 'warn', 'warns'],
  ])('the strongest decision of a step counts (%#)', async (steps, action, decidedBy) => {
    const outcome = await onPrompt(steps, user('bad'));
    expect(outcome.decision.action).toBe(action);
    expect(outcome.decidedBy).toBe(decidedBy);
    expect(outcome.runs).toHaveLength(steps.length);
    expect(outcome.warnings).toEqual(['guardrail_warning']);
    expect(warningHeader(outcome.warnings)).toBe('warn; code=guardrail_warning');
  });

  it('runs no later step after block and respond', async () => {
    for (const one of [blocks, responds]) {
      const outcome = await onPrompt([one, { ...failing(), step: 1 }], user('bad'));
      expect(outcome.runs).toHaveLength(1);
      expect(outcome.failed).toBeUndefined();
    }
  });

  it('blocks with 400 in the prompt phase, 422 in the others, or with the configured status', async () => {
    const { decision } = await onPrompt([blocks], user('bad'));
    if (decision.action !== 'block') throw new Error('it does not block');
    expect(decision).toMatchObject({ code: 'guardrail_blocked', message: 'Request blocked by policy' });
    expect([
      blockStatus(decision, 'prompt'),
      blockStatus(decision, 'response'),
      blockStatus(decision, 'stream'),
    ]).toEqual([400, 422, 422]);
    expect(blockStatus({ ...decision, status: 451 }, 'prompt')).toBe(451);
  });

  it('a failure ends the request with fail_mode closed and is skipped with open', async () => {
    const closed = await onPrompt([failing()], user('u'));
    expect(closed.failed).toBe('failing');
    expect(closed.runs).toMatchObject([{ verdict: 'failure', error: 'the server is away', failMode: 'closed' }]);
    const open = await onPrompt(
      [failing({ failMode: 'open' }), step('string_replace', { rules: 'u => v' })],
      user('u'),
    );
    expect(open.failed).toBeUndefined();
    expect(open.body).toEqual(user('v'));
  });

  it('a block is stronger than a failure, a failure stronger than a response', async () => {
    expect(await onPrompt([failing(), blocks], user('bad'))).toMatchObject({ failed: undefined, decidedBy: 'blocks' });
    expect((await onPrompt([failing(), responds], user('bad'))).failed).toBe('failing');
  });

  it('a guardrail that overruns its time fails; one that changes texts fails the request also with open', async () => {
    const skipped = await onPrompt([waiting({ failMode: 'open' })], user('u'));
    expect(skipped).toMatchObject({
      failed: undefined,
      runs: [{ verdict: 'failure', error: 'no decision within 10 ms' }],
    });
    expect((await onPrompt([waiting({ failMode: 'open', mutating: true })], user('u'))).failed).toBe('waiting');
  });

  it('collects header changes in order', async () => {
    const edits = step('header_edit', { request_set: 'X-Team: blue', request_remove: 'x-old', response_set: 'x-a: b' });
    expect((await onPrompt([edits], user('u'))).headers).toEqual([
      { requestSet: { 'x-team': 'blue' }, requestRemove: ['x-old'], upstreamSet: {} },
    ]);
  });

  it('removes log probabilities of an answer that changed', async () => {
    const body = {
      choices: [{ message: { role: 'assistant', content: 'bad' }, logprobs: { content: [{ token: 'bad' }] } }],
    };
    const steps = [step('string_replace', { rules: 'bad => good' })];
    const outcome = await runPhase({
      phase: 'response',
      steps,
      body,
      of: guardedBodies.chat.request,
      context: context(),
    });
    expect(outcome.body).toMatchObject({ choices: [{ logprobs: { content: [{ token: 'bad' }] } }] });
    const answered = await runPhase({
      phase: 'response',
      steps,
      body,
      of: guardedBodies.chat.answer ?? guardedBodies.chat.request,
      context: context(),
    });
    expect(answered.body).toEqual({ choices: [{ message: { role: 'assistant', content: 'good' }, logprobs: null }] });
  });
});

describe('pii: anonymise and restore', () => {
  const anonymise = step('pii', {});
  const words = fc.oneof(
    cardNumbers,
    ibans,
    fc.constantFrom(
      'jane@example.com',
      'joe@example.org',
      '+49 170 1234567',
      'sk-abcdefghij0123456789xyz',
      'AKIAIOSFODNN7EXAMPLE',
    ),
    fc.constantFrom('<EMAIL_1>', '<CARD_NUMBER_1>', '<', '>', 'word', '"', '\\', '\n', '😀', '_1>'),
    fc.string({ maxLength: 8 }),
  );
  const texts = fc
    .array(fc.tuple(words, fc.constantFrom(' ', '', ', ')), { maxLength: 8 })
    .map((list) => list.flat().join(''));
  const bodies = fc
    .array(fc.tuple(fc.constantFrom('user', 'assistant', 'system', 'tool'), texts, texts), {
      minLength: 1,
      maxLength: 4,
    })
    .map((list) => ({
      messages: list.map(([role, content, argument]) => ({
        role,
        content,
        ...(role === 'assistant' && { tool_calls: [{ function: { arguments: JSON.stringify({ argument }) } }] }),
      })),
    }));

  it('restore(anonymise(body)) is the body, and the anonymised body contains none of the values', async () => {
    await fc.assert(
      fc.asyncProperty(bodies, async (body) => {
        const placeholders = new Placeholders();
        const { body: sent } = await onPrompt([anonymise], body, { placeholders });
        expect(restoreValues(sent, placeholders)).toEqual(body);
        for (const { value } of placeholders.recorded())
          expect(JSON.stringify(sent)).not.toContain(JSON.stringify(value).slice(1, -1));
      }),
      { numRuns: countOf(75, 300) },
    );
  });

  it('is the same for a second time: nothing is left to find', async () => {
    await fc.assert(
      fc.asyncProperty(bodies, async (body) => {
        const placeholders = new Placeholders();
        const first = await onPrompt([anonymise], body, { placeholders });
        const again = await onPrompt([anonymise], first.body, { placeholders });
        expect(again.body).toEqual(first.body);
      }),
    );
  });

  it('gives values of earlier turns their placeholders again, wherever they occur', async () => {
    const recorded = [
      { placeholder: '<NAME_1>', value: 'Jane Doe' },
      { placeholder: '<EMAIL_1>', value: 'jane@example.com' },
    ];
    const placeholders = new Placeholders(recorded);
    const body = user('xJane Doey wrote to jane@example.com and joe@example.com');
    const { body: sent } = await onPrompt([anonymise], body, { placeholders });
    expect(sent).toEqual(user('x<NAME_1>y wrote to <EMAIL_1> and <EMAIL_2>'));
    expect(placeholders.recorded()).toEqual([...recorded, { placeholder: '<EMAIL_2>', value: 'joe@example.com' }]);
  });

  it('does not use a placeholder that the request contains', async () => {
    const placeholders = new Placeholders();
    const { body: sent } = await onPrompt([anonymise], user('<EMAIL_1> is not jane@example.com'), { placeholders });
    expect(sent).toEqual(user('<EMAIL_1> is not <EMAIL_2>'));
  });

  it.each([
    [{ action: 'block' }, { action: 'block', code: 'guardrail_blocked' }],
    [{ action: 'warn' }, { action: 'warn', code: 'guardrail_warning' }],
    [
      { action: 'respond', respond_text: 'Please remove it.' },
      { action: 'respond', text: 'Please remove it.' },
    ],
  ])('decides with %o', async (config, expected) => {
    const outcome = await onPrompt([step('pii', config)], user('mail jane@example.com'));
    expect(outcome.decision).toMatchObject(expected);
    expect(outcome.runs).toMatchObject([{ findings: { EMAIL: 1 } }]);
    expect(JSON.stringify(outcome.runs)).not.toContain('jane');
    expect((await onPrompt([step('pii', config)], user('no data'))).decision).toEqual({ action: 'allow' });
  });

  it.each([
    ['mask', '**** **** **** 1881'],
    ['redact', ''],
    ['replace', '<CARD_NUMBER>'],
  ])('hides values without a way back with the operator %s', async (operator, expected) => {
    const placeholders = new Placeholders();
    const { body } = await onPrompt([step('pii', { operator, restore: false })], user('4012 8888 8888 1881!'), {
      placeholders,
    });
    expect(placeholders.size).toBe(0);

    expect(body).toEqual(user(`${expected}!`));
  });

  it('leaves allowed values', async () => {
    const { body } = await onPrompt(
      [step('pii', { allow_list: 'help@example.com' })],
      user('help@example.com a@example.com'),
    );
    expect(body).toEqual(user('help@example.com <EMAIL_1>'));
  });
});
