/** Who is to be asked, when the model decides it: one target, or several in the order to try them. */

import type { Caller } from './caller.ts';
import type { RefusedTarget } from './failed-target.ts';
import type { Target } from './target.ts';

export interface RouteRequest {
  /** The selector as the client wrote it. */
  readonly selector: string;
  /** The routing hint in the body's `provider` member. */
  readonly provider: string | undefined;
  readonly caller: Pick<Caller, 'userPath' | 'key'>;
  readonly sessionId: string | undefined;
  readonly labels: readonly string[] | undefined;
  /** Whether the answer is to come as a stream. */
  readonly stream: boolean;
}

export interface Route {
  /** Never empty; the first is asked first. */
  readonly candidates: readonly Target[];
  /** So many of the first candidates are in order and have room; whoever comes behind them is a last resort. */
  readonly ready: number;
  /** The virtual models gone through, outermost first; empty for a model that a provider serves under that name. */
  readonly through: readonly string[];
  /** Whether another candidate is to be asked after this end of one. Never asked once bytes went out. */
  failsOver(outcome: RefusedTarget): boolean;
  /**
   * Told how each candidate that was asked did, where that decides who is asked next time. In milliseconds from when it
   * was asked: to the end, and to the first byte. `refused` is undefined of one that answered, or was left to itself.
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
   * From memory; it waits only where a model may be new and its provider is asked for its list.
   * @throws Refusal when nobody serves the model, or the caller may not use it
   */
  route(request: RouteRequest): Route | Promise<Route>;
}

/** What of a request decides who may be asked at all. */
export type ReachRequest = Pick<RouteRequest, 'selector' | 'provider' | 'caller'>;

/** Where no model is asked, but somebody has to know who would be. */
export interface Reach {
  /**
   * Everybody who might be asked, in the order as it is written down; nobody's turn is used up.
   * @throws Refusal when nobody serves the model, or the caller may not use it
   */
  reach(request: ReachRequest): readonly Target[] | Promise<readonly Target[]>;
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
  return { candidates: [target], ready: 1, through: [], failsOver: never };
}

function never(): boolean {
  return false;
}
