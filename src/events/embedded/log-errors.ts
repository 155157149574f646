/** Errors about a log's files, beyond the port's own errors. */

const wayOut =
  'Put the files back from a backup, or record the loss with "chancery log accept-loss --reason TEXT" and continue without';

const wayOfNames =
  'Rename them, or move foreign ones out of the folder; "chancery log accept-loss --reason TEXT" does it and loses no position';

/** The bytes on disk are not those that were written. Nothing is repaired or skipped silently. */
export class LogCorrupted extends Error {
  readonly code = 'log_corrupted';
  readonly segment: string;
  /** Byte offset in the segment, uncompressed. */
  readonly offset: number;
  readonly reason: string;
  /** @param advice what to do; by default how to accept the smallest loss */
  constructor(segment: string, offset: number, reason: string, cause?: unknown, advice = `${wayOut} what is damaged`) {
    super(`the event log is damaged: segment ${segment} at byte ${offset}: ${reason}. ${advice}`, { cause });
    this.segment = segment;
    this.offset = offset;
    this.reason = reason;
  }
}

/** A missing range of acknowledged positions, or a missing file without events. */
export interface MissingPart {
  /** Both included; absent for a file that holds no events. */
  readonly positions?: { readonly first: number; readonly last: number };
  /** The files that are missing, or that end too early. */
  readonly files: readonly string[];
  /** The problem, when it is not a missing file. */
  readonly reason?: string;
  /** Files of which nothing is missing but their right names. */
  readonly renames?: readonly { readonly from: string; readonly to: string }[];
}

/** Parts of the log are missing. Nothing was changed, so that they can be put back. */
export class LogIncomplete extends Error {
  readonly code = 'log_incomplete';
  readonly missing: readonly MissingPart[];
  constructor(dir: string, missing: readonly MissingPart[]) {
    const parts = missing.map(describeMissing).join('; ');
    const isWhole = missing.every(({ renames }) => renames !== undefined);
    super(`the event log in ${dir} is incomplete: ${parts}. ${isWhole ? wayOfNames : `${wayOut} them`}`);
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
      `the event log in ${dir} was taken over by ${holder} while this process was writing it; this process acknowledged ` +
        `nothing after position ${last} and has stopped writing. Make sure that only one gateway uses the folder, and restart`,
    );
  }
}

/** The files that this process writes are no longer in the folder: they were removed, moved or replaced. */
export class LogMoved extends Error {
  readonly code = 'log_moved';
  constructor(dir: string, last: string) {
    super(
      `the event log is no longer in ${dir}: its files were removed, moved or replaced while this process was writing ` +
        `them; this process has acknowledged nothing durable after position ${last} and has stopped writing. Put the folder ` +
        'back, and restart',
    );
  }
}

/** The folder is a copy of a log on an engine: an event of its own would make it differ. */
export class LogIsReplica extends Error {
  readonly code = 'log_is_replica';
  constructor(dir: string) {
    super(
      `the event log in ${dir} is a replica of a log on another engine: an event of its own would make it differ. Set ` +
        'LOG_URL to that engine',
    );
  }
}

/** The folder has the beginning of a log that is being copied into it. */
export class LogIsUnfinishedCopy extends Error {
  readonly code = 'log_is_unfinished_copy';
  constructor(dir: string) {
    super(
      `the event log in ${dir} is an unfinished copy: run the "chancery log copy" that began it again, or remove the folder`,
    );
  }
}

/** The derived index contradicts the segments. It is then made again; the error does not leave the engine. */
export class IndexIsWrong extends Error {
  /** Position of the first event of the segment in question. */
  readonly segment: number;
  constructor(segment: number, what: string) {
    super(`the stream index is wrong about segment ${segment}: ${what}`);
    this.segment = segment;
  }
}
