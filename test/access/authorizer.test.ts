import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createAuthorizer, decide, EffectiveModels, pathAndAbove } from '../../src/commands/access/authorizer.ts';
import type { ModelPolicies } from '../../src/commands/access/model-access.ts';
import type { CallerKey } from '../../src/commands/model-request/model-request.ts';
import type { UserPath } from '../../src/events/event.ts';
import { noModelPolicies } from '../support/nothing-configured.ts';

type Lists = Record<string, readonly string[]>;

function listsOf(lists: Lists) {
  return {
    at: (path: UserPath) => lists[path],
    get any() {
      return Object.values(lists).some((list) => list.length > 0);
    },
    version: 0,
  };
}

const key = (...allowedModels: string[]): CallerKey => ({
  id: 'k1',
  userPath: undefined,
  dashboardAccess: false,
  allowedModels,
  labels: [],
});
const at = (path: string | undefined, ownKey?: CallerKey) => ({
  userPath: path as UserPath | undefined,
  ...(ownKey === undefined ? {} : { key: ownKey }),
});
const authorizer = (lists: Lists, models: ModelPolicies = noModelPolicies) =>
  createAuthorizer({ users: listsOf(lists), models });

/** Switches one model off outside one subtree. */
const only = (provider: string, model: string, subtree: string): ModelPolicies => ({
  any: true,
  allows: (path, p, m) => p !== provider || m !== model || path === subtree || path?.startsWith(`${subtree}/`) === true,
  allowsProvider: (path, p, extent) => p !== provider || extent === 'any' || path === subtree,
  deciding: (p, m) => (p === provider && m === model ? `${p}/${m}` : undefined),
});

describe('the authorizer', () => {
  it('does not restrict the calls of guardrails, whose model an administrator chose', () => {
    const access = authorizer({ '/a': ['p/other'] }, only('p', 'm', '/else'));
    const call = { ...at('/a/guardrails/judge', key('p/other')), origin: 'plugin' as const };
    expect(access.denial(call, 'p', 'm')).toBeUndefined();
    expect(access.restricts(call)).toBe(false);
    expect(access.denial({ ...call, origin: undefined }, 'p', 'm')).toBe('not available');
  });

  it('allows everything while nothing is set', () => {
    const access = authorizer({});
    for (const caller of [at(undefined), at('/'), at('/a/b'), at('/a', key())]) {
      expect(access.allows(caller, 'p', 'm')).toBe(true);
      expect(access.restricts(caller)).toBe(false);
      expect(access.allowsProvider(caller, 'p', 'all')).toBe(true);
    }
  });

  it('applies the lists of the path and of every path above it, which can only narrow', () => {
    const access = authorizer({ '/': ['p/', 'q/'], '/a': ['p/'], '/a/b': ['/'], '/a/b/c': ['p/m'] });
    expect(access.allows(at('/x'), 'q', 'm')).toBe(true);
    expect(access.allows(at('/x'), 'r', 'm')).toBe(false);
    expect(access.allows(at('/a'), 'q', 'm')).toBe(false);
    expect(access.allows(at('/a/b'), 'q', 'm')).toBe(false);
    expect(access.allows(at('/a/b'), 'p', 'n')).toBe(true);
    expect(access.allows(at('/a/b/c'), 'p', 'n')).toBe(false);
    expect(access.allows(at('/a/b/c/d'), 'p', 'm')).toBe(true);
  });

  it('distinguishes paths with the same beginning', () => {
    const access = authorizer({ '/team': ['p/'] });
    expect(access.allows(at('/team-alpha'), 'q', 'm')).toBe(true);
    expect(access.restricts(at('/team-alpha'))).toBe(false);
    expect(access.restricts(at('/team/alpha'))).toBe(true);
  });

  it('applies no list to a caller without a path, and only its own to a key', () => {
    const access = authorizer({ '/': ['p/'] });
    expect(access.allows(at(undefined), 'q', 'm')).toBe(true);
    expect(access.allows(at(undefined, key('q/')), 'q', 'm')).toBe(true);
    expect(access.allows(at(undefined, key('q/')), 'p', 'm')).toBe(false);
  });

  it('states whether the key causes the denial', () => {
    const access = authorizer({ '/a': ['p/'] }, only('p', 'gone', '/b'));
    expect(access.denial(at('/a', key('p/m')), 'p', 'm')).toBeUndefined();
    expect(access.denial(at('/a', key('p/m')), 'p', 'n')).toBe('not available for this key');
    expect(access.denial(at('/a', key('p/m')), 'q', 'm')).toBe('not available');
    expect(access.denial(at('/a'), 'p', 'gone')).toBe('not available');
  });

  it('allows a whole provider only where every list allows the whole provider', () => {
    const access = authorizer({ '/a': ['p/'], '/a/b': ['p/m'] });
    expect(access.allowsProvider(at('/a'), 'p', 'all')).toBe(true);
    expect(access.allowsProvider(at('/a/b'), 'p', 'all')).toBe(false);
    expect(access.allowsProvider(at('/a/b'), 'p', 'any')).toBe(true);
    expect(access.allowsProvider(at('/a/b'), 'q', 'any')).toBe(false);
    expect(access.allowsProvider(at('/a', key('m')), 'p', 'all')).toBe(false);
    expect(access.allowsProvider(at('/a', key('m')), 'p', 'any')).toBe(true);
    expect(authorizer({}, only('p', 'm', '/b')).allowsProvider(at('/a'), 'p', 'all')).toBe(false);
  });

  it('applies a change at once', () => {
    const lists: Record<string, string[]> = {};
    const users = { ...listsOf(lists), any: true, version: 0 };
    const access = createAuthorizer({ users, models: noModelPolicies });
    expect(access.allows(at('/a'), 'p', 'm')).toBe(true);
    lists['/a'] = ['q/'];
    users.version += 1;
    expect(access.allows(at('/a'), 'p', 'm')).toBe(false);
    delete lists['/a'];
    users.version += 1;
    expect(access.allows(at('/a'), 'p', 'm')).toBe(true);
  });
});

