/**
 * The built-in route strategy `cheapest_healthy`: the cheapest or the fastest target among those whose recent error
 * rate is acceptable. Deterministic: equal facts lead to an equal selection.
 */
import { z } from 'zod';
import type { RouteConfig, RouteQuestion, RouteSelection, RouteStrategy, RouteTarget } from './route-strategy.ts';

const settings = z.strictObject({
  prefer: z.enum(['cheapest', 'fastest']).default('cheapest'),
  max_error_rate: z.number().min(0).max(1).default(0.2),
});

export const cheapestHealthy: RouteStrategy = {
  name: 'cheapest_healthy',
  label: 'Cheapest healthy target',
  description:
    'Selects the cheapest (or fastest) target whose share of failed calls in the last minute is at most max_error_rate.',
  routeFields: [
    {
      key: 'prefer',
      label: 'Prefer',
      input: 'select',
      required: false,
      options: [
        { value: 'cheapest', label: 'the cheapest target' },
        { value: 'fastest', label: 'the fastest target' },
      ],
      scope: 'route',
    },
    {
      key: 'max_error_rate',
      label: 'Maximum error rate',
      input: 'number',
      required: false,
      help: 'From 0 to 1. Targets with more failed calls in the last minute are selected only when all have more.',
      placeholder: '0.2',
      scope: 'route',
    },
  ],
  readConfig(config) {
    const read = settings.safeParse(config);
    if (read.success) return { ok: true, config: read.data };
    const [issue] = read.error.issues;
    const key = issue?.path[0] ?? (issue?.code === 'unrecognized_keys' ? issue.keys[0] : undefined);
    const problem = key === undefined ? 'it must be an object.' : `'${String(key)}': ${issue?.message}`;
    return { ok: false, problem, ...(typeof key === 'string' ? { key } : {}) };
  },
  select,
};

function select(config: RouteConfig, { targets }: RouteQuestion): RouteSelection {
  const { prefer, max_error_rate: max } = settings.parse(config);
  const isAcceptable = ({ errorRate }: RouteTarget) => errorRate <= max;
  const acceptable = targets.some(isAcceptable);
  const compare = prefer === 'cheapest' ? byPrice : byLatency;
  let best: { target: RouteTarget; index: number } | undefined;
  for (const [index, target] of targets.entries()) {
    if (acceptable && !isAcceptable(target)) continue;
    const difference =
      best === undefined
        ? -1
        : (acceptable ? 0 : target.errorRate - best.target.errorRate) || compare(target, best.target);
    if (difference < 0) best = { target, index };
  }
  const among = acceptable ? `with an error rate of at most ${max}` : `with the lowest error rate, all above ${max}`;
  return { index: best?.index ?? 0, reason: `${prefer} target ${among}` };
}

/** Unknown prices last; of equal prices the shorter latency first. */
function byPrice(one: RouteTarget, other: RouteTarget): number {
  return (
    ascending(one.price ?? Number.POSITIVE_INFINITY, other.price ?? Number.POSITIVE_INFINITY) || byKnown(one, other)
  );
}

/** Targets that were not measured recently first, so that each is measured; of equal latencies the cheaper first. */
function byLatency(one: RouteTarget, other: RouteTarget): number {
  return (
    ascending(one.latencyMs ?? 0, other.latencyMs ?? 0) ||
    ascending(one.price ?? Number.POSITIVE_INFINITY, other.price ?? Number.POSITIVE_INFINITY)
  );
}

function byKnown(one: RouteTarget, other: RouteTarget): number {
  return ascending(one.latencyMs ?? Number.POSITIVE_INFINITY, other.latencyMs ?? Number.POSITIVE_INFINITY);
}

function ascending(one: number, other: number): number {
  return one < other ? -1 : one > other ? 1 : 0;
}
