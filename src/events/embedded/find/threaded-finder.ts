/** Finds streams on a thread of its own, so that no request waits for SQLite or for a segment that must be read. */
import { Worker } from 'node:worker_threads';
import type { StreamName } from '../../event.ts';
import { errorOf, type FinderAnswer, type FinderRequest, type FinderSettings } from '../archive/thread-messages.ts';
import type { FoundParts, SearchedPlaces, StreamFinder } from './stream-finder.ts';

/** Its garbage is short-lived. */
const youngGenerationMb = 4;

type WithoutId<Request> = Request extends { readonly id: number } ? Omit<Request, 'id'> : never;

interface WaitingSearch {
  readonly resolve: (answer: FinderAnswer) => void;
  readonly reject: (error: unknown) => void;
}

/** The thread starts when it is first needed, and again when it has ended. */
export class ThreadedFinder implements StreamFinder {
  readonly #settings: FinderSettings;
  readonly #waiting = new Map<number, WaitingSearch>();
  #worker: Worker | undefined;
  #requests = 0;

  constructor(dir: string, mark: number) {
    this.#settings = { dir, mark };
  }

  async lastRevisions(
    streams: readonly StreamName[],
    places: SearchedPlaces,
  ): Promise<ReadonlyMap<StreamName, number>> {
    const answer = await this.#ask({ kind: 'last', streams, places });
    return answer.kind === 'last' ? answer.found : new Map();
  }

  async parts(stream: StreamName, places: SearchedPlaces): Promise<FoundParts> {
    const answer = await this.#ask({ kind: 'parts', stream, places });
    return answer.kind === 'parts' ? answer.found : { indexed: [], read: [] };
  }

  async indexChanged(): Promise<void> {}

  async releaseIndex(): Promise<void> {
    if (this.#worker !== undefined) await this.#ask({ kind: 'release' });
  }

  async #ask(request: WithoutId<FinderRequest>): Promise<FinderAnswer> {
    const id = ++this.#requests;
    this.#worker ??= this.#start();
    const worker = this.#worker;
    // a process does not end while a lookup is open
    worker.ref();
    try {
      const answer = await new Promise<FinderAnswer>((resolve, reject) => {
        this.#waiting.set(id, { resolve, reject });
        worker.postMessage({ ...request, id });
      });
      if (answer.kind === 'failed') throw errorOf(answer.failure);
      return answer;
    } finally {
      this.#waiting.delete(id);
      if (this.#waiting.size === 0) worker.unref();
    }
  }

  #start(): Worker {
    const worker = new Worker(new URL('./finder-thread.ts', import.meta.url), {
      name: 'stream-finder',
      workerData: this.#settings,
      resourceLimits: { maxYoungGenerationSizeMb: youngGenerationMb },
    });
    worker.unref();
    worker.on('message', (answer: FinderAnswer) => this.#waiting.get(answer.id)?.resolve(answer));
    worker.on('error', (error) => this.#ended(worker, error));
    worker.on('exit', (code) =>
      this.#ended(worker, new Error(`the thread that finds streams ended with code ${code}`)),
    );
    return worker;
  }

  #ended(worker: Worker, error: Error): void {
    if (this.#worker !== worker) return;
    this.#worker = undefined;
    for (const { reject } of this.#waiting.values()) reject(error);
  }

  async close(): Promise<void> {
    await this.#worker?.terminate();
  }
}
