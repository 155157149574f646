/** Where stored responses are found. A projection implements it. */
import { type Owner, type Sight, sees, seesEverything } from '../visibility.ts';
import type { StoredItem } from './input-items.ts';

export interface StoredResponse extends Owner {
  readonly id: string;
  readonly status: 'queued' | 'in_progress' | 'completed' | 'incomplete' | 'failed' | 'cancelled';
  readonly exchangeId: string;
  readonly provider: string;
  readonly providerType: string;
  readonly model: string;
  /** Whether the provider keeps it too, under the same id. */
  readonly native: boolean;
  readonly previousResponseId: string | null;
  readonly revision: bigint;
  readonly response: Readonly<Record<string, unknown>>;
  readonly inputItems: readonly StoredItem[];
}

/** What a projection implements. It knows no callers, so it is for `archiveOf` alone. */
export interface ResponseRecords {
  load(id: string): Promise<StoredResponse | undefined>;
  /** Whether it was stored here once. */
  wasDeleted(id: string): Promise<boolean>;
}

export interface ResponseArchive {
  /** Undefined when it was never stored, was deleted, or is not to be seen. */
  find(id: string, sight: Sight): Promise<StoredResponse | undefined>;
  /**
   * Whether a provider may be asked for a response that `find` did not find. What is not on the record here belongs to
   * nobody in particular: only those who see everything may ask for it. What was deleted is nowhere.
   */
  mayBeElsewhere(id: string, sight: Sight): Promise<boolean>;
}

export function archiveOf(records: ResponseRecords): ResponseArchive {
  return {
    async find(id, sight) {
      const stored = await records.load(id);
      return stored !== undefined && sees(sight, stored) ? stored : undefined;
    },
    mayBeElsewhere: async (id, sight) => seesEverything(sight) && !(await records.wasDeleted(id)),
  };
}
