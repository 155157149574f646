/** Messages between the gateway's thread and a thread that archives. */
import { LogCorrupted } from '../log-errors.ts';
import type { StreamCategories } from '../segment.ts';
import type { ArchiveTask } from './archive-segment.ts';
import { IndexUnusable } from './index-file.ts';

/** The start data of the thread. */
export interface ThreadSettings {
  readonly dir: string;
  readonly mark: number;
  /** Whether it runs at the lowest priority. */
  readonly lowPriority: boolean;
}

/** Each request but `stop` has one answer with its id. */
export type ThreadRequest =
  | { readonly kind: 'archive'; readonly id: number; readonly task: ArchiveTask; readonly restFactor: number }
  /** Makes the request with that id fail, if it is still running. */
  | { readonly kind: 'stop'; readonly id: number };

export type ThreadAnswer =
  /** Sent once, when the thread has loaded its modules. */
  | { readonly kind: 'ready' }
  | { readonly kind: 'archived'; readonly id: number; readonly categories: StreamCategories }
  | { readonly kind: 'failed'; readonly id: number; readonly failure: Failure };

/** An error in a form that can be sent between threads. */
export interface Failure {
  readonly message: string;
  readonly damage?: { readonly segment: string; readonly offset: number; readonly reason: string };
  readonly indexUnusable?: boolean;
}

export function failureOf(error: unknown): Failure {
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof LogCorrupted) {
    const { segment, offset, reason } = error;
    return { message, damage: { segment, offset, reason } };
  }
  return { message, indexUnusable: error instanceof IndexUnusable };
}

export function errorOf({ message, damage, indexUnusable }: Failure): Error {
  if (damage !== undefined) return new LogCorrupted(damage.segment, damage.offset, damage.reason);
  return indexUnusable === true ? new IndexUnusable(message) : new Error(message);
}
