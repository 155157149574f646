/** Finds stored responses. A projection implements it. */
import type { RecordedPlaceholder } from '../guardrails/placeholders.ts';
import { type Owner, type Sight, sees, seesEverything } from '../visibility.ts';
import type { StoredItem } from './input-items.ts';

export interface StoredResponse extends Owner {
  readonly id: string;
  readonly status: 'queued' | 'in_progress' | 'completed' | 'incomplete' | 'failed' | 'cancelled';
  readonly exchangeId: string;
  readonly provider: string;
  readonly providerType: string;
  readonly model: string;
  /** Whether the provider stores it too, under the same id. */
  readonly native: boolean;
  readonly previousResponseId: string | null;
  readonly revision: bigint;
  readonly response: Readonly<Record<string, unknown>>;
  readonly inputItems: readonly StoredItem[];
  /** The values that guardrails kept from providers in this turn and the turns before. */
  readonly placeholders: readonly RecordedPlaceholder[];
}

/** Implemented by a projection. It does not check callers, so only `archiveOf` uses it. */
export interface ResponseRecords {
  load(id: string): Promise<StoredResponse | undefined>;
  /** Whether it was stored here and then deleted. */
  wasDeleted(id: string): Promise<boolean>;
}

export interface ResponseArchive {
  /** Undefined when it was never stored, was deleted, or the caller may not see it. */
  find(id: string, sight: Sight): Promise<StoredResponse | undefined>;
  /**
   * Whether a provider may be queried for a response that `find` did not find. A response that is not recorded here
   * has no known owner: only callers who see everything may query it. A deleted response does not exist anywhere.
   */
  mayBeOnlyAtProvider(id: string, sight: Sight): Promise<boolean>;
}

export function archiveOf(records: ResponseRecords): ResponseArchive {
  return {
    async find(id, sight) {
      const stored = await records.load(id);
      return stored !== undefined && sees(sight, stored) ? stored : undefined;
    },
    mayBeOnlyAtProvider: async (id, sight) => seesEverything(sight) && !(await records.wasDeleted(id)),
  };
}
