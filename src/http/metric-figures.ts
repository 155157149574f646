/** The metrics of one process as plain values, which can be sent to another process. */
import type { Registry } from 'prom-client';

export type MetricFigures = readonly {
  readonly name: string;
  readonly help: string;
  readonly type: string;
  readonly values: readonly MetricFigure[];
}[];

interface SeriesValue {
  readonly value: number;
  readonly labels: Partial<Record<string, string | number>>;
  readonly metricName?: string;
}

export interface MetricFigure {
  readonly value: number;
  readonly labels: Readonly<Record<string, string | number>>;
  /** Of a histogram: which of its series. */
  readonly metricName?: string | undefined;
}

export async function metricFiguresOf(registry: Registry): Promise<MetricFigures> {
  const metrics = await registry.getMetricsAsJSON();
  return metrics.map(({ name, help, type, values }) => ({
    name,
    help,
    type: String(type),
    values: values.map((figure: SeriesValue) => ({
      value: figure.value,
      labels: Object.fromEntries(
        Object.entries(figure.labels).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
      ),
      metricName: figure.metricName,
    })),
  }));
}
