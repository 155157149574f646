/** Puts another configuration in force in all workers of a service: in one of them first, which checks and records it. */
import type { Config } from '../../config/config.ts';
import { ReloadDelayed, type ReloadRecord } from '../reload.ts';
import type { ToPrimary } from './messages.ts';
import type { WorkerPool } from './worker-pool.ts';

/** A worker that takes longer is killed; the one in its place starts with the new configuration. */
const ANSWER_MS = 15_000;

type Configured = Pick<Extract<ToPrimary, { type: 'configured' }>, 'problem' | 'temporary'>;
type Answer = Configured | 'ended';

export class WorkersConfiguration {
  readonly #pool: () => Pick<WorkerPool, 'send' | 'serves' | 'kill'>;
  readonly #count: number;
  readonly #waiting = new Map<number, (answer: Answer) => void>();
  #current: Config;

  /** @param count number of workers */
  constructor(pool: () => Pick<WorkerPool, 'send' | 'serves' | 'kill'>, count: number, current: Config) {
    this.#pool = pool;
    this.#count = count;
    this.#current = current;
  }

  /** That of a worker which starts now. */
  get current(): Config {
    return this.#current;
  }

  /** @throws Error with the reason why a worker refuses it; nothing has changed then */
  async apply(config: Config, record: ReloadRecord): Promise<void> {
    const numbers = Array.from({ length: this.#count }, (_, at) => at + 1);
    let first: number | undefined;
    for (const number of numbers.filter((one) => this.#pool().serves(one))) {
      const answer = await this.#configure(number, config, record);
      if (answer === 'ended') continue;
      const { problem, temporary = false } = answer;
      if (problem !== undefined) throw temporary ? new ReloadDelayed(problem) : new Error(problem);
      first = number;
      break;
    }
    if (first === undefined) throw new ReloadDelayed('no worker serves requests at the moment; try again');
    this.#current = config;
    const others = numbers.filter((number) => number !== first);
    await Promise.all(
      others.map(async (number) => {
        const answer = await this.#configure(number, config);
        if (answer !== 'ended' && answer.problem !== undefined) this.#pool().kill(number);
      }),
    );
  }

  answered(worker: number, answer: Configured): void {
    this.#waiting.get(worker)?.(answer);
  }

  workerEnded(worker: number): void {
    this.#waiting.get(worker)?.('ended');
  }

  async #configure(number: number, config: Config, record?: ReloadRecord): Promise<Answer> {
    const { promise, resolve } = Promise.withResolvers<Answer>();
    this.#waiting.set(number, resolve);
    const late = setTimeout(() => {
      this.#pool().kill(number);
      resolve('ended');
    }, ANSWER_MS);
    if (!this.#pool().send(number, { type: 'configure', config, record })) resolve('ended');
    try {
      return await promise;
    } finally {
      clearTimeout(late);
      this.#waiting.delete(number);
    }
  }
}
