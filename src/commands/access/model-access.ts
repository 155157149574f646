/** Which callers may use which models. Routing, listings and everything else that names a model use it. */
import type { Caller } from '../model-request/caller.ts';

/** The parts of a caller that decide access. */
export type ModelCaller = Pick<Caller, 'userPath' | 'key' | 'origin'>;

/** Why a model may not be used: the key's own list excludes it, or the rules for all callers at the path do. */
export type Denial = 'not available for this key' | 'not available';

export interface ModelAccess {
  /**
   * Decided from memory, synchronously.
   * @param provider the instance's name
   * @param model the provider's own id
   */
  allows(caller: ModelCaller, provider: string, model: string): boolean;
  /** Like `allows`, with the reason of a refusal; undefined when the model is allowed. */
  denial(caller: ModelCaller, provider: string, model: string): Denial | undefined;
  /** Whether any list or policy could refuse this caller a model; if not, callers can skip the checks. */
  restricts(caller: ModelCaller): boolean;
  /**
   * For requests that name no model. `all`: every model of the provider, including unlisted ones that its own API
   * offers; `any`: at least one.
   */
  allowsProvider(caller: ModelCaller, provider: string, extent: 'all' | 'any'): boolean;
}
