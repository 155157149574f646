import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { AccessPolicies, hasEffect } from '../../src/commands/virtual-models/directory.ts';
import { isFor, type VirtualModel } from '../../src/commands/virtual-models/virtual-model.ts';
import type { UserPath } from '../../src/events/event.ts';
import { policy, redirect } from './virtual-model-fixtures.ts';

const at = (path: string) => path as UserPath;

describe('without a policy', () => {
  test('the default applies', () => {
    expect(new AccessPolicies([], true).any).toBe(false);
    expect(new AccessPolicies([], true).allows(undefined, 'groq', 'a')).toBe(true);
    expect(new AccessPolicies([], false).any).toBe(true);
    expect(new AccessPolicies([], false).allows(at('/team'), 'groq', 'a')).toBe(false);
    expect(new AccessPolicies([], false).deciding('groq', 'a')).toBeUndefined();
  });

  test('a redirect under that name is not a policy', () => {
    const policies = new AccessPolicies([redirect('a', ['groq/b'], { userPaths: ['/team'] })], true);
    expect(policies.any).toBe(false);
    expect(policies.allows(undefined, 'groq', 'a')).toBe(true);
  });
});

describe('the most specific policy', () => {
  const off = { enabled: false };
  const all = [
    policy('/', off),
    policy('a'),
    policy('groq/', off),
    policy('groq/a'),
    policy('openai/', { userPaths: ['/team'] }),
  ];
  const policies = new AccessPolicies(all, true);

  test.each([
    ['groq', 'a', 'groq/a', true],
    ['groq', 'b', 'groq/', false],
    ['azure', 'a', 'a', true],
    ['azure', 'b', '/', false],
    ['openai', 'a', 'openai/', false],
  ])('of %s/%s is %s', (provider, model, source, allowed) => {
    expect(policies.deciding(provider, model)).toBe(source);
    expect(policies.allows(undefined, provider, model)).toBe(allowed);
  });

  test('decides alone: one that allows a subtree denies all others', () => {
    expect(policies.allows(at('/team'), 'openai', 'a')).toBe(true);
    expect(policies.allows(at('/team/alpha'), 'openai', 'b')).toBe(true);
    expect(policies.allows(at('/teams'), 'openai', 'a')).toBe(false);
    expect(policies.allows(undefined, 'openai', 'a')).toBe(false);
  });

  test('decides about a whole provider, and about any part of it', () => {
    expect(policies.allowsProvider(undefined, 'groq', 'all')).toBe(false);
    expect(policies.allowsProvider(undefined, 'groq', 'any')).toBe(true);
    expect(policies.allowsProvider(at('/team'), 'openai', 'all')).toBe(true);
    expect(policies.allowsProvider(undefined, 'openai', 'any')).toBe(false);
    expect(policies.allowsProvider(undefined, 'azure', 'any')).toBe(true);
    const but = new AccessPolicies([policy('groq/a', off)], true);
    expect(but.allowsProvider(undefined, 'groq', 'all')).toBe(false);
    expect(but.allowsProvider(undefined, 'azure', 'all')).toBe(true);
  });
});

describe('a user path', () => {
  test.each<[string[], string | undefined, boolean]>([
    [[], undefined, true],
    [['/'], undefined, true],
    [['/'], '/team', true],
    [['/team'], undefined, false],
    [['/team'], '/', false],
    [['/team'], '/team/a', true],
    [['/team'], '/team-b', false],
    [['/a', '/b/c'], '/b/c/d', true],
    [['/a', '/b/c'], '/b', false],
  ])('of %j allows %s: %s', (paths, path, lets) => {
    expect(isFor(paths, path === undefined ? undefined : at(path))).toBe(lets);
  });
});

const sources = fc.constantFrom('/', 'p/', 'q/', 'a', 'b', 'p/a', 'p/b', 'q/a');
const webs = fc.uniqueArray(
  fc.record({
    source: sources,
    enabled: fc.boolean(),
    userPaths: fc.constantFrom<readonly string[]>([], ['/t'], ['/']),
  }),
  { selector: ({ source }) => source, maxLength: 8 },
);

test('a policy without effect changes no access when it is left out', () => {
  const everybody = [undefined, at('/t'), at('/u')];
  fc.assert(
    fc.property(webs, fc.boolean(), (written, byDefault) => {
      const all: VirtualModel[] = written.map(({ source, ...more }) => policy(source, more));
      for (const one of all) {
        if (hasEffect(one, all, byDefault)) continue;
        const with_ = new AccessPolicies(all, byDefault);
        const without = new AccessPolicies(
          all.filter((other) => other !== one),
          byDefault,
        );
        for (const path of everybody) {
          for (const provider of ['p', 'q', 'r']) {
            for (const model of ['a', 'b', 'c']) {
              expect(without.allows(path, provider, model)).toBe(with_.allows(path, provider, model));
            }
          }
        }
      }
    }),
  );
});
