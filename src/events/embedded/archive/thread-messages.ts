/** Messages between the gateway's thread and a thread that archives. */

import fs from 'node:fs';
import type { StreamName } from '../../event.ts';
import { type Disk, nodeDisk } from '../disk.ts';
import type { FoundParts, SearchedPlaces } from '../find/stream-finder.ts';
import { LogCorrupted } from '../log-errors.ts';
import type { StreamCategories } from '../segment.ts';
import type { ArchiveTask, Effort } from './archive-segment.ts';
import { IndexUnusable } from './index-file.ts';

/** The start data of the thread. */
export interface ThreadSettings {
  readonly dir: string;
  readonly mark: number;
  /** Whether it runs at the lowest priority. */
  readonly lowPriority: boolean;
  /** Shared: its member is 1 while the gateway's thread is almost idle. */
  readonly idle: Int32Array<SharedArrayBuffer>;
}

/** Each request but `stop` has one answer with its id. */
export type ThreadRequest =
  | { readonly kind: 'archive'; readonly id: number; readonly task: ArchiveTask; readonly effort: Effort }
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

/** The thread pool belongs to the gateway's requests, and is not used by threads that archive or find streams. */
export const threadDisk: Disk = {
  ...nodeDisk,
  readLater: async (fd, buffer, offset, length, position) => fs.readSync(fd, buffer, offset, length, position),
  datasync: (fd, done) => done(errorIn(() => fs.fdatasyncSync(fd))),
  syncDirectory: (dir, done) => done(errorIn(() => syncDirectoryNow(dir))),
  removeLater: async (file) => fs.rmSync(file, { force: true }),
};

function errorIn(work: () => void): NodeJS.ErrnoException | null {
  try {
    work();
    return null;
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

function syncDirectoryNow(dir: string): void {
  const fd = fs.openSync(dir, 'r');
  try {
    fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}

// Messages between the gateway's thread and the thread that finds streams.

/** The start data of the thread. */
export interface FinderSettings {
  readonly dir: string;
  readonly mark: number;
}

/** Each has one answer with its id. */
export type FinderRequest =
  | {
      readonly kind: 'last';
      readonly id: number;
      readonly streams: readonly StreamName[];
      readonly places: SearchedPlaces;
    }
  | {
      readonly kind: 'parts';
      readonly id: number;
      readonly stream: StreamName;
      readonly places: SearchedPlaces;
    }
  | { readonly kind: 'release'; readonly id: number };

export type FinderAnswer =
  | { readonly kind: 'last'; readonly id: number; readonly found: ReadonlyMap<StreamName, number> }
  | { readonly kind: 'parts'; readonly id: number; readonly found: FoundParts }
  | { readonly kind: 'released'; readonly id: number }
  | { readonly kind: 'failed'; readonly id: number; readonly failure: Failure };
