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

/** A stretch of positions that had been acknowledged and is not there, or a file without events that is not there. */
export interface MissingPart {
  /** Both included; absent for a file that holds no events. */
  readonly positions?: { readonly first: number; readonly last: number };
  /** The files that are missing, or that end too early. */
  readonly files: readonly string[];
  /** What is wrong, when it is something else than that files are missing. */
  readonly reason?: string;
}

/** What was there once is there no more. Nothing was changed, so that it can be put back. */
export class LogIncomplete extends Error {
  readonly code = 'log_incomplete';
  readonly missing: readonly MissingPart[];
  constructor(dir: string, missing: readonly MissingPart[]) {
    const parts = missing.map(describeMissing).join('; ');
    super(
      `the event log in ${dir} is incomplete: ${parts}. Put the files back from a backup, or record the loss with ` +
        '"chancery log accept-loss --reason TEXT" and go on without them',
    );
    this.missing = missing;
  }
}

export function describeMissing({ positions, files, reason }: MissingPart): string {
  const names = files.join(', ');
  if (reason !== undefined) return `${reason} (${names})`;
  if (positions === undefined) return `${names} is missing or damaged`;
  const { first, last } = positions;
  return `${first === last ? `position ${first} is` : `positions ${first} to ${last} are`} missing (${names})`;
}

/** Another process (or another log object of this one) is the writer. */
export class LogLocked extends Error {
  readonly code = 'log_locked';
  constructor(dir: string, holder: string) {
    super(`the event log in ${dir} is already open for writing by ${holder}; only one process can write it`);
  }
}

/** Another process has opened the log for writing while this one had it open: its lock was lost. */
export class LogTakenOver extends Error {
  readonly code = 'log_taken_over';
  constructor(dir: string, holder: string, last: string) {
    super(
      `the event log in ${dir} was taken over by ${holder} while this process was writing it; this one acknowledged ` +
        `nothing after position ${last} and writes no more. Make sure that only one gateway uses the folder, and restart`,
    );
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
