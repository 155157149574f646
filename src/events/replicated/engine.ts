/**
 * The port of the engines on which several gateways can share one log: Kafka, EventStoreDB, the primary process of
 * several workers. An engine puts appends in one order and keeps them; `ReplicatedLog` does everything else.
 */

import { X509Certificate } from 'node:crypto';
import { setTimeout as elapsed } from 'node:timers/promises';
import { createSecureContext } from 'node:tls';
import type { EncodedAppend, PreparedWrite } from '../embedded/append-batch.ts';
import { recordType } from '../embedded/event-record.ts';
import { type AppendStage, EventTooLarge, type StreamWrite } from '../log.ts';

/** The part of an append that only workers use: when their primary process answers it. An engine returns it unchanged. */
export interface AppendRequest {
  /** Undefined: durable. */
  readonly until?: Exclude<AppendStage, 'durable'>;
  /** The events came with ids. */
  readonly withIds?: boolean;
}

/** One append as it lies on an engine. */
export interface SequencedAppend extends AppendRequest {
  /** Which log it belongs to: 16 hexadecimal digits; `NEW_LOG` before the first append of a log was read. */
  readonly log: string;
  /** Which opened log sent it: 16 hexadecimal digits. */
  readonly writer: string;
  /** Place among the appends of the writer, which sends them in the order of their numbers. A repetition has the same number. */
  readonly number: number;
  /** What the writer had read of the log when it sent the append. */
  readonly seen: SeenEvent;
  /** Without any, the append records nothing. It is sent to learn when it is read back. */
  readonly writes: readonly PreparedWrite[];
  /** The events of all writes as records (`embedded/event-record.ts`). Their revisions are filled in by each reader. */
  readonly records: Buffer;
}

/** The last event that a writer had read: its position, and the CRC-32 of its id; both 0 in an empty log. */
export interface SeenEvent {
  readonly position: number;
  readonly check: number;
}

export const NEW_LOG = '0000000000000000';

/**
 * A place between two records of an engine, as text: where reading goes on. Its form is the engine's own; other code
 * stores it and passes it back.
 */
export type EnginePlace = string;

export interface ReadBatch {
  /** In the order of the engine. */
  readonly appends: readonly SequencedAppend[];
  /**
   * Reading after this place yields every append that was not complete in this batch or an earlier one, once; appends
   * that are already complete may come again.
   */
  readonly resume: EnginePlace;
}

export interface PlaceState {
  /** Whether the log is known to end at the place. False when it may go on. */
  readonly isEnd: boolean;
}

export interface LogEngine {
  /** For messages and metrics: `kafka`, `eventstore`. */
  readonly name: string;
  /** Bytes of the largest append that `append` accepts, records and stream names together. */
  readonly maxAppendBytes: number;
  /**
   * Makes the engine ready: connects, creates what the log needs or checks the settings of what exists. Called once,
   * before all others.
   * @param hasEvents whether the caller has events of this log: then nothing is created
   * @throws EngineUnavailable when it cannot be reached now; EngineUnsuitable when trying again is useless; PlaceLost when
   * the log does not exist
   */
  open(hasEvents?: boolean): Promise<void>;
  /**
   * Hands over appends in this order. Resolves when the engine has acknowledged all of them as durably as it can. Not
   * called again before it has settled.
   * @throws EngineUnavailable; after outcome `unknown`, any of the appends may be on the engine, now or later, and the
   *   caller may call it again with the same appends
   */
  append(appends: readonly SequencedAppend[]): Promise<void>;
  /**
   * Everything after the place, or everything, then what follows, until the signal is aborted. Reads no further ahead of
   * its caller than a fixed number of bytes.
   * @throws EngineUnavailable when reading may go on later from the latest place; PlaceLost; EngineDamaged
   */
  read(after: EnginePlace | undefined, signal: AbortSignal): AsyncIterable<ReadBatch>;
  /**
   * Finds out whether the engine still has what was read before the place, without reading on. Appends nothing.
   * @throws PlaceLost; EngineUnavailable when that cannot be found out now
   */
  verify(place: EnginePlace | undefined): Promise<PlaceState>;
  /** Ends the connections. Reads and appends that are running fail. */
  close(): Promise<void>;
}

/** The engine cannot be used at the moment. */
export class EngineUnavailable extends Error {
  /** Of an append: whether it may be on the engine, now or later. */
  readonly outcome: 'none' | 'unknown';
  constructor(reason: string, outcome: 'none' | 'unknown', cause?: unknown) {
    super(reason, { cause });
    this.outcome = outcome;
  }
}

