/**
 * The metrics of all processes of a service, each series with the label `worker`. The counters of a process that has ended
 * stay, and those of the one that replaces it are added: no scraped counter ever goes back.
 */
import { AggregatorRegistry } from 'prom-client';
import type { MetricFigure, MetricFigures } from '../../http/metric-figures.ts';

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
