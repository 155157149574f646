import { describe, expect, it } from 'vitest';
import { highest } from '../../src/commands/access/authority.ts';
import { ObjectsInForce } from '../../src/commands/administered.ts';
import {
  declaredPolicies,
  type UserPolicy,
  userLists,
  userPolicyDecider,
} from '../../src/commands/users/user-policy.ts';
import { userPolicyRemoved, userPolicySet } from '../../src/events/catalogue/access.ts';
import type { UserPath } from '../../src/events/event.ts';
import { specify } from '../support/decider-spec.ts';

const { given } = specify(userPolicyDecider);
const context = { actor: 'master' as const };
const userPath = '/team' as UserPath;
const on = { userPath, context, authority: highest };
const set = (allowedModels: string[], description?: string) =>
  userPolicySet.create({ userPath, allowedModels, ...(description === undefined ? {} : { description }) }, context);
const removed = userPolicyRemoved.create({ userPath }, context);

describe('the policy of a user path', () => {
  it('is set, and replaced as a whole', () => {
    given()
      .when({ ...on, kind: 'set', allowedModels: ['openai/'], description: 'cheap ones' })
      .then([set(['openai/'], 'cheap ones')]);
    given(set(['openai/'], 'cheap ones'))
      .when({ ...on, kind: 'set', allowedModels: ['gpt'], description: undefined })
      .then([set(['gpt'])]);
  });

  it('may exist without a restriction', () => {
    given()
      .when({ ...on, kind: 'set', allowedModels: [], description: undefined })
      .then([set([])]);
  });

  it('gives no event when nothing changes', () => {
    given(set(['a', 'b'], 'x'))
      .when({ ...on, kind: 'set', allowedModels: ['a', 'b'], description: 'x' })
      .then([]);
  });

  it('is removed once', () => {
    given(set(['a']))
      .when({ ...on, kind: 'remove' })
      .then([removed]);
    given()
      .when({ ...on, kind: 'remove' })
      .then({ status: 404 });
    given(set(['a']), removed)
      .when({ ...on, kind: 'remove' })
      .then({ status: 404 });
    given(set(['a']), removed)
      .when({ ...on, kind: 'set', allowedModels: ['a'], description: undefined })
      .then([set(['a'])]);
  });
});

describe('the declared policies', () => {
  const isProvider = (name: string) => name === 'openai';
  const policy = (path: string, ...allowedModels: string[]) => ({
    userPath: path as UserPath,
    allowedModels,
    description: undefined,
  });
  const saved = (...policies: UserPolicy[]) => ({
    byKey: new Map(
      policies.map((value) => [value.userPath, { value, createdAt: 1, updatedAt: 1, revision: 0 }] as const),
    ),
    version: 1,
  });

  it('are made canonical', () => {
    expect([...declaredPolicies([policy('/a', 'openai/*', '*', 'gpt')], isProvider).values()]).toEqual([
      policy('/a', 'openai/', '/', 'gpt'),
    ]);
  });

  it('cannot name an unknown provider, or one path twice', () => {
    expect(() => declaredPolicies([policy('/a', 'other/gpt')], isProvider)).toThrow(/'\/a'.*'other'/);
    expect(() => declaredPolicies([policy('/a'), policy('/a')], isProvider)).toThrow(/'\/a' has two declared policies/);
  });

  it("replace an administrator's policy for the same path, and leave other paths alone", () => {
    const declared = declaredPolicies([policy('/a', 'openai/')], isProvider);
    const both = saved(policy('/a', 'gpt'), policy('/b', 'gpt'));
    const lists = userLists(new ObjectsInForce({ state: both }, declared));
    expect(lists.at('/a' as UserPath)).toEqual(['openai/']);
    expect(lists.at('/b' as UserPath)).toEqual(['gpt']);
    expect(lists.at('/c' as UserPath)).toBeUndefined();
  });

  it('counts as a restriction only when something is restricted', () => {
    const anyOf = (stored: UserPolicy[], declared: UserPolicy[]) =>
      userLists(new ObjectsInForce({ state: saved(...stored) }, declaredPolicies(declared, isProvider))).any;
    expect(anyOf([policy('/a')], [policy('/a')])).toBe(false);
    expect(anyOf([], [policy('/a', 'gpt')])).toBe(true);
    expect(anyOf([policy('/a', 'gpt')], [])).toBe(true);
  });
});
