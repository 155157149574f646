/**
 * An engine in memory that several handles share: one order of appends, places to resume from, and faults that a test
 * chooses. Appends are kept as the bytes of their frames, so that no handle shares memory with another. Nothing waits
 * for a clock: an answer takes a number of turns of the event loop.
 */
import { crc32 } from 'node:zlib';
import { frameAppend, unframeAppend } from '../../src/events/replicated/append-frame.ts';
import {
  EngineUnavailable,
  type LogEngine,
  PlaceLost,
  type PlaceState,
  type ReadBatch,
  type SequencedAppend,
} from '../../src/events/replicated/engine.ts';
import type { Random } from '../crash/random.ts';

/**
 * What happens to one call of `append`:
 * - `refused`: outcome none.
 * - `lost`: outcome unknown, nothing is recorded.
 * - `unanswered`: outcome unknown, all are recorded.
 * - `partial`: outcome unknown; only those whose index is in `landed` are recorded.
 * - `late`: outcome unknown; all are recorded once `after` further records have been.
 * - `twice`: acknowledged; each is recorded twice, in the order 0 1 2 0 1 2.
 * - `slow`: acknowledged after `turns` turns of the event loop.
 */
export type AppendFault =
  | { readonly kind: 'refused' | 'lost' | 'unanswered' | 'twice' }
  | { readonly kind: 'partial'; readonly landed: readonly number[] }
  | { readonly kind: 'late'; readonly after: number }
  | { readonly kind: 'slow'; readonly turns: number };

/** Chooses faults; each is called where the fault would happen. */
export interface FaultChoice {
  append?(appends: readonly SequencedAppend[]): AppendFault | undefined;
  /** Whether the connection of a reader is lost before its next batch. */
  losesReader?(): boolean;
  /** Turns of the event loop before a batch is yielded. */
  readTurns?(): number;
  /** Most records of a batch. */
  batchSize?(): number;
  /** How many complete appends before the end of a batch come again when reading goes on after it. */
  rereads?(): number;
}

interface LateRecord {
  readonly record: Buffer;
  left: number;
}

export class MemoryEngineStore {
  /** Framed appends in their order; `undefined` where retention has removed them. */
  readonly records: Buffer[] = [];
  readonly choice: FaultChoice;
  readonly #connections = new Set<MemoryEngine>();
  #late: LateRecord[] = [];
  #first = 0;
  #stopped = false;
  #readsHeld = false;
  #appendsHeld = false;
  #changed = Promise.withResolvers<void>();

  constructor(choice: FaultChoice = {}) {
    this.choice = choice;
  }

  /** Another handle's connection. */
  connect(): MemoryEngine {
    const engine = new MemoryEngine(this);
    this.#connections.add(engine);
    return engine;
  }

  get stopped(): boolean {
    return this.#stopped;
  }

  get readsHeld(): boolean {
    return this.#readsHeld;
  }

  get appendsHeld(): boolean {
    return this.#appendsHeld;
  }

  /** Index of the oldest record that retention has kept. */
  get first(): number {
    return this.#first;
  }

  /** Resolves at the next record, lost connection, stop, start or release. */
  get changed(): Promise<void> {
    return this.#changed.promise;
  }

  /** The appends as they are, those without writes included. */
  get appends(): SequencedAppend[] {
    return this.records.map(unframeAppend);
  }

  /** Everything fails until `start`: appends with outcome none, those that are held with outcome unknown. */
  stop(): void {
    this.#stopped = true;
    this.dropReaders();
  }

  start(): void {
    this.#stopped = false;
    this.#notify();
  }

