/** Who is to be asked, when the model decides it: one target, or several in the order to try them. */
import { refusals } from '../refusal.ts';
import type { Outcome } from './attempts.ts';
import type { Caller } from './client.ts';
import type { Target } from './dialect.ts';

export interface RouteRequest {
  /** The selector as the client wrote it. */
  readonly selector: string;
  /** The routing hint in the body's `provider` member. */
  readonly provider: string | undefined;
  readonly caller: Pick<Caller, 'userPath' | 'key'>;
  readonly sessionId: string | undefined;
  readonly labels: readonly string[] | undefined;
}

export interface Route {
  /** Never empty; the first is asked first. */
  readonly candidates: readonly Target[];
  /** The virtual models gone through, outermost first; empty for a model that a provider serves under that name. */
  readonly through: readonly string[];
  /** Whether another candidate is to be asked after this end of one. Never asked once bytes went out. */
  failsOver(outcome: Extract<Outcome, { kind: 'refused' }>): boolean;
}

export interface Router {
  /**
   * From memory; it waits only where a model may be new and its provider is asked for its list.
   * @throws Refusal when nobody serves the model, or the caller may not use it
   */
  route(request: RouteRequest): Route | Promise<Route>;
}

/** Finds who serves a model. */
export interface ModelDirectory {
  /** What is known now, without waiting. */
  resolve(selector: string, provider: string | undefined): Target | undefined;
  /** Asks the provider again, once, in case the model is new. */
  resolveOrRefresh(selector: string, provider: string | undefined): Promise<Target | undefined>;
  /** Whether a provider of that name or type exists. */
  knows(provider: string): boolean;
}

/** A route with nothing to choose. */
export function oneTarget(target: Target): Route {
  return { candidates: [target], through: [], failsOver: () => false };
}

/** Routes to the provider that serves the model under its own name, and to nobody else. */
export function directRouter(models: ModelDirectory): Router {
  return {
    route({ selector, provider }) {
      if (provider !== undefined && !models.knows(provider)) throw refusals.unknownProvider(provider);
      const known = models.resolve(selector, provider);
      if (known !== undefined) return oneTarget(known);
      return models.resolveOrRefresh(selector, provider).then((found) => {
        if (found === undefined) throw refusals.modelNotFound(selector);
        return oneTarget(found);
      });
    },
  };
}
