/**
 * Decides about the appends on an engine once more, without the code of the gateway's replicas: everything in memory,
 * one append after another. Every replica must have the same events in the same order.
 */
import { crc32 } from 'node:zlib';
import type { ExpectedRevision } from '../../src/events/log.ts';
import { type LogEngine, NEW_LOG, type SequencedAppend } from '../../src/events/replicated/engine.ts';

/** One event as `id stream revision`. */
export type EventPlace = string;

export class EngineReplay {
  readonly events: EventPlace[] = [];
  /** Appends on the engine that record nothing because of their order: repetitions and refused ones. */
  ignored = 0;
  #log: string | undefined;
  readonly #numbers = new Map<string, number>();
  readonly #ids = new Map<string, number>();
  readonly #allIds: string[] = [];
  readonly #revisions = new Map<string, bigint>();

  add(append: SequencedAppend): void {
    const { writer, number, records } = append;
    if (number <= (this.#numbers.get(writer) ?? 0)) {
      this.ignored += 1;
      return;
    }
    this.#numbers.set(writer, number);
    const ids = idsIn(records);
    if (!this.#isOfThisLog(append) || ids.some((id) => this.#ids.has(id)) || !this.#areExpected(append)) {
      this.ignored += 1;
      return;
    }
    let next = 0;
    for (const { stream, count } of append.writes) {
      for (const id of ids.slice(next, next + count)) {
        const revision = (this.#revisions.get(stream) ?? -1n) + 1n;
        this.#revisions.set(stream, revision);
        this.#ids.set(id, this.#ids.size + 1);
        this.#allIds.push(id);
        this.events.push(`${id} ${stream} ${revision}`);
      }
      next += count;
    }
  }

  #isOfThisLog({ log, writer, seen }: SequencedAppend): boolean {
    this.#log ??= log === NEW_LOG ? writer : log;
    if (log !== NEW_LOG && log !== this.#log) return false;
    const id = this.#allIds[seen.position - 1];
    return seen.position === 0 || (id !== undefined && crc32(id) === seen.check);
  }

  #areExpected({ writes }: SequencedAppend): boolean {
    return writes.every(({ stream, expectedRevision }) => isMet(expectedRevision, this.#revisions.get(stream)));
  }
}

function isMet(expected: ExpectedRevision, actual: bigint | undefined): boolean {
  if (expected === 'any') return true;
  if (expected === 'exists') return actual !== undefined;
  return expected === 'noStream' ? actual === undefined : actual === expected;
}

/** By the layout of `embedded/event-record.ts`. */
function idsIn(records: Buffer): string[] {
  const ids: string[] = [];
  for (let at = 0; at < records.length; at += records.readUInt32LE(at)) {
    ids.push(records.toString('utf8', at + 40, at + 40 + records.readUInt8(at + 20)));
  }
  return ids;
}

/** Reads an engine without writers until there are so many events. @throws when they do not come in time */
export async function replayEngine(engine: LogEngine, events: number, timeoutMs: number): Promise<EngineReplay> {
  const replay = new EngineReplay();
  const enough = new AbortController();
  const signal = AbortSignal.any([enough.signal, AbortSignal.timeout(timeoutMs)]);
  await engine.open();
  try {
    for await (const { appends } of engine.read(undefined, signal)) {
      for (const append of appends) replay.add(append);
      if (replay.events.length >= events) enough.abort();
    }
  } catch (error) {
    if (!enough.signal.aborted) throw error;
  } finally {
    await engine.close();
  }
  return replay;
}
