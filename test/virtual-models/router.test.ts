import { describe, expect, test } from 'vitest';
import type { ModelAccess } from '../../src/commands/access/model-access.ts';
import type { RefusedTarget, Route, RouteRequest, Target } from '../../src/commands/model-request/routing-types.ts';
import { Refusal } from '../../src/commands/refusal.ts';
import { RouteFallbacks } from '../../src/commands/virtual-models/route-fallbacks.ts';
import { createRouter, defaultPhrases, type RouterOptions } from '../../src/commands/virtual-models/router.ts';
import { RouteStrategies, type VirtualModel } from '../../src/commands/virtual-models/virtual-model.ts';
import type { UserPath } from '../../src/events/event.ts';
import { everythingAllowed } from '../support/nothing-configured.ts';
import { mapOf, named, redirect, target } from './virtual-model-fixtures.ts';

interface Setup extends Partial<Omit<RouterOptions, 'models' | 'virtualModels'>> {
  readonly virtual?: readonly VirtualModel[];
  /** `<provider>/<model>` of all that is served. */
  readonly served?: readonly string[];
  /** The models that a second listing of the providers returns. */
  readonly later?: readonly string[];
}

function routerOf({ virtual = [], served = [], later = [], ...more }: Setup) {
  const known = [...served];
  const resolve = (model: string, provider?: string): Target | undefined => {
    const name = known.find((one) =>
      provider === undefined ? one.endsWith(`/${model}`) || one === model : one === `${provider}/${model}`,
    );
    const slash = name?.indexOf('/') ?? -1;
    return name === undefined ? undefined : target(name.slice(0, slash), name.slice(slash + 1));
  };
  const allowedCandidates: string[] = [];
  const router = createRouter({
    models: {
      resolve,
      async resolveOrRefresh(model, provider) {
        allowedCandidates.push(`${provider ?? '*'}/${model}`);
        known.push(...later);
        return resolve(model, provider);
      },
      knows: (provider) => [...known, ...later].some((one) => one.startsWith(`${provider}/`)),
    },
    virtualModels: { redirects: mapOf(virtual) },
    access: everythingAllowed,
    admission: { hasRoom: () => true },
    isInOrder: () => true,
    priceOf: () => undefined,
    failover: { enabled: true, maxModels: 0, statuses: [500], phrases: defaultPhrases },
    strategies: new RouteStrategies(),
    fallbacks: new RouteFallbacks(),
    random: () => 0.5,
    now: () => 0,
    ...more,
  });
  const request = (selector: string, own: Partial<RouteRequest> = {}): RouteRequest => ({
    selector,
    provider: undefined,
    caller: { userPath: undefined, key: undefined },
    sessionId: undefined,
    labels: undefined,
    stream: false,
    ...own,
  });
  return {
    requests: allowedCandidates,
    route: (selector: string, own?: Partial<RouteRequest>) => router.route(request(selector, own)),
    reach: (selector: string, own?: Partial<RouteRequest>) => router.reach(request(selector, own)),
  };
}

const now = (found: Route | Promise<Route>): Route => {
  if (found instanceof Promise) throw new Error('it was not known at once');
  return found;
};
const names = ({ candidates }: Pick<Route, 'candidates'>) => candidates.map(named);
const refusal = (act: () => unknown): unknown => {
  try {
    return act();
  } catch (error) {
    return error;
  }
};

/** Callers may use only providers whose name begins with `open`. */
const onlyOpen: ModelAccess = {
  denial: (_caller, provider) => (provider.startsWith('open') ? undefined : 'not available for this key'),
  allows: (_caller, provider) => provider.startsWith('open'),
  restricts: () => true,
  allowsProvider: (_caller, provider) => provider.startsWith('open'),
};

const both = redirect('both', ['shut/a', 'open/b']);

describe('a model selected by its own name', () => {
  test('is found at once, as the only target', () => {
    const route = now(routerOf({ served: ['open/a'], virtual: [both] }).route('a'));
    expect(names(route)).toEqual(['open/a']);
    expect(route).toMatchObject({ ready: 1, through: [] });
    expect(route.failsOver({ kind: 'refused', attempts: 1, status: 500, refusal: failure() })).toBe(false);
  });

  test('causes a new listing where it is not known', async () => {
    const router = routerOf({ served: ['open/a'], later: ['open/new'] });
    expect(names(await router.route('new'))).toEqual(['open/new']);
    await expect(router.route('never')).rejects.toMatchObject({ status: 404, code: 'model_not_found' });
  });

  test('is refused to callers who may not use it, with the reason', async () => {
    const router = routerOf({ served: ['shut/a'], later: ['shut/new'], access: onlyOpen });
    const denied = {
      status: 400,
      code: 'model_access_denied',
      message: "The model 'a' is not available for this key.",
    };
    expect(refusal(() => router.route('a'))).toMatchObject(denied);
    expect(refusal(() => router.reach('a'))).toMatchObject(denied);
    await expect(router.route('new')).rejects.toMatchObject({ code: 'model_access_denied' });
  });

  test('with an unknown provider is refused as unknown_provider', () => {
    const router = routerOf({ served: ['open/a'], virtual: [both] });
    expect(refusal(() => router.route('a', { provider: 'nobody' }))).toMatchObject({ code: 'unknown_provider' });
  });
});

