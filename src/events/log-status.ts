/**
 * The state of a log, for health checks and metrics. Every engine fills all required members; a figure about something
 * that an engine does not have, such as segments in memory, is 0.
 */
import type { Position } from './event.ts';

export interface LogStatus {
  /** `unavailable`: appends are refused. It ends by itself when the cause does. */
  readonly state: 'ok' | 'unavailable';
  /** Why appends are refused. */
  readonly reason?: string;
  /** Position of the last event handed to the operating system. */
  readonly head: Position;
  /** Position of the last event as durable as the engine makes it. */
  readonly durableHead: Position;
  /** Bytes written and not yet known to be on disk. */
  readonly unsyncedBytes: number;
  /** Bytes of appends that wait for the disk to keep up. */
  readonly queuedBytes: number;
  readonly segments: number;
  /**
   * A failure while events are accepted: full segments are not replaced, indexed or compressed; or another gateway on the
   * same engine has read another log; or segments are damaged.
   */
  readonly degraded?: string;
  /** Places in segments that cannot be read, as far as known; absent when there is none. */
  readonly damage?: readonly string[];
  /** Number of these failures since the log was opened. */
  readonly failedRotations?: number;
  /**
   * Segments that the stream index lacks, and whose streams are not in memory: what is in them is found by reading
   * them, so that appends to older streams and reading one stream take longer. It falls to 0 by itself.
   */
  readonly unindexedSegments: number;
  readonly subscriptions: number;
  /** Only of a log on an engine that several gateways share. */
  readonly engine?: LogEngineStatus;
}

export interface LogEngineStatus {
  /** `kafka`, `eventstore`. */
  readonly name: string;
  /** Whether appends reach the engine and are read back. */
  readonly connected: boolean;
  /** How far reading is behind: appends of this process that the engine has acknowledged and that were not read back yet. */
  readonly unreadAppends: number;
  /** When something was last read from the engine, in milliseconds since the epoch; absent before the first time. */
  readonly lastReadAt?: number;
}
