/**
 * A replica's note of how far it has read its engine. Reading goes on there after a restart. The note may be behind the
 * replica's events, never ahead of them; without it reading begins at the engine's beginning, with the same result. Its
 * checksum finds a note that was changed; it is then ignored.
 */
import { createHash } from 'node:crypto';
import path from 'node:path';
import { z } from 'zod';
import { type Disk, isMissing, replaceFile } from '../embedded/disk.ts';
import { replicaFile } from '../embedded/writer-lock.ts';
import type { EnginePlace } from './engine.ts';

/** Writes the checkpoint of a replica from time to time while the replica reads. */
interface CheckpointWriterParts {
  readonly disk: Disk;
  readonly dir: string;
  readonly everyMs: number;
  readonly current: () => Checkpoint;
  /** Position of the last event that is on disk. */
  readonly durable: () => number;
  readonly warn: ((message: string, error: unknown) => void) | undefined;
}

export class CheckpointWriter {
  readonly #parts: CheckpointWriterParts;
  #timer: NodeJS.Timeout | undefined;

  constructor(parts: CheckpointWriterParts) {
    this.#parts = parts;
  }

  writeSoon(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      void this.writeWhenDurable();
    }, this.#parts.everyMs).unref();
  }

  /** Writes it now if the events before it are on disk, else later. */
  async writeWhenDurable(): Promise<void> {
    if (this.#parts.durable() < this.#parts.current().position) this.writeSoon();
    else await this.write();
  }

  /** To be called when the events before it are on disk. */
  async write(): Promise<void> {
    const { disk, dir, current, warn } = this.#parts;
    // without it, or with an older one, the next start reads more
    await writeCheckpoint(disk, dir, current()).catch((error: unknown) => {
      warn?.('the checkpoint of the replica was not written', error);
    });
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}

// Which number of each writer was processed last. A writer sends its appends in the order of their numbers, and again
// when it does not know the outcome; only the first arrival counts. The answer depends on the engine's content alone, so
// every replica gives the same one.

/** A writer is forgotten when this many appends of others lie behind its last one. */
const memory = 2 ** 20;

interface LastAppend {
  readonly number: number;
  /** How many appends had been counted when it was. */
  readonly at: number;
}

export interface SavedNumbers {
  /** How many appends have been counted. */
  readonly counted: number;
  readonly writers: readonly (readonly [writer: string, number: number, at: number])[];
}

export class WriterNumbers {
  readonly #last = new Map<string, LastAppend>();
  #counted: number;

  constructor(saved: SavedNumbers = { counted: 0, writers: [] }) {
    this.#counted = saved.counted;
    for (const [writer, number, at] of saved.writers) this.#last.set(writer, { number, at });
  }

  /**
   * Notes the append, unless it or a later one of its writer was processed before.
   * @returns a function that undoes it, to be called in the reverse order; undefined for a repetition
   */
  count(writer: string, number: number): (() => void) | undefined {
    const last = this.#last.get(writer);
    if (last !== undefined && this.#counted - last.at <= memory && number <= last.number) return undefined;
    this.#last.set(writer, { number, at: this.#counted++ });
    return () => {
      this.#counted--;
      if (last === undefined) this.#last.delete(writer);
      else this.#last.set(writer, last);
    };
  }

  save(): SavedNumbers {
    for (const [writer, { at }] of this.#last) if (this.#counted - at > memory) this.#last.delete(writer);
    return {
      counted: this.#counted,
      writers: [...this.#last].map(([writer, { number, at }]) => [writer, number, at] as const),
    };
  }
}

export interface Checkpoint {
  /** The name of the engine. */
  readonly engine: string;
  /** Which log it is; undefined before its first append was read. */
  readonly log: string | undefined;
  /** Undefined at the engine's beginning. */
  readonly place: EnginePlace | undefined;
  /** Position of the last event before that place. */
  readonly position: number;
  readonly numbers: SavedNumbers;
  /** The replica stopped because it may not have what is on the engine; see `HistoryConflict`. */
  readonly undecided?: boolean;
}

const fileSchema = z.object({
  format: z.literal('chancery-replica'),
  /** From 2 on with a checksum. */
  version: z.union([z.literal(1), z.literal(2)]),
  engine: z.string(),
  log: z.string().optional(),
  place: z.string().optional(),
  position: z.number().int().min(0),
  numbers: z.object({
    counted: z.number().int().min(0),
    writers: z.array(z.tuple([z.string(), z.number(), z.number()])),
  }),
  inDoubt: z.boolean().optional(),
  /** Of everything before it; missing in notes of earlier versions. */
  sha256: z.string().optional(),
});

/** @returns undefined when there is none, or none that can be relied on: a power cut may have left it empty */
export function readCheckpoint(disk: Disk, dir: string): Checkpoint | undefined {
  let text: string;
  try {
    text = disk.readFile(path.join(dir, replicaFile)).toString();
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
  try {
    const { version, sha256, inDoubt: undecided, ...rest } = fileSchema.parse(JSON.parse(text));
    const { engine, log, place, position, numbers } = rest;
    const checkpoint = { engine, log, place, position, numbers, ...(undecided && { undecided }) };
    return sha256 === (version === 1 ? undefined : checksumOf(checkpoint)) ? checkpoint : undefined;
  } catch {
    return undefined;
  }
}

function checksumOf({ engine, log, place, position, numbers, undecided }: Checkpoint): string {
  const content = JSON.stringify({ engine, log, place, position, numbers, inDoubt: undecided });
  return createHash('sha256').update(content).digest('hex');
}

export async function writeCheckpoint(disk: Disk, dir: string, checkpoint: Checkpoint): Promise<void> {
  const { undecided: inDoubt, ...rest } = checkpoint;
  const content = { format: 'chancery-replica', version: 2, ...rest, inDoubt, sha256: checksumOf(checkpoint) };
  await replaceFile(disk, path.join(dir, replicaFile), Buffer.from(`${JSON.stringify(content)}\n`));
}
