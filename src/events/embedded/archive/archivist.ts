/** Executes the steps of archiving. */
import type { LogFiles, StreamCategories } from '../segment.ts';
import { type ArchiveTask, archiveSegment } from './archive-segment.ts';
import { paceOf } from './pace.ts';

export interface Archivist {
  /**
   * Executes one step; resolves when its result is on disk or in the index.
   * @param effort `idle`: with idle processor time; `steady`: also on a busy processor; `hurried`:
   *   with a larger share
   * @param signal stops the step between two pieces of work; this then rejects with the signal's reason
   * @throws what `archiveSegment` throws; Error when the step could not be done for another reason
   */
  archive(task: ArchiveTask, effort: Effort, signal: AbortSignal): Promise<StreamCategories>;
  /** No step may be running. */
  close(): Promise<void>;
}

export type Effort = 'idle' | 'steady' | 'hurried';

/** Archives on the caller's thread, through the caller's disk: for tests in which the disk fails. */
export class InlineArchivist implements Archivist {
  readonly #log: LogFiles;

  constructor(log: LogFiles) {
    this.#log = log;
  }

  archive(task: ArchiveTask, _effort: Effort, signal: AbortSignal): Promise<StreamCategories> {
    return archiveSegment(this.#log, task, paceOf(0, signal));
  }

  async close(): Promise<void> {}
}
