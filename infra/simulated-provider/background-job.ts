/** The states of a response in the background: queued, in progress, ended. */
import type { FaultPlan } from './fault.ts';

export type JobState = 'queued' | 'in_progress' | 'over' | 'cancelled';

export class BackgroundJob {
  #state: JobState = 'queued';
  #moved = Promise.withResolvers<void>();

  /**
   * Half of `ms` is spent in each state; with 0 it ends at once. At `holdAt` the job waits until the plan
   * releases it, and then ends.
   */
  constructor(ms: number, plan: FaultPlan, holdAt?: 'queued' | 'in_progress') {
    if (holdAt !== undefined) void plan.held().then(() => this.#move('over'));
    else if (ms <= 0) this.#move('over');
    if (holdAt === 'queued' || this.ended) return;
    after(ms / 2, () => {
      this.#move('in_progress');
      if (holdAt === undefined) after(ms / 2, () => this.#move('over'));
    });
  }

  get state(): JobState {
    return this.#state;
  }

  get ended(): boolean {
    return this.#state === 'over' || this.#state === 'cancelled';
  }

  cancel(): void {
    this.#move('cancelled');
  }

  /** Resolves once the job is no longer queued. */
  async begun(): Promise<void> {
    while (this.#state === 'queued') await this.#moved.promise;
  }

  /** Resolves once the job has ended or was cancelled. */
  async done(): Promise<void> {
    while (!this.ended) await this.#moved.promise;
  }

  #move(state: JobState): void {
    if (this.ended || this.#state === state) return;
    this.#state = state;
    this.#moved.resolve();
    this.#moved = Promise.withResolvers();
  }
}

/** Its timers do not keep the process alive. */
function after(ms: number, then: () => void): void {
  setTimeout(then, ms).unref();
}
