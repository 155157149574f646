/** Selects the policy of the request. Failover keeps the policy of the first candidate. */
import type { Governed, Routed } from './context.ts';
import type { Step } from './step.ts';

export const selectPolicy: Step<Routed, Governed> = {
  name: 'selectPolicy',
  run(context, { policyOf }) {
    const { exchange, route } = context;
    return { ...context, policy: policyOf(exchange.request, route.candidates[0]) };
  },
};