describe('a decision', () => {
  it('has its steps in order, with the lists that were applied, the root first', () => {
    const users = listsOf({ '/': ['p/'], '/a': [], '/a/b': ['p/m'] });
    expect(decide(at('/a/b', key('m', 'n')), 'p', 'n', { users, models: noModelPolicies })).toEqual({
      allowed: false,
      steps: [
        { check: 'model policy', subject: 'default', allowed: true },
        { check: 'key', subject: 'k1', allowed: true, list: ['m', 'n'] },
        { check: 'user path', subject: '/', allowed: true, list: ['p/'] },
        { check: 'user path', subject: '/a/b', allowed: false, list: ['p/m'] },
      ],
    });
  });

  it('names the policy of the model', () => {
    const decision = decide(at('/a'), 'p', 'm', { users: listsOf({}), models: only('p', 'm', '/b') });
    expect(decision).toEqual({ allowed: false, steps: [{ check: 'model policy', subject: 'p/m', allowed: false }] });
  });
});

describe('a path and those above it', () => {
  it.each([
    [undefined, []],
    ['/', ['/']],
    ['/a', ['/', '/a']],
    ['/a/b', ['/', '/a', '/a/b']],
  ])('of %s are %j', (path, paths) => {
    expect(pathAndAbove(path as UserPath | undefined)).toEqual(paths);
  });
});

describe('for any lists and policies', () => {
  const paths = ['/', '/a', '/a/b', '/a/b/c', '/ab', '/d'];
  const providers = ['p', 'q'];
  const models = ['m', 'n', 'x/y'];
  const catalogue = providers.flatMap((provider) => models.map((model) => ({ provider, model })));
  const selector = fc.constantFrom('/', 'p/', 'q/', 'p/m', 'q/m', 'p/x/y', 'm', 'n');
  const list = fc.uniqueArray(selector, { maxLength: 4 });
  const lists = fc.dictionary(fc.constantFrom(...paths), list);
  const path = fc.option(fc.constantFrom(...paths), { nil: undefined });
  const model = fc.constantFrom(...catalogue);
  const policies = fc.constantFrom(noModelPolicies, only('p', 'm', '/a'), only('q', 'x/y', '/d'));

  it('the quick answer is that of the explained decision', () => {
    fc.assert(
      fc.property(lists, policies, path, list, model, (set, sides, where, own, one) => {
        const access = authorizer(set, sides);
        const caller = at(where, key(...own));
        const { allowed, steps } = decide(caller, one.provider, one.model, { users: listsOf(set), models: sides });
        expect(access.allows(caller, one.provider, one.model)).toBe(allowed);
        expect(allowed).toBe(steps.every((step) => step.allowed));
        if (!allowed) expect(access.restricts(caller)).toBe(true);
      }),
    );
  });

  it('another list never allows more', () => {
    fc.assert(
      fc.property(
        lists,
        policies,
        path,
        list,
        model,
        fc.constantFrom(...paths),
        list,
        (set, sides, where, own, one, place, added) => {
          fc.pre((set[place] ?? []).length === 0);
          const before = authorizer(set, sides);
          const after = authorizer({ ...set, [place]: added }, sides);
          const caller = at(where, key(...own));
          if (after.allows(caller, one.provider, one.model)) {
            expect(before.allows(caller, one.provider, one.model)).toBe(true);
          }
        },
      ),
    );
  });

  it('a path never has more models than the path above it, by lists', () => {
    fc.assert(
      fc.property(lists, model, (set, { provider, model: id }) => {
        const access = authorizer(set);
        for (const child of paths) {
          for (const parent of pathAndAbove(child as UserPath)) {
            if (access.allows(at(child), provider, id)) expect(access.allows(at(parent), provider, id)).toBe(true);
          }
        }
      }),
    );
  });

  it('the effective models are those that the authorizer allows', () => {
    fc.assert(
      fc.property(lists, policies, path, list, (set, sides, where, own) => {
        const access = authorizer(set, sides);
        const effective = new EffectiveModels(catalogue, { users: listsOf(set), models: sides });
        const expected = (caller: ReturnType<typeof at>) =>
          catalogue
            .filter(({ provider, model: id }) => access.allows(caller, provider, id))
            .map(({ provider, model: id }) => `${provider}/${id}`);
        expect(effective.of(where as UserPath | undefined)).toEqual(expected(at(where)));
        expect(effective.of(where as UserPath | undefined, own)).toEqual(expected(at(where, key(...own))));
        // A second call, and a call for every path, give the same.
        for (const one of paths) expect(effective.of(one as UserPath)).toEqual(expected(at(one)));
      }),
    );
  });

  it('a provider that is open as a whole has no closed model, and one with an open model is open', () => {
    fc.assert(
      fc.property(lists, path, list, model, (set, where, own, { provider, model: id }) => {
        const access = authorizer(set);
        const caller = at(where, key(...own));
        if (access.allowsProvider(caller, provider, 'all')) expect(access.allows(caller, provider, id)).toBe(true);
        if (access.allows(caller, provider, id)) expect(access.allowsProvider(caller, provider, 'any')).toBe(true);
      }),
    );
  });
});
