/** Who may use which model: asked by routing, by listings and by everything else that names a model. */
import type { Caller } from '../exchange/client.ts';

export interface ModelAccess {
  /**
   * From memory, without waiting.
   * @param provider the instance's name
   * @param model the provider's own id
   */
  allows(caller: Pick<Caller, 'userPath' | 'key'>, provider: string, model: string): boolean;
  /** Whether any list is in force that could refuse this caller something: when not, nobody needs to look. */
  restricts(caller: Pick<Caller, 'userPath' | 'key'>): boolean;
}

/** Nobody has restricted anything. */
export const everythingAllowed: ModelAccess = { allows: () => true, restricts: () => false };
