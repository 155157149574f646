/**
 * Copies a log into another place, in files or on an engine: the same events with the same ids, times, revisions and
 * positions. Repeated, it copies what is new. At the end the copy is read back and compared by a digest.
 */
import path from 'node:path';
import { recordGroups } from './append-groups.ts';
import type { CopyOptions, CopyPlace, LogCopyProgress } from './copy-place.ts';
import { CopyRefused } from './copy-refused.ts';
import { type CopySource, openCopySource } from './copy-source.ts';
import type { CopyTarget } from './copy-target.ts';
import { openEngineTarget } from './engine-target.ts';
import { openFolderTarget } from './folder-target.ts';
import { firstDifference, RecordDigest, type RecordRun, storedRecords } from './stored-records.ts';

export interface LogCopy {
  /** Position of the last event; the same on both sides. */
  readonly last: number;
  /** How many of the events were in the destination before. */
  readonly before: number;
  /** SHA-256 over all records of either side. */
  readonly sha256: string;
}

/** @throws CopyRefused, LogIncomplete, LogCorrupted, LogLocked, errors of the disk and the engines, the signal's reason */
export async function copyLog(from: CopyPlace, to: CopyPlace, options: CopyOptions): Promise<LogCopy> {
  checkFolders(from, to);
  const source = await openCopySource(from, options);
  try {
    const target =
      'folder' in to ? await openFolderTarget(to.folder, options.signal) : await openEngineTarget(to, options);
    try {
      return await new Copying(source, target, options).run();
    } finally {
      await target.close();
    }
  } finally {
    await source.close();
  }
}

function checkFolders(from: CopyPlace, to: CopyPlace): void {
  const [one, other] = [from, to].map((place) => ('folder' in place ? place.folder : place.replica));
  if (one === undefined || other === undefined) return;
  const inside = (inner: string, outer: string) => inner === outer || inner.startsWith(outer + path.sep);
  if (inside(one, other) || inside(other, one)) throw new CopyRefused(`${other} is not apart from ${one}`);
}

class Copying {
  readonly #source: CopySource;
  readonly #target: CopyTarget;
  readonly #options: CopyOptions;
  readonly #here = new RecordDigest();
  readonly #there = new RecordDigest();

  constructor(source: CopySource, target: CopyTarget, options: CopyOptions) {
    this.#source = source;
    this.#target = target;
    this.#options = options;
  }

  async run(): Promise<LogCopy> {
    const { last } = this.#source;
    const before = this.#target.last;
    await this.#compareBeginning(Math.min(before, last));
    if (before > last) throw differs(last + 1, `the source ends at ${last}`);
    for await (const group of recordGroups(this.#sourceRecords(before))) await this.#target.append(group);
    const end = await this.#target.finish();
    if (end !== last)
      throw new CopyRefused(`something else appends to the destination: it ends at ${end}, not ${last}`);
    for await (const run of this.#read(this.#target, before, last, 'verifying')) this.#there.add(run);
    if (this.#here.hex !== this.#there.hex) throw await this.#difference(last);
    await this.#target.complete();
    return { last, before, sha256: this.#there.hex };
  }

  async #compareBeginning(until: number): Promise<void> {
    for await (const run of this.#read(this.#target, 0, until, 'comparing')) this.#there.add(run);
    for await (const run of this.#read(this.#source, 0, until, 'comparing')) this.#here.add(run);
    if (this.#here.hex !== this.#there.hex) throw await this.#difference(until);
  }

  async #difference(until: number): Promise<CopyRefused> {
    const position = await firstDifference(this.#source.records, this.#target.records, until, this.#options.signal);
    return differs(position ?? until, 'it has another log, or was continued by itself');
  }

  async *#sourceRecords(after: number): AsyncGenerator<RecordRun> {
    for await (const run of this.#read(this.#source, after, this.#source.last, 'copying')) {
      this.#here.add(run);
      yield run;
    }
  }

  async *#read(
    { records }: CopySource | CopyTarget,
    after: number,
    until: number,
    step: LogCopyProgress['step'],
  ): AsyncGenerator<RecordRun> {
    for await (const run of storedRecords(records, after, until, this.#options.signal)) {
      yield run;
      this.#options.onProgress?.({ step, position: run.last });
    }
  }
}

function differs(position: number, reason: string): CopyRefused {
  return new CopyRefused(`the destination differs from the source at position ${position}: ${reason}`);
}
