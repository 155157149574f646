import type { RecordGroup } from './append-groups.ts';
import type { RecordSource } from './stored-records.ts';

/** Where the copy is written. */
export interface CopyTarget {
  /** What it has, to be read back. */
  readonly records: RecordSource;
  /** Position of its last event at the opening. */
  readonly last: number;
  /**
   * Appends the records after those that are there.
   * @throws CopyRefused when they got other positions or revisions; the errors of the disk or the engine
   */
  append(group: RecordGroup): Promise<void>;
  /** Ends the writing: everything is on disk, or acknowledged by the engine and read back. @returns the last position */
  finish(): Promise<number>;
  /** Marks the copy as complete. After `finish`, when it was found to be equal. */
  complete(): Promise<void>;
  /** In every case, at the end. */
  close(): Promise<void>;
}
