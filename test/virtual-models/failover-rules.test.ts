import { describe, expect, test } from 'vitest';
import type { RefusedTarget } from '../../src/commands/model-request/routing-types.ts';
import { Refusal } from '../../src/commands/refusal.ts';
import { defaultPhrases, FailoverRules } from '../../src/commands/virtual-models/router.ts';

const policy = { enabled: true, maxModels: 0, statuses: [429, 500, 502, 503, 504], phrases: defaultPhrases };

function refused(status: number | undefined, message = 'no', code: string | null = null): RefusedTarget {
  const refusal = new Refusal({ status: status ?? 502, type: 'provider_error', code, message });
  return { kind: 'refused', refusal, attempts: 1, status };
}

describe('failover to another model', () => {
  const rules = new FailoverRules(policy, { enabled: true });

  test.each([429, 500, 502, 503, 504])('after a %i', (status) => {
    expect(rules.covers(refused(status))).toBe(true);
  });

  test.each([
    [404, 'The model `gpt-9` does not exist or you do not have access to it.', 'model_not_found'],
    [404, 'model "llama3" not found, try pulling it first', null],
    [400, "This model's maximum context length is 8192 tokens.", 'context_length_exceeded'],
    [400, 'the request exceeds the available context size, try increasing it', null],
    [400, 'prompt is too long: 210000 tokens > 200000 maximum', null],
    [402, 'Your credit balance is too low to access the API.', null],
    [403, 'You exceeded your current quota, please check your plan.', 'insufficient_quota'],
    [400, 'The model `x` has been decommissioned.', 'model_decommissioned'],
    [400, 'Upstream request failed', null],
  ])('after a %i that says: %s', (status, message, code) => {
    expect(rules.covers(refused(status, message, code))).toBe(true);
  });

  test('when there was no answer at all', () => {
    expect(rules.covers(refused(undefined))).toBe(true);
    expect(rules.covers({ ...refused(undefined), failure: 'unreachable' })).toBe(true);
    expect(rules.covers({ ...refused(undefined), failure: 'idle' })).toBe(true);
  });
});

describe('no failover to another model', () => {
  const rules = new FailoverRules(policy, { enabled: true });

  test.each([
    [400, "Invalid value for 'temperature'."],
    [401, 'Incorrect API key provided.'],
    [404, 'Not Found'],
    [413, 'The request is too large.'],
    [422, 'Unprocessable'],
    [400, 'A tool was not found in a model.'],
  ])('after a %i that says: %s', (status, message) => {
    expect(rules.covers(refused(status, message))).toBe(false);
  });

  test('when the answer was too large: another would be as large', () => {
    expect(rules.covers({ ...refused(undefined), failure: 'too_large' })).toBe(false);
  });
});

describe('a virtual model with rules of its own', () => {
  test('has its statuses, its phrases, or both', () => {
    const statuses = new FailoverRules(policy, { enabled: true, statuses: [418] });
    expect([418, 500].map((status) => statuses.covers(refused(status)))).toEqual([true, false]);
    expect(statuses.covers(refused(404, 'model x not found'))).toBe(true);
    const phrases = new FailoverRules(policy, { enabled: true, phrases: ['Come * LATER'] });
    expect(phrases.covers(refused(400, 'please come back a little later'))).toBe(true);
    expect(phrases.covers(refused(400, 'later, come'))).toBe(false);
    expect(phrases.covers(refused(404, 'model x not found'))).toBe(false);
    const none = new FailoverRules(policy, { enabled: true, statuses: [], phrases: [] });
    expect(none.covers(refused(500))).toBe(false);
  });

  test('is switched off by itself, and with all others', () => {
    expect(new FailoverRules(policy, { enabled: false }).enabled).toBe(false);
    expect(new FailoverRules({ ...policy, enabled: false }, { enabled: true }).enabled).toBe(false);
  });
});