  /** Every reader loses its connection once. */
  dropReaders(): void {
    for (const connection of this.#connections) connection.dropReader();
    this.#notify();
  }

  /** Records are kept from readers until `releaseReads`. */
  holdReads(): void {
    this.#readsHeld = true;
  }

  releaseReads(): void {
    this.#readsHeld = false;
    this.#notify();
  }

  /** Appends are neither recorded nor answered until `releaseAppends`. */
  holdAppends(): void {
    this.#appendsHeld = true;
  }

  releaseAppends(): void {
    this.#appendsHeld = false;
    this.#notify();
  }

  record(append: Buffer): void {
    this.records.push(append);
    const due = this.#late.filter((late) => --late.left <= 0);
    this.#late = this.#late.filter(({ left }) => left > 0);
    for (const { record } of due) this.records.push(record);
    this.#notify();
  }

  recordLate(record: Buffer, after: number): void {
    this.#late.push({ record, left: after });
  }

  /** Records everything that was going to land late. */
  landLate(): void {
    const late = this.#late;
    this.#late = [];
    for (const { record } of late) this.record(record);
  }

  /** Removes the end, as an unclean election of a leader does. Readers that are beyond it have lost their place. */
  truncate(length: number): void {
    this.records.length = length;
    this.#notify();
  }

  /** Removes the beginning, as retention does. */
  forgetBefore(index: number): void {
    this.#first = index;
  }

  /** Changes one byte of the events of a record. */
  damage(index: number): void {
    const bytes = Buffer.from(this.records[index] ?? []);
    const at = bytes.length - 1;
    bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at);
    this.records[index] = bytes;
  }

  /** The place before the record with this index. It has a check of the record before it. */
  placeOf(index: number): string {
    return `${index} ${crc32(this.records[index - 1] ?? '')}`;
  }

  /** @throws PlaceLost when the record before the place is another one now */
  indexAt(place: string | undefined): number {
    if (place === undefined) return 0;
    const index = Number.parseInt(place, 10);
    if (index <= this.records.length && this.placeOf(index) !== place) {
      throw new PlaceLost(`the engine has another record before ${index}`);
    }
    return index;
  }

  disconnected(engine: MemoryEngine): void {
    this.#connections.delete(engine);
    this.#notify();
  }

  #notify(): void {
    const { resolve } = this.#changed;
    this.#changed = Promise.withResolvers();
    resolve();
  }
}

export class MemoryEngine implements LogEngine {
  readonly name = 'memory';
  readonly maxAppendBytes = 80 * 1024 * 1024;
  /** Faults of the next calls of `append` that have events, before those that the store chooses. */
  readonly nextAppends: AppendFault[] = [];
  readonly #store: MemoryEngineStore;
  #drops = 0;
  #closed = false;
  #appending = false;

  constructor(store: MemoryEngineStore) {
    this.#store = store;
  }

  async open(): Promise<void> {
    await turns(1);
    this.#checkConnection();
  }

