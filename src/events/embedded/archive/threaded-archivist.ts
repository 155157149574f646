/**
 * Archives on threads of their own, so that requests wait neither for compressing and hashing nor for SQLite. One
 * thread has the lowest priority and works while the gateway's thread is almost idle. A thread cannot raise its priority again; so
 * when too much work is waiting, a second thread does it, which has the priority of the gateway and rests between pieces
 * of work.
 */
import { access } from 'node:fs/promises';
import { Worker } from 'node:worker_threads';
import type { StreamCategories } from '../segment.ts';
import type { ArchiveTask, Archivist, Effort } from './archive-segment.ts';
import { errorOf, type ThreadAnswer, type ThreadRequest, type ThreadSettings } from './thread-messages.ts';

/** Its heap holds the streams of one segment; garbage is short-lived. */
const youngGenerationMb = 4;
/** The gateway's thread is almost idle when it was active for at most this share of such a time. */
const idleShare = 0.5;
const idleWindowMs = 1_000;
/** How long a step may take to stop before its thread is ended: that is equivalent to a crash. */
const stopMs = 5_000;

export class ThreadedArchivist implements Archivist {
  readonly #dir: string;
  readonly #mark: number;
  readonly #threads = new Map<'low' | 'normal', ArchiveThread>();

  constructor(dir: string, mark: number) {
    this.#dir = dir;
    this.#mark = mark;
  }

  async archive(task: ArchiveTask, effort: Effort, signal: AbortSignal): Promise<StreamCategories> {
    const thread = await this.#thread(effort === 'idle' ? 'low' : 'normal');
    signal.throwIfAborted();
    return thread.archive(task, effort, signal);
  }

  async #thread(priority: 'low' | 'normal'): Promise<ArchiveThread> {
    const known = this.#threads.get(priority);
    if (known?.alive) return known;
    // libuv's thread pool inherits the priority of the thread that uses it first: that must be this one
    await access(this.#dir);
    const thread = new ArchiveThread(this.#dir, this.#mark, priority === 'low');
    this.#threads.set(priority, thread);
    return thread;
  }

  async close(): Promise<void> {
    await Promise.all([...this.#threads.values()].map((thread) => thread.close()));
  }
}

interface WaitingTask {
  readonly resolve: (categories: StreamCategories) => void;
  readonly reject: (error: unknown) => void;
}

class ArchiveThread {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, WaitingTask>();
  readonly #idle = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  #requests = 0;
  #alive = true;
  #ready = false;

  constructor(dir: string, mark: number, lowPriority: boolean) {
    const settings: ThreadSettings = { dir, mark, lowPriority, idle: this.#idle };
    this.#worker = new Worker(new URL('./archive-thread.ts', import.meta.url), {
      name: lowPriority ? 'archive' : 'archive-busy',
      workerData: settings,
      resourceLimits: { maxYoungGenerationSizeMb: youngGenerationMb },
    });
    this.#worker.unref();
    this.#worker.on('message', (answer: ThreadAnswer) => this.#answered(answer));
    this.#worker.on('error', (error) => this.#ended(error));
    this.#worker.on('exit', (code) => this.#ended(new Error(`the thread that archives ended with code ${code}`)));
  }

  get alive(): boolean {
    return this.#alive;
  }

  async archive(task: ArchiveTask, effort: Effort, signal: AbortSignal): Promise<StreamCategories> {
    const id = ++this.#requests;
    let patience: NodeJS.Timeout | undefined;
    const stop = () => {
      // a thread that is still loading has no step that must be ended in an orderly way
      if (!this.#ready) void this.close();
      else this.#send({ kind: 'stop', id });
      patience = setTimeout(() => void this.close(), stopMs);
    };
    signal.addEventListener('abort', stop);
    const looking = effort === 'idle' ? this.#noteIdleTime() : undefined;
    // a process does not end in the middle of an awaited step
    this.#worker.ref();
    try {
      return await new Promise<StreamCategories>((resolve, reject) => {
        this.#waiting.set(id, { resolve, reject });
        this.#send({ kind: 'archive', id, task, effort });
      });
    } catch (error) {
      signal.throwIfAborted();
      throw error;
    } finally {
      this.#waiting.delete(id);
      if (this.#waiting.size === 0) this.#worker.unref();
      signal.removeEventListener('abort', stop);
      clearTimeout(patience);
      clearInterval(looking);
    }
  }

  #noteIdleTime(): NodeJS.Timeout {
    Atomics.store(this.#idle, 0, 0);
    let before = performance.eventLoopUtilization();
    return setInterval(() => {
      const now = performance.eventLoopUtilization();
      Atomics.store(this.#idle, 0, performance.eventLoopUtilization(now, before).utilization <= idleShare ? 1 : 0);
      before = now;
    }, idleWindowMs);
  }

  #send(request: ThreadRequest): void {
    this.#worker.postMessage(request);
  }

  #answered(answer: ThreadAnswer): void {
    if (answer.kind === 'ready') {
      this.#ready = true;
      return;
    }
    const waiting = this.#waiting.get(answer.id);
    if (answer.kind === 'archived') waiting?.resolve(answer.categories);
    else waiting?.reject(errorOf(answer.failure));
  }

  #ended(error: Error): void {
    this.#alive = false;
    for (const { reject } of this.#waiting.values()) reject(error);
  }

  async close(): Promise<void> {
    await this.#worker.terminate();
  }
}
