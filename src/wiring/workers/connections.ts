/**
 * The port of a service with several workers. The primary process accepts the connections and passes each one to the next
 * worker, which has to confirm it before it gets another: one that hangs gets no more than that. No connection waits without
 * limit: while no worker serves requests, and when none takes a connection in time, it gets its answer elsewhere.
 */
import type { Socket } from 'node:net';
import { AggregatorRegistry } from 'prom-client';
import { type Address, openListener, type PortListener } from '../../http/listener.ts';
import type { MetricFigure, MetricFigures } from '../../http/metric-figures.ts';
import type { UnreadyServer } from '../../http/starting-server.ts';

export interface ConnectionReceiver {
  readonly number: number;
  /** @returns whether it could be sent */
  pass(connection: Socket): boolean;
}

export interface ConnectionsOptions {
  /** Takes a connection that no worker takes: nothing was read from it, and it is paused. Closed with the port. */
  readonly unserved: UnreadyServer;
  /** How long a connection may wait for a worker. Default 5 s. */
  readonly patienceMs?: number;
}

interface Waiting {
  readonly socket: Socket;
  readonly since: number;
}

/** Length of the system's queue of connections that are not accepted yet. */
const MAX_WAITING = 511;
const PATIENCE_MS = 5_000;

export class Connections {
  readonly #listener: PortListener;
  readonly #options: ConnectionsOptions;
  readonly #waiting: Waiting[] = [];
  /** Numbers of the workers that serve requests. */
  readonly #serving = new Set<number>();
  /** Those that may get a connection, the one that waits longest first. */
  readonly #free: ConnectionReceiver[] = [];
  /** Sent and not confirmed, by the number of the worker. */
  readonly #sent = new Map<number, Socket>();
  #late: NodeJS.Timeout | undefined;

  private constructor(listener: PortListener, options: ConnectionsOptions) {
    this.#listener = listener;
    this.#options = options;
    listener.receive((socket) => this.#accept(socket));
  }

  get url(): string {
    return this.#listener.url;
  }

  /** @throws what `listen` fails with, such as EADDRINUSE */
  static async listen(address: Address, options: ConnectionsOptions): Promise<Connections> {
    const pausing = { pauseOnConnect: true, noDelay: true };
    return new Connections(await openListener(address, (socket) => socket.destroy(), pausing), options);
  }

  /** The worker serves requests, or has confirmed a connection. */
  workerIsFree(worker: ConnectionReceiver): void {
    this.#sent.get(worker.number)?.destroy();
    this.#sent.delete(worker.number);
    this.#serving.add(worker.number);
    this.#free.push(worker);
    this.#pass();
  }

  /** A connection that it has not confirmed is closed. */
  workerEnded(number: number): void {
    this.#sent.get(number)?.destroy();
    this.#sent.delete(number);
    const at = this.#free.findIndex((worker) => worker.number === number);
    if (at >= 0) this.#free.splice(at, 1);
    this.#serving.delete(number);
    if (this.#serving.size === 0) this.#giveUp(this.#waiting.length);
  }

  /** Accepts no further connection. */
  close(): void {
    void this.#listener.close();
    clearTimeout(this.#late);
    this.#options.unserved.close();
    for (const { socket } of this.#waiting.splice(0)) socket.destroy();
  }

  #accept(socket: Socket): void {
    socket.on('error', () => {});
    if (this.#waiting.length >= MAX_WAITING) {
      socket.destroy();
      return;
    }
    this.#waiting.push({ socket, since: performance.now() });
    if (this.#serving.size === 0) this.#giveUp(this.#waiting.length);
    else this.#pass();
  }

  #pass(): void {
    for (;;) {
      const [worker] = this.#free;
      const [connection] = this.#waiting;
      if (connection === undefined) return;
      if (worker === undefined) break;
      this.#free.shift();
      // One that cannot be sent to has ended, which is handled elsewhere.
      if (!worker.pass(connection.socket)) continue;
      this.#waiting.shift();
      this.#sent.set(worker.number, connection.socket);
    }
    this.#late ??= setTimeout(() => this.#giveUpLate(), this.#patienceMs).unref();
  }

  get #patienceMs(): number {
    return this.#options.patienceMs ?? PATIENCE_MS;
  }

  #giveUpLate(): void {
    this.#late = undefined;
    const from = performance.now() - this.#patienceMs;
    const recent = this.#waiting.findIndex(({ since }) => since > from);
    this.#giveUp(recent < 0 ? this.#waiting.length : recent);
    const [oldest] = this.#waiting;
    if (oldest !== undefined) this.#late = setTimeout(() => this.#giveUpLate(), oldest.since - from).unref();
  }

  /** @param count of the connections that wait longest */
  #giveUp(count: number): void {
    for (const { socket } of this.#waiting.splice(0, count)) this.#options.unserved.take(socket);
  }
}

/**
 * The metrics of all processes of a service, each series with the label `worker`. The counters of a process that has ended
 * stay, and those of the one that replaces it are added: no scraped counter ever goes back.
 */
type Metric = MetricFigures[number];

/** One process of the service. */
interface ProcessFigures {
  /** Of the processes before it, by metric and series. */
  readonly ended: Map<string, Map<string, MetricFigure>>;
  /** Of the present process, when it last sent them. */
  latest: MetricFigures;
}

export class ServiceFigures {
  readonly #processes = new Map<string, ProcessFigures>();