  async append(appends: readonly SequencedAppend[]): Promise<void> {
    if (this.#appending) throw new Error('append was called before the call before it had settled');
    this.#appending = true;
    try {
      const framed = appends.map(frameAppend);
      await turns(1);
      await this.#held();
      this.#checkConnection();
      await this.#record(framed, this.#faultOf(appends));
    } finally {
      this.#appending = false;
    }
  }

  async *read(after: string | undefined, signal: AbortSignal): AsyncIterable<ReadBatch> {
    const aborted = new Promise<void>((resolve) => {
      if (signal.aborted) resolve();
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
    const store = this.#store;
    const { choice } = store;
    let next = store.indexAt(after);
    const drops = this.#drops;
    while (!signal.aborted) {
      this.#checkConnection();
      if (drops !== this.#drops || choice.losesReader?.()) throw unavailable('the connection was lost', 'none');
      if (next < store.first) throw new PlaceLost(`the engine begins at ${store.first}, after ${next}`);
      if (next > store.records.length)
        throw new PlaceLost(`the engine ends at ${store.records.length}, before ${next}`);
      if (next === store.records.length || store.readsHeld) {
        await Promise.race([store.changed, aborted]);
        continue;
      }
      await turns(choice.readTurns?.() ?? 0);
      const end = Math.min(store.records.length, next + (choice.batchSize?.() ?? 1_000));
      const appends = store.records.slice(next, end).map((record) => unframeAppend(Buffer.from(record)));
      next = Math.max(next, end);
      yield { appends, resume: store.placeOf(Math.max(store.first, next - (choice.rereads?.() ?? 0))) };
    }
  }

  async verify(place: string | undefined): Promise<PlaceState> {
    await turns(1);
    this.#checkConnection();
    const store = this.#store;
    const index = store.indexAt(place);
    if (index < store.first) throw new PlaceLost(`the engine begins at ${store.first}, after ${index}`);
    if (index > store.records.length) {
      throw new PlaceLost(`the engine ends at ${store.records.length}, before ${index}`);
    }
    return { isEnd: index === store.records.length };
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#drops++;
    this.#store.disconnected(this);
  }

  dropReader(): void {
    this.#drops++;
  }

  #faultOf(appends: readonly SequencedAppend[]): AppendFault | undefined {
    const scripted = appends.some(({ writes }) => writes.length > 0) ? this.nextAppends.shift() : undefined;
    return scripted ?? this.#store.choice.append?.(appends);
  }

  async #held(): Promise<void> {
    const store = this.#store;
    while (store.appendsHeld) {
      await store.changed;
      if (store.stopped || this.#closed) throw unavailable('the connection was lost', 'unknown');
    }
  }

  async #record(framed: readonly Buffer[], fault: AppendFault | undefined): Promise<void> {
    const store = this.#store;
    if (fault?.kind === 'refused') throw unavailable('refused', 'none');
    if (fault?.kind === 'lost') throw unavailable('no answer', 'unknown');
    if (fault?.kind === 'late') {
      for (const record of framed) store.recordLate(record, fault.after);
      throw unavailable('no answer', 'unknown');
    }
    if (fault?.kind === 'slow') await turns(fault.turns);
    for (const [index, record] of framed.entries()) {
      if (fault?.kind !== 'partial' || fault.landed.includes(index)) store.record(record);
    }
    if (fault?.kind === 'twice') for (const record of framed) store.record(record);
    await turns(1);
    if (fault?.kind === 'unanswered' || fault?.kind === 'partial') throw unavailable('no answer', 'unknown');
    if (store.stopped || this.#closed) throw unavailable('the connection was lost', 'unknown');
  }

  #checkConnection(): void {
    if (this.#closed) throw unavailable('the connection is closed', 'none');
    if (this.#store.stopped) throw unavailable('the engine is stopped', 'none');
  }
}

export async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve));
}

function unavailable(reason: string, outcome: 'none' | 'unknown'): EngineUnavailable {
  return new EngineUnavailable(reason, outcome);
}

/** How often each fault happens, of 1. */
export interface FaultRates {
  readonly appends?: number;
  readonly readers?: number;
}

/** Faults of every kind, the same for the same random choices. */
export function randomFaults(chance: Random, { appends = 0.2, readers = 0.05 }: FaultRates = {}): FaultChoice {
  const fault = (count: number): AppendFault => {
    const kind = chance.oneOf(['refused', 'lost', 'unanswered', 'twice', 'late', 'slow', 'partial']);
    if (kind === 'late') return { kind, after: chance.between(1, 12) };
    if (kind === 'slow') return { kind, turns: chance.between(1, 8) };
    if (kind !== 'partial') return { kind };
    return { kind, landed: Array.from({ length: count }, (_, index) => index).filter(() => chance.happens(0.5)) };
  };
  return {
    append: (sent) => (chance.happens(appends) ? fault(sent.length) : undefined),
    losesReader: () => chance.happens(readers),
    readTurns: () => chance.between(0, 2),
    batchSize: () => chance.between(1, 6),
    rereads: () => chance.between(0, 3),
  };
}
