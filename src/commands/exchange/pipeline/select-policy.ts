/**
 * Selects the policy of the request by its caller and its first candidate. Failover keeps this policy, and leaves out candidates under
 * other guardrails. A request that
 * is resumed keeps the workflow with which it was recorded.
 */
import type { Route } from '../../model-request/routing-types.ts';
import type { Target } from '../../model-request/target.ts';
import { refusals } from '../../refusal.ts';
import type { ExchangePolicy } from '../policy.ts';
import type { Governed, Routed } from './context.ts';
import type { ExchangeDependencies } from './dependencies.ts';
import { noteReceived } from './record-request.ts';
import type { Step } from './step.ts';

export const selectPolicy: Step<Routed, Governed> = {
  name: 'selectPolicy',
  run(context, { policyOf, policyAgain, guardedEndpoints }) {
    const { exchange, route } = context;
    const { request, resumed } = exchange;
    const first = route.candidates[0];
    if (resumed?.workflow === undefined)
      return governed(context, policyOf(request, first), { guardedEndpoints, policyOf });
    return policyAgain(resumed.workflow).then((again) =>
      governed(context, again ?? policyOf(request, first), { guardedEndpoints, policyOf }),
    );
  },
};

/** @throws Refusal 500 when the guardrails of the workflow cannot run; 403 when they read no requests to this endpoint */
function governed(
  context: Routed,
  policy: ExchangePolicy,
  { guardedEndpoints, policyOf }: Pick<ExchangeDependencies, 'guardedEndpoints' | 'policyOf'>,
): Governed {
  const { workflow, guardrails } = policy;
  const { dialect } = context.exchange;
  const isRead = guardrails === undefined || (dialect.take === undefined && guardedEndpoints.has(dialect.endpoint));
  if (!isRead || policy.problem !== undefined) {
    noteReceived(context.exchange, context.parsedRequest, policy);
    const scope = workflow?.scope ?? '';
    throw policy.problem === undefined
      ? refusals.endpointNotGuarded(dialect.endpoint, scope)
      : refusals.workflowUnusable(scope, policy.problem);
  }
  return { ...context, route: routeUnder(policy, context, policyOf), policy };
}

/** Other candidates are called only when the guardrails of the selected workflow are theirs too. */
function routeUnder(
  policy: ExchangePolicy,
  { route, exchange }: Routed,
  policyOf: ExchangeDependencies['policyOf'],
): Route {
  const [first, ...others] = route.candidates;
  if (first === undefined || others.length === 0) return route;
  if (!policy.failsOver) return { ...route, candidates: [first], ready: Math.min(route.ready, 1) };
  const isUnderOther = (target: Target) => {
    const { guardrails, problem } = policyOf(exchange.request, target);
    return guardrails !== policy.guardrails || problem !== undefined;
  };
  if (!others.some(isUnderOther)) return route;
  const candidates = route.candidates.filter((target, place) => place === 0 || !isUnderOther(target));
  const ready = route.candidates.slice(0, route.ready).filter((target) => candidates.includes(target)).length;
  return { ...route, candidates, ready };
}
