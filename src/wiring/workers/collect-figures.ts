/** Collects the metrics of all processes of a service for a scrape. */
import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import { type MetricFigures, metricFiguresOf } from '../../http/metric-figures.ts';
import { ServiceFigures } from './service-figures.ts';
import type { WorkerPool } from './worker-pool.ts';

/** A worker that does not answer within this time is left out of the scrape. */
const ANSWER_MS = 1000;
const PRIMARY = 'primary';

export class FigureCollection {
  readonly #pool: Pick<WorkerPool, 'send' | 'serves' | 'running' | 'replacements'>;
  readonly #count: number;
  readonly #figures = new ServiceFigures();
  readonly #registry = new Registry();
  readonly #waiting = new Map<number, (worker: number) => void>();
  #collecting: Promise<string> | undefined;
  #collections = 0;

  /** @param count number of workers */
  constructor(pool: Pick<WorkerPool, 'send' | 'serves' | 'running' | 'replacements'>, count: number) {
    this.#pool = pool;
    this.#count = count;
    const registers = [this.#registry];
    collectDefaultMetrics({ register: this.#registry });
    new Gauge({
      name: 'gateway_workers_running',
      help: 'Workers that serve requests',
      registers,
      collect() {
        this.set(pool.running);
      },
    });
    new Counter({
      name: 'gateway_worker_replacements_total',
      help: 'Workers that were started in place of one that has ended',
      registers,
      collect() {
        this.reset();
        this.inc(pool.replacements);
      },
    });
  }

  /** Scrapes at the same time share one answer. */
  text(): Promise<string> {
    this.#collecting ??= this.#collect().finally(() => {
      this.#collecting = undefined;
    });
    return this.#collecting;
  }

  /** @param id undefined for those of a worker that stops */
  receive(worker: number, figures: MetricFigures, id?: number): void {
    this.#figures.take(String(worker), figures);
    if (id !== undefined) this.#waiting.get(id)?.(worker);
  }

  workerEnded(worker: number): void {
    this.#figures.processEnded(String(worker));
  }

  async #collect(): Promise<string> {
    const id = ++this.#collections;
    const numbers = Array.from({ length: this.#count }, (_, at) => at + 1);
    const serving = numbers.filter((worker) => this.#pool.serves(worker));
    const asked = new Set(serving.filter((worker) => this.#pool.send(worker, { type: 'collect', id })));
    const answered = await this.#answers(id, asked);
    this.#figures.take(PRIMARY, await metricFiguresOf(this.#registry));
    return this.#figures.text(new Set([PRIMARY, ...[...answered].map(String)]));
  }

  async #answers(id: number, asked: ReadonlySet<number>): Promise<ReadonlySet<number>> {
    const answered = new Set<number>();
    const { promise, resolve } = Promise.withResolvers<void>();
    const late = setTimeout(resolve, ANSWER_MS);
    this.#waiting.set(id, (worker) => {
      answered.add(worker);
      if (answered.size === asked.size) resolve();
    });
    if (asked.size > 0) await promise;
    clearTimeout(late);
    this.#waiting.delete(id);
    return answered;
  }
}
