import { describe, expect, it } from 'vitest';
import {
  answerSentence,
  decidingSteps,
  type Explanation,
  type Step,
  stepTitle,
  subjectOfStep,
} from '../../../dashboard/src/pages/keys/explanation.ts';

const step = (changes: Partial<Step>): Step => ({
  ...{ check: 'user path', subject: '/team', allowed: true, source: 'event', event: null },
  ...changes,
});
const explanation = (changes: Partial<Explanation>): Explanation => ({
  ...{ allowed: true, model: 'openai/gpt-5-mini', user_path: '/team', key: null, as_of: null },
  ...{ resolved: [{ selector: 'openai/gpt-5-mini', through: [], allowed: true }], steps: [] },
  ...changes,
});
const asOf = { position: '12', at: '2026-03-01T09:00:00Z' };

describe('the answer in one sentence', () => {
  it.each([
    [{}, undefined, 'A caller at /team may use openai/gpt-5-mini.'],
    [{ allowed: false, key: 'k1' }, 'ci', 'The key “ci” at /team may not use openai/gpt-5-mini.'],
    [{ key: 'k1', user_path: null }, undefined, 'The key “k1” may use openai/gpt-5-mini.'],
    [{ user_path: null, as_of: asOf }, undefined, 'A caller without a user path could use openai/gpt-5-mini.'],
    [{ allowed: false, as_of: asOf }, undefined, 'A caller at /team could not use openai/gpt-5-mini.'],
  ])('of %j', (changes, keyName, sentence) => {
    expect(answerSentence(explanation(changes), keyName)).toBe(sentence);
  });

  it('names the models behind a virtual model', () => {
    const resolved = [
      { selector: 'openai/gpt-5-mini', through: ['assistant'], allowed: true },
      { selector: 'groq/llama', through: ['assistant'], allowed: false },
    ];
    expect(answerSentence(explanation({ model: 'assistant', resolved }), undefined)).toBe(
      'A caller at /team may use assistant, as openai/gpt-5-mini.',
    );
  });
});

describe('the steps that decide', () => {
  const policy = step({ check: 'model policy', subject: 'default', source: 'default' });
  const accepted = step({ check: 'key is accepted', subject: 'k1' });
  const list = step({ subject: '/team' });

  it('are the lists that have the model, or its policy without any list', () => {
    expect(decidingSteps(explanation({ steps: [accepted, policy, list] }))).toEqual([list]);
    expect(decidingSteps(explanation({ steps: [accepted, policy] }))).toEqual([policy]);
  });

  it('are all that refuse', () => {
    const refused = [step({ allowed: false }), step({ check: 'key is accepted', subject: 'k1', allowed: false })];
    expect(decidingSteps(explanation({ allowed: false, steps: [policy, ...refused] }))).toEqual(refused);
  });
});

it('a step has a title, and a subject in the history when an event set it', () => {
  expect(stepTitle(step({}))).toBe('the list of /team');
  expect(subjectOfStep(step({}))).toBe('user:/team');
  expect(subjectOfStep(step({ check: 'key', subject: 'k1' }))).toBe('key:k1');
  expect(subjectOfStep(step({ check: 'virtual model', subject: 'assistant' }))).toBe('virtual-model:assistant');
  expect(subjectOfStep(step({ source: 'config' }))).toBeUndefined();
});