describe('a virtual model', () => {
  const served = ['shut/a', 'open/b'];

  test('leads to the targets that the caller may use', () => {
    const router = routerOf({ virtual: [both], served, access: onlyOpen });
    expect(names(now(router.route('both')))).toEqual(['open/b']);
    expect(
      refusal(() => routerOf({ virtual: [redirect('x', ['shut/a'])], served, access: onlyOpen }).route('x')),
    ).toMatchObject({ code: 'model_access_denied', message: "The model 'x' is not available for this key." });
  });

  test('is served only to callers in its user paths', () => {
    const router = routerOf({ virtual: [{ ...both, userPaths: ['/team'] }], served });
    expect(refusal(() => router.route('both'))).toMatchObject({ code: 'model_access_denied' });
    const caller = { userPath: '/team/a' as UserPath, key: undefined };
    expect(names(now(router.route('both', { caller })))).toHaveLength(2);
  });

  test('lists the models of its targets again only when none is known', async () => {
    const some = routerOf({ virtual: [both], served: ['open/b'], later: ['shut/a'] });
    expect(names(now(some.route('both')))).toEqual(['open/b']);
    expect(some.requests).toEqual([]);
    const none = routerOf({ virtual: [both], later: ['open/b'] });
    expect(names(await none.route('both'))).toEqual(['open/b']);
    expect(none.requests).toEqual(['shut/a', 'open/b']);
    await expect(routerOf({ virtual: [both] }).route('both')).rejects.toMatchObject({ code: 'model_not_found' });
  });

  test('puts targets without capacity and unhealthy ones last', () => {
    const virtual = [redirect('three', ['x/full', 'y/down', 'z/fine'], { strategy: 'failover' })];
    const route = now(
      routerOf({
        virtual,
        served: ['x/full', 'y/down', 'z/fine'],
        admission: { hasRoom: (one) => one.model !== 'full' },
        isInOrder: (provider) => provider !== 'y',
      }).route('three'),
    );
    expect(names(route)).toEqual(['z/fine', 'x/full', 'y/down']);
    expect(route.ready).toBe(1);
  });

  test('can be explained without using up a turn', () => {
    const router = routerOf({ virtual: [both], served });
    for (let n = 0; n < 3; n++) expect(router.reach('both')).toHaveLength(2);
    expect(names(now(router.route('both')))).toEqual(['shut/a', 'open/b']);
    router.reach('both');
    expect(names(now(router.route('both')))).toEqual(['open/b', 'shut/a']);
  });

  test('uses at most as many targets as failover allows', () => {
    const virtual = [redirect('three', ['x/1', 'y/2', 'z/3'], { strategy: 'failover' })];
    const more = { virtual, served: ['x/1', 'y/2', 'z/3'] };
    const failover = { enabled: true, maxModels: 2, statuses: [], phrases: [] };
    expect(names(now(routerOf({ ...more, failover }).route('three')))).toEqual(['x/1', 'y/2']);
    const off = { ...failover, enabled: false };
    expect(names(now(routerOf({ ...more, failover: off }).route('three')))).toEqual(['x/1']);
  });
});

describe('the observed latency of a target', () => {
  const virtual = [redirect('quick', ['x/1', 'y/2'], { strategy: 'adaptive' })];
  const served = ['x/1', 'y/2'];
  const learned = (one: RefusedTarget | undefined, firstByteMs: number | undefined, waitedMs: number) => {
    const router = routerOf({ virtual, served });
    const first = now(router.route('quick'));
    first.observed?.(target('x', '1'), one, waitedMs, firstByteMs);
    first.observed?.(target('y', '2'), undefined, 300, 200);
    return names(now(router.route('quick')))[0];
  };

  test('is the time to the first byte, not to the end', () => {
    expect(learned(undefined, 100, 9_000)).toBe('x/1');
    expect(learned(undefined, 400, 500)).toBe('y/2');
  });

  test('is high after a failure, and unchanged when the request was at fault', () => {
    expect(learned({ kind: 'refused', attempts: 1, status: 500, refusal: failure() }, undefined, 5)).toBe('y/2');
    const fault: RefusedTarget = { kind: 'refused', attempts: 1, status: 400, refusal: failure() };
    const router = routerOf({ virtual, served });
    now(router.route('quick')).observed?.(target('x', '1'), fault, 5, undefined);
    // No latency is known yet, so the turns continue.
    expect(names(now(router.route('quick')))[0]).toBe('y/2');
  });

  test('is at least the wait of a client that left, and unchanged when it left soon', () => {
    const router = routerOf({ virtual, served });
    const first = now(router.route('quick'));
    const next = () => names(now(router.route('quick')))[0];
    const [x, y] = [target('x', '1'), target('y', '2')];
    first.observed?.(x, undefined, 5, undefined);
    first.observed?.(y, undefined, 300, 200);
    expect(next()).toBe('y/2');
    first.observed?.(x, undefined, 150, 100);
    first.observed?.(x, undefined, 50, undefined);
    expect(next()).toBe('x/1');
    first.observed?.(x, undefined, 60_000, undefined);
    expect(next()).toBe('y/2');
  });
});

function failure(): Refusal {
  return new Refusal({ status: 502, type: 'provider_error', code: null, message: 'no' });
}
