/** Where a log is that is copied, or a copy of it. */
import type { LogEngine } from '../replicated/engine.ts';

export type CopyPlace = LogInFolder | LogOnEngine;

export interface LogInFolder {
  /** Absolute. */
  readonly folder: string;
}

export interface LogOnEngine {
  /** Each call makes an engine of its own, which is not open. */
  readonly engine: () => LogEngine | Promise<LogEngine>;
  /** Absolute: the folder of a replica of the log, which is used and kept. Undefined: a temporary one. */
  readonly replica: string | undefined;
}

export interface CopyOptions {
  /** An engine cannot be used at the moment; the copy goes on when it can. */
  readonly onDelay?: ((reason: string) => void) | undefined;
  readonly onProgress?: ((progress: LogCopyProgress) => void) | undefined;
  readonly signal: AbortSignal;
}

export interface LogCopyProgress {
  readonly step: 'reading the source' | 'reading the destination' | 'comparing' | 'copying' | 'verifying';
  /** Position of the last event so far. */
  readonly position: number;
}
