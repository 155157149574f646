/** Routing by model: one target, or several in the order in which they are called. */
import type { FailureKind, Provider } from '../../providers/provider.ts';
import type { Refusal } from '../refusal.ts';
import type { Caller } from './model-request.ts';

/** A provider with one of its models. */
export interface Target {
  readonly provider: Provider;
  /** The provider's own id of the model; empty when no model is called. */
  readonly model: string;
}

/** The result of the attempts with one target, when none gave an answer. */
export interface RefusedTarget {
  readonly kind: 'refused';
  readonly refusal: Refusal;
  readonly attempts: number;
  /** Set when the provider is not at fault. */
  readonly reason?: 'upload_failed' | 'budget_exceeded';
  /** The provider's last status; undefined when it gave none or was not called. */
  readonly status?: number | undefined;
  /** How the call failed; undefined when the provider gave a status or was not called. */
  readonly failure?: FailureKind | undefined;
  /** The provider answered, but the answer is malformed. */
  readonly isMalformed?: boolean;
  /** The gateway has called this target more than once for the same request. */
  readonly isRetried?: boolean;
  /** The request cannot be repeated: its body arrived in pieces that are not kept. */
  readonly spent?: boolean;
}

export interface RouteRequest {
  /** The selector as the client wrote it. */
  readonly selector: string;
  /** The routing hint in the body's `provider` member. */
  readonly provider: string | undefined;
  readonly caller: Pick<Caller, 'userPath' | 'key' | 'origin'>;
  readonly sessionId: string | undefined;
  readonly labels: readonly string[] | undefined;
  /** Whether the client requested a stream. */
  readonly stream: boolean;
}

/** How a route strategy, or what replaced it, selected a target. */
export interface Selection {
  readonly virtualModel: string;
  readonly strategy: string;
  /** `<provider>/<model>` */
  readonly target: string;
  readonly by: 'strategy' | 'session' | 'fallback';
  /** The explanation of the strategy, or the reason of the fallback. */
  readonly reason?: string;
}

export interface Route {
  /** Never empty; the first is called first. */
  readonly candidates: readonly Target[];
  /** How many of the first candidates are healthy and have room; the candidates behind them are a last resort. */
  readonly ready: number;
  /** The virtual models that led to the target, outermost first; empty for a provider's model under its own name. */
  readonly through: readonly string[];
  /** How route strategies selected targets, outermost virtual model first; undefined when none took part. */
  readonly selections?: readonly Selection[];
  /** Whether another candidate is called after this failure. Not used once bytes were sent to the client. */
  failsOver(outcome: RefusedTarget): boolean;
  /**
   * Called with the result of each candidate, where it influences later choices. Milliseconds from the start of the
   * call: to its end, and to the first byte. `refused` is undefined for a candidate that answered, or whose client
   * left.
   */
  observed?(
    target: Target,
    refused: RefusedTarget | undefined,
    waitedMs: number,
    firstByteMs: number | undefined,
  ): void;
}

export interface Router {
  /**
   * Decided from memory; waits only when the model may be new and its provider's list is fetched, or for a route
   * strategy that returns a promise, at most 250 ms for each virtual model.
   * @throws Refusal when no provider serves the model, or the caller may not use it
   */
  route(request: RouteRequest): Route | Promise<Route>;
}

/** The parts of a request that decide which targets may be called. */
export type ReachRequest = Pick<RouteRequest, 'selector' | 'provider' | 'caller'>;

/** Finds the targets of a model without calling one. */
export interface Reach {
  /**
   * All targets that might be called, in the declared order; no turn of a round robin is used up.
   * @throws Refusal when no provider serves the model, or the caller may not use it
   */
  reach(request: ReachRequest): readonly Target[] | Promise<readonly Target[]>;
}

/** Finds the provider that serves a model. */
export interface ModelDirectory {
  /** Answers from the known lists, without waiting. */
  resolve(selector: string, provider: string | undefined): Target | undefined;
  /** Fetches the provider's list again, once, in case the model is new. */
  resolveOrRefresh(selector: string, provider: string | undefined): Promise<Target | undefined>;
  /** Whether a provider of that name or type exists. */
  knows(provider: string): boolean;
}
