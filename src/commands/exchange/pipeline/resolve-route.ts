/** The candidates for a request, determined by its route or by the model that it names. */
import { oneTarget, type Route } from '../../model-request/routing-types.ts';
import { refusals } from '../../refusal.ts';
import type { KeyLookedUp, Routed } from './context.ts';
import type { Step } from './step.ts';

export const resolveRoute: Step<KeyLookedUp, Routed> = {
  name: 'resolveRoute',
  run(context, { router }) {
    const { parsedRequest, exchange } = context;
    const { dialect, request } = exchange;
    const given = dialect.target?.(parsedRequest);
    if (given !== undefined) {
      const routed = (route: Route): Routed => ({ ...context, route, isByModel: false });
      return given instanceof Promise ? given.then((target) => routed(oneTarget(target))) : routed(oneTarget(given));
    }
    const routed = (route: Route): Routed => {
      if (route.candidates.length === 0) throw refusals.modelNotFound(parsedRequest.model);
      return { ...context, route, isByModel: true };
    };
    const { caller, labels, sessionId } = request;
    const { model: selector, provider, stream } = parsedRequest;
    const found = router.route({ selector, provider, caller, labels, sessionId, stream });
    return found instanceof Promise ? found.then(routed) : routed(found);
  },
};
