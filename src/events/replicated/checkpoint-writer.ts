/** Writes the checkpoint of a replica from time to time while the replica reads. */
import type { Disk } from '../embedded/disk.ts';
import { type Checkpoint, writeCheckpoint } from './checkpoint-file.ts';

export interface CheckpointWriterParts {
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