  /** @param worker its number, or `primary` */
  take(worker: string, figures: MetricFigures): void {
    this.#of(worker).latest = figures;
  }

  /** The process has ended; another one may replace it. */
  processEnded(worker: string): void {
    const { ended, latest } = this.#of(worker);
    for (const metric of latest.filter(isCounted)) {
      const counted = ended.get(metric.name) ?? new Map<string, MetricFigure>();
      ended.set(metric.name, counted);
      for (const figure of metric.values) counted.set(seriesOf(figure), sum(figure, counted.get(seriesOf(figure))));
    }
    this.#of(worker).latest = latest.map((metric) => ({ ...metric, values: [] }));
  }

  /**
   * The text of a scrape.
   * @param answering the processes whose figures are of this moment: of the others, only counters are shown
   */
  async text(answering: ReadonlySet<string>): Promise<string> {
    const metrics = new Map<string, Metric & { values: MetricFigure[] }>();
    for (const [worker, process] of [...this.#processes].sort()) {
      for (const metric of process.latest) {
        if (!isCounted(metric) && !answering.has(worker)) continue;
        const merged = metrics.get(metric.name) ?? { ...metric, values: [] };
        metrics.set(metric.name, merged);
        for (const figure of valuesOf(metric, process)) {
          merged.values.push({ ...figure, labels: { worker, ...figure.labels } });
        }
      }
    }
    // Every series is there once, so nothing is aggregated.
    const all = [...metrics.values()].map((metric) => ({ ...metric, aggregator: 'first' }));
    return AggregatorRegistry.aggregate([all]).metrics();
  }

  #of(worker: string): ProcessFigures {
    const known = this.#processes.get(worker) ?? { ended: new Map(), latest: [] };
    this.#processes.set(worker, known);
    return known;
  }
}

function isCounted({ type }: Metric): boolean {
  return type === 'counter' || type === 'histogram';
}

function valuesOf(metric: Metric, { ended }: ProcessFigures): Iterable<MetricFigure> {
  const before = ended.get(metric.name);
  if (before === undefined) return metric.values;
  const all = new Map(before);
  for (const figure of metric.values) all.set(seriesOf(figure), sum(figure, before.get(seriesOf(figure))));
  return all.values();
}

function sum(figure: MetricFigure, before: MetricFigure | undefined): MetricFigure {
  return before === undefined ? figure : { ...figure, value: figure.value + before.value };
}

function seriesOf({ metricName = '', labels }: MetricFigure): string {
  const pairs = Object.entries(labels).sort(([one], [other]) => (one < other ? -1 : 1));
  return JSON.stringify([metricName, ...pairs]);
}
