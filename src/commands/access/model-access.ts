/** Who may use which model: asked by routing, by listings and by everything else that names a model. */
import type { Caller } from '../model-request/caller.ts';

/** What of a caller decides. */
export type Asker = Pick<Caller, 'userPath' | 'key'>;

/** Why a model may not be used: the key's own list is in the way, or what holds for everybody at the path. */
export type Denial = 'not available for this key' | 'not available';

export interface ModelAccess {
  /**
   * From memory, without waiting.
   * @param provider the instance's name
   * @param model the provider's own id
   */
  allows(caller: Asker, provider: string, model: string): boolean;
  /** The same, telling why not; undefined when it is allowed. */
  denial(caller: Asker, provider: string, model: string): Denial | undefined;
  /** Whether any list is in force that could refuse this caller something: when not, nobody needs to look. */
  restricts(caller: Asker): boolean;
  /**
   * Where no model is named. `all`: every model of the provider, also one that nobody has listed, as its own API
   * offers them; `any`: at least one.
   */
  allowsProvider(caller: Asker, provider: string, extent: 'all' | 'any'): boolean;
}
