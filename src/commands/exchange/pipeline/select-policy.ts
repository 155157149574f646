/**
 * Selects the policy of the request by its caller and its first candidate. Failover keeps this policy. A request that
 * is resumed keeps the workflow with which it was recorded.
 */
import type { Route } from '../../model-request/routing-types.ts';
import { refusals } from '../../refusal.ts';
import type { GuardedEndpoints } from '../guarding/guarded-endpoints.ts';
import type { ExchangePolicy } from '../policy.ts';
import type { Governed, Routed } from './context.ts';
import { noteReceived } from './record-request.ts';
import type { Step } from './step.ts';

export const selectPolicy: Step<Routed, Governed> = {
  name: 'selectPolicy',
  run(context, { policyOf, policyAgain, guardedEndpoints }) {
    const { exchange, route } = context;
    const { request, resumed } = exchange;
    const first = route.candidates[0];
    if (resumed?.workflow === undefined) return governed(context, policyOf(request, first), guardedEndpoints);
    return policyAgain(resumed.workflow).then((again) =>
      governed(context, again ?? policyOf(request, first), guardedEndpoints),
    );
  },
};

/** @throws Refusal 500 when the guardrails of the workflow cannot run, or cannot read requests to this endpoint */
function governed(context: Routed, policy: ExchangePolicy, guardedEndpoints: GuardedEndpoints): Governed {
  const { workflow, guardrails } = policy;
  const { dialect } = context.exchange;
  const isRead = guardrails === undefined || (dialect.take === undefined && guardedEndpoints.has(dialect.endpoint));
  const problem = isRead ? policy.problem : `they cannot read requests to ${dialect.endpoint}`;
  if (problem !== undefined) {
    noteReceived(context.exchange, context.parsedRequest, policy);
    throw refusals.workflowUnusable(workflow?.scope ?? '', problem);
  }
  return { ...context, route: policy.failsOver ? context.route : withoutFailover(context.route), policy };
}

function withoutFailover(route: Route): Route {
  if (route.candidates.length < 2) return route;
  return { ...route, candidates: route.candidates.slice(0, 1), ready: Math.min(route.ready, 1) };
}
