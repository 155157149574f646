/** What can be wrong with a log's files, beyond the port's own errors. */

/** The bytes on disk are not those that were written. Nothing is repaired or skipped silently. */
export class LogCorrupted extends Error {
  readonly code = 'log_corrupted';
  readonly segment: string;
  /** Byte offset in the segment, uncompressed. */
  readonly offset: number;
  readonly reason: string;
  constructor(segment: string, offset: number, reason: string, cause?: unknown) {
    super(`the event log is damaged: segment ${segment} at byte ${offset}: ${reason}`, { cause });
    this.segment = segment;
    this.offset = offset;
    this.reason = reason;
  }
}

/** Another process (or another log object of this one) is the writer. */
export class LogLocked extends Error {
  readonly code = 'log_locked';
  constructor(dir: string, holder: string) {
    super(`the event log in ${dir} is already open for writing by ${holder}; only one process can write it`);
  }
}

/** The derived index contradicts the segments. It is then made again; no one outside the engine sees this. */
export class IndexIsWrong extends Error {
  /** Position of the first event of the segment in question. */
  readonly segment: number;
  constructor(segment: number, what: string) {
    super(`the stream index is wrong about segment ${segment}: ${what}`);
    this.segment = segment;
  }
}
