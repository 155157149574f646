/** Where stored responses are found. A projection implements it. */
import type { UserPath } from '../../events/event.ts';
import { mayRead } from '../visibility.ts';
import type { StoredItem } from './input-items.ts';

export interface StoredResponse {
  readonly id: string;
  readonly status: 'queued' | 'in_progress' | 'completed' | 'incomplete' | 'failed' | 'cancelled';
  readonly exchangeId: string;
  readonly provider: string;
  readonly providerType: string;
  readonly model: string;
  /** Whether the provider keeps it too, under the same id. */
  readonly native: boolean;
  readonly previousResponseId: string | null;
  readonly userPath: UserPath | undefined;
  readonly revision: bigint;
  readonly response: Readonly<Record<string, unknown>>;
  readonly inputItems: readonly StoredItem[];
}

export interface ResponseArchive {
  /** Undefined when it was never stored, or was deleted. */
  load(id: string): Promise<StoredResponse | undefined>;
}

/** The archive as one caller sees it: what belongs to others is not there. */
export function visibleTo(caller: UserPath | undefined, archive: ResponseArchive): ResponseArchive {
  if (caller === undefined) return archive;
  return {
    async load(id) {
      const stored = await archive.load(id);
      return stored !== undefined && mayRead(caller, stored.userPath) ? stored : undefined;
    },
  };
}
