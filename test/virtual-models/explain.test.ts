import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createAuthorizer } from '../../src/commands/access/authorizer.ts';
import { Refusal } from '../../src/commands/refusal.ts';
import { AccessPolicies } from '../../src/commands/virtual-models/directory.ts';
import {
  type AccessQuestion,
  type Explanation,
  explain,
  type InForce,
} from '../../src/commands/virtual-models/explain.ts';
import { RouteFallbacks } from '../../src/commands/virtual-models/route-fallbacks.ts';
import { createRouter } from '../../src/commands/virtual-models/router.ts';
import { RouteStrategies, type VirtualModel } from '../../src/commands/virtual-models/virtual-model.ts';
import type { UserPath } from '../../src/events/event.ts';
import { countOf } from '../support/seed.ts';
import { target } from './virtual-model-fixtures.ts';

const MODELS = ['p/m', 'p/n', 'q/m'];
const NAMES = ['one', 'two', 'three'];
const PATHS = ['/', '/a', '/a/b', '/c'];

const selectors = fc.subarray(['/', 'p/', 'q/', 'p/m', 'm', 'n']);
const userPaths = fc.subarray(['/a', '/a/b', '/c']);
const targets = fc.uniqueArray(
  fc.oneof(
    fc.constantFrom(...NAMES).map((model) => ({ model })),
    fc.constantFrom(...MODELS).map((name) => ({ provider: name.slice(0, 1), model: name.slice(2) })),
  ),
  { minLength: 1, maxLength: 3, selector: (one) => JSON.stringify(one) },
);
const common = { strategy: 'failover', sessionAffinity: false, failover: { enabled: true }, enabled: true } as const;
const redirects = fc
  .subarray(NAMES)
  .chain((sources) =>
    fc.tuple(
      ...sources.map((source) =>
        fc.record({ targets, userPaths }).map((more): VirtualModel => ({ source, ...common, ...more })),
      ),
    ),
  );
const policies = fc
  .subarray(['/', 'p/', 'p/m', 'm'])
  .chain((sources) =>
    fc.tuple(
      ...sources.map((source) =>
        fc
          .record({ userPaths, enabled: fc.boolean() })
          .map((more): VirtualModel => ({ source, ...common, targets: [], ...more })),
      ),
    ),
  );
const world = fc.record({
  redirects,
  policies,
  enabledByDefault: fc.boolean(),
  lists: fc.dictionary(fc.constantFrom(...PATHS), selectors),
  keyList: fc.option(selectors, { nil: undefined }),
  userPath: fc.option(fc.constantFrom(...PATHS), { nil: undefined }),
  model: fc.constantFrom(...NAMES, ...MODELS),
});

function resolve(model: string, provider: string | undefined) {
  const selector = provider === undefined ? model : `${provider}/${model}`;
  return MODELS.includes(selector) ? target(selector.slice(0, 1), selector.slice(2)) : undefined;
}

test('explain states for each model of each provider what routing does, with any settings', () => {
  fc.assert(
    fc.property(world, (given) => {
      const key =
        given.keyList === undefined
          ? undefined
          : {
              id: 'k',
              userPath: undefined,
              dashboardAccess: false,
              allowedModels: given.keyList,
              labels: [],
              expiresAt: undefined,
              deactivatedAt: undefined,
            };
      const users = { at: (path: UserPath) => given.lists[path], any: true, version: 1 };
      const inForce: InForce = {
        users,
        models: new AccessPolicies(given.policies, given.enabledByDefault),
        redirects: new Map(given.redirects.map((one) => [one.source, one])),
        resolve,
        isVisible: () => true,
      };
      const userPath = given.userPath as UserPath | undefined;
      const question: AccessQuestion = { model: given.model, provider: undefined, userPath, key, now: 0 };
      const router = createRouter({
        models: { resolve, resolveOrRefresh: async () => undefined, knows: () => true },
        virtualModels: inForce,
        access: createAuthorizer({ users, models: inForce.models }),
        admission: { hasRoom: () => true },
        isInOrder: () => true,
        priceOf: () => undefined,
        failover: { enabled: true, maxModels: 0, statuses: [], phrases: [] },
        strategies: new RouteStrategies(),
        fallbacks: new RouteFallbacks(),
        random: () => 0.5,
        now: () => 0,
      });
      const explained = explain(question, inForce);
      const reached = reach(() =>
        router.reach({ selector: given.model, provider: undefined, caller: { userPath, key } }),
      );
      expect(usableOf(explained)).toEqual(reached);
      if (explained === undefined) return;
      expect(explained.allowed).toBe(reached.length > 0);
      // Each denied target is denied by one of the steps.
      for (const { selector, through, allowed } of explained.resolved) {
        const about = explained.steps.filter((step) => step.target === selector);
        expect(about.length).toBeGreaterThan(0);
        if (allowed) expect(about.every((step) => step.allowed)).toBe(true);
        else {
          const passed = explained.steps.filter(
            ({ check, subject }) => check === 'virtual model' && through.includes(subject),
          );
          expect([...about, ...passed].some((step) => !step.allowed)).toBe(true);
        }
      }
    }),
    { numRuns: countOf(125, 500) },
  );
});

function usableOf(explained: Explanation | undefined): string[] {
  return (explained?.resolved ?? []).flatMap(({ selector, allowed }) => (allowed ? [selector] : [])).sort();
}

/**
 * The selectors that may be called; none when the router refuses, or would have to list the providers' models again.
 */
function reach(ask: () => unknown): string[] {
  try {
    const found = ask();
    if (found instanceof Promise) {
      found.catch(() => {});
      return [];
    }
    return (found as { provider: { name: string }; model: string }[])
      .map(({ provider, model }) => `${provider.name}/${model}`)
      .sort();
  } catch (error) {
    if (error instanceof Refusal) return [];
    throw error;
  }
}
