import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { describe, expect, it } from 'vitest';
import { type MetricFigures, metricFiguresOf } from '../../../src/http/metric-figures.ts';
import { ServiceFigures } from '../../../src/wiring/workers/connections.ts';

/** The metrics of a process that has served so many requests. */
function served(requests: number, inFlight = 0): Promise<MetricFigures> {
  const registry = new Registry();
  const registers = [registry];
  new Counter({ name: 'requests_total', help: 'Requests', labelNames: ['model'], registers }).inc(
    { model: 'a "quoted"\nname' },
    requests,
  );
  new Gauge({ name: 'in_flight', help: 'Open', registers }).set(inFlight);
  const duration = new Histogram({ name: 'seconds', help: 'Time', buckets: [1], registers });
  for (let n = 0; n < requests; n++) duration.observe(n);
  return metricFiguresOf(registry);
}

const all = new Set(['1', '2']);

describe('the metrics of a service', () => {
  it('has the series of each process, with its number', async () => {
    const figures = new ServiceFigures();
    figures.take('2', await served(3, 7));
    figures.take('1', await served(2));
    const text = await figures.text(all);
    expect(text).toContain('requests_total{worker="1",model="a \\"quoted\\"\\nname"} 2');
    expect(text).toContain('requests_total{worker="2",model="a \\"quoted\\"\\nname"} 3');
    expect(text).toContain('in_flight{worker="2"} 7');
    expect(text).toContain('seconds_bucket{worker="2",le="1"} 2');
    expect(text.match(/^# TYPE requests_total counter$/gm)).toHaveLength(1);
  });

  it('continues the counters of a process that was replaced, and only those', async () => {
    const figures = new ServiceFigures();
    figures.take('1', await served(5, 4));
    figures.processEnded('1');
    const between = await figures.text(new Set());
    expect(between).toContain('requests_total{worker="1",model="a \\"quoted\\"\\nname"} 5');
    expect(between).not.toContain('in_flight{');
    figures.take('1', await served(2, 1));
    figures.processEnded('1');
    figures.take('1', await served(1, 1));
    const text = await figures.text(all);
    expect(text).toContain('requests_total{worker="1",model="a \\"quoted\\"\\nname"} 8');
    expect(text).toMatch(/^seconds_count\{worker="1"\} 8$/m);
    expect(text).toContain('in_flight{worker="1"} 1');
  });

  it('shows the last counters of a process that does not answer, and not its gauges', async () => {
    const figures = new ServiceFigures();
    figures.take('1', await served(5, 4));
    const text = await figures.text(new Set());
    expect(text).toContain('requests_total{worker="1",model="a \\"quoted\\"\\nname"} 5');
    expect(text).not.toContain('in_flight{');
  });
});