/** The engine cannot hold this log as it is set up; the message names the setting. */
export class EngineUnsuitable extends Error {}

/** The engine no longer has what follows the place, or ends before it. */
export class PlaceLost extends Error {}

/** What the engine returned is not what was appended. */
export class EngineDamaged extends Error {}

/** How an engine is reached: its address, and the settings that replace or complete those in the address. */
export interface LogEngineAccess {
  readonly url: string;
  /** Both are given, or neither; they go before those in the address. */
  readonly user?: string | undefined;
  readonly password?: string | undefined;
  /** Of Kafka; `plain` when undefined. */
  readonly saslMechanism?: 'plain' | 'scram-sha-256' | 'scram-sha-512' | undefined;
  /** Undefined: as the address says. */
  readonly tls?: boolean | undefined;
  /** Text of PEM files: the authority that signed the engine's certificate; certificate and key of the client. */
  readonly ca?: string | undefined;
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
}

/** @throws EngineUnsuitable. Node ignores an authority that is not a certificate. */
export function checkTlsTexts({ ca, cert, key }: LogEngineAccess): void {
  check('LOG_TLS_CA', 'has no certificate', () => ca === undefined || new X509Certificate(ca));
  check('LOG_TLS_CERT', 'has no certificate', () => cert === undefined || new X509Certificate(cert));
  if (cert === undefined || key === undefined) return;
  check('LOG_TLS_KEY', 'is not the key of LOG_TLS_CERT', () => createSecureContext({ cert, key }));
}

function check(setting: string, problem: string, parse: () => unknown): void {
  try {
    parse();
  } catch {
    // The error could contain the text.
    throw new EngineUnsuitable(`the file of ${setting} ${problem}`);
  }
}

// Parts that the addresses of all engines have. Messages name no value: it could be a part of a password.

/** @throws EngineUnsuitable */
export function enginePort(text: string): number {
  const port = Number(text);
  if (!/^\d{1,5}$/.test(text) || port < 1 || port > 65_535) {
    throw new EngineUnsuitable('a port in the address is not from 1 to 65535');
  }
  return port;
}

/**
 * Each setting of the query once, with its name in the normal form.
 * @throws EngineUnsuitable
 */
export function settingsInQuery(query: string, normal = (name: string) => name): ReadonlyMap<string, string> {
  const settings = new Map<string, string>();
  for (const [typed, value] of new URLSearchParams(query)) {
    const name = normal(typed);
    if (settings.has(name)) throw new EngineUnsuitable('the address has a setting twice');
    settings.set(name, value);
  }
  return settings;
}

/** How large an append may be, which the layout of a frame and the engine limit. */
const maxWrites = 65_535;
const maxNameBytes = 65_535;

/** @throws RangeError */
export function checkWrites(writes: readonly Pick<StreamWrite, 'stream'>[]): void {
  if (writes.length > maxWrites) throw new RangeError(`an append has at most ${maxWrites} writes`);
  for (const { stream } of writes) {
    if (Buffer.byteLength(stream) > maxNameBytes)
      throw new RangeError(`a stream name has at most ${maxNameBytes} bytes`);
  }
}

/** @throws EventTooLarge when the engine does not take an append of this size */
export function checkSize({ records }: EncodedAppend, { maxAppendBytes }: LogEngine): void {
  if (records.length > maxAppendBytes) {
    throw new EventTooLarge(recordType(records, 0), records.length, maxAppendBytes);
  }
}

/** The replica has events that its engine has not. */
export class LogDiverged extends Error {
  readonly code = 'log_diverged';
  /** @param runBook a section of docs/scale.md */
  constructor(dir: string, reason: string, cause?: unknown, runBook = 'A replica that differs') {
    super(
      `the replica in ${dir} does not match the log on its engine: ${reason}. Keep the folder: it may have the only copy ` +
        `of what the engine lost. What to do is in docs/scale.md, run-book "${runBook}"`,
      { cause },
    );
  }
}

/** Resolves after the time, or as soon as the signal is aborted. */
export async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  await elapsed(ms, undefined, signal === undefined ? {} : { signal }).catch((error: unknown) => {
    if (!signal?.aborted) throw error;
  });
}

/** @throws the signal's reason, when it is aborted first */
export async function untilAborted<Value>(work: Promise<Value>, signal: AbortSignal | undefined): Promise<Value> {
  if (signal === undefined) return work;
  work.catch(() => {});
  const aborted = Promise.withResolvers<never>();
  const abort = () => aborted.reject(signal.reason);
  if (signal.aborted) abort();
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([work, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}
