/** The histograms of OpenTelemetry's semantic conventions for GenAI, in the form of a scrape. `collector.ts` gives them their names. */
import type { MetricFigure, MetricFigures } from '../http/metric-figures.ts';
import type { TracedExchange } from './exchange-trace.ts';
import { type CalledProvider, operationOf } from './spans.ts';

/** With the bounds of the conventions. */
const histograms = {
  duration: {
    name: 'gen_ai_client_operation_duration',
    help: 'Duration of calls of providers',
    bounds: [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92],
  },
  tokens: {
    name: 'gen_ai_client_token_usage',
    help: 'Tokens that providers report',
    bounds: [1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864],
  },
  firstToken: {
    name: 'gen_ai_server_time_to_first_token',
    help: 'Time from the received request to the first byte of a streamed answer',
    bounds: [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10],
  },
};
/** Calls of further models are counted together. */
const MAX_SERIES = 1000;

type Histogram = keyof typeof histograms;

class Series {
  readonly #histogram: Histogram;
  readonly #labels: Readonly<Record<string, string>>;
  readonly #counts: number[];
  #sum = 0;
  #count = 0;

  constructor(histogram: Histogram, labels: Readonly<Record<string, string>>) {
    this.#histogram = histogram;
    this.#labels = labels;
    this.#counts = [...histograms[histogram].bounds, 0].fill(0);
  }

  observe(value: number): void {
    const { bounds } = histograms[this.#histogram];
    let place = 0;
    while (place < bounds.length && value > (bounds[place] ?? 0)) place++;
    this.#counts[place] = (this.#counts[place] ?? 0) + 1;
    this.#sum += value;
    this.#count++;
  }

  /** None before the first value. */
  *figures(histogram: Histogram): Generator<MetricFigure> {
    if (histogram !== this.#histogram || this.#count === 0) return;
    const { name, bounds } = histograms[histogram];
    const labels = this.#labels;
    let count = 0;
    for (const [place, own] of this.#counts.entries()) {
      count += own;
      yield { value: count, labels: { ...labels, le: bounds[place] ?? '+Inf' }, metricName: `${name}_bucket` };
    }
    yield { value: this.#sum, labels, metricName: `${name}_sum` };
    yield { value: count, labels, metricName: `${name}_count` };
  }
}

function seriesOf(operation: string, { vendor, error }: CalledProvider, model: string) {
  const of = { gen_ai_operation_name: operation, gen_ai_provider_name: vendor, gen_ai_request_model: model };
  return {
    duration: new Series('duration', error === undefined ? of : { ...of, error_type: error }),
    input: new Series('tokens', { ...of, gen_ai_token_type: 'input' }),
    output: new Series('tokens', { ...of, gen_ai_token_type: 'output' }),
    firstToken: new Series('firstToken', { ...of, gen_ai_response_model: model }),
  };
}

export function genAiMetrics() {
  const series = new Map<string, ReturnType<typeof seriesOf>>();
  return {
    figures(): MetricFigures {
      const all = [...series.values()].flatMap((of) => Object.values(of));
      return (['duration', 'tokens', 'firstToken'] as const).map((histogram) => {
        const { name, help } = histograms[histogram];
        return { name, help, type: 'histogram', values: all.flatMap((one) => [...one.figures(histogram)]) };
      });
    },

    observe({ endpoint, stream, firstByteMs, usage }: TracedExchange, calls: readonly CalledProvider[]): void {
      for (const call of calls) {
        const model = series.size < MAX_SERIES ? call.model : 'other';
        const key = `${endpoint}\n${call.vendor}\n${model}\n${call.error}`;
        let found = series.get(key);
        if (found === undefined) {
          found = seriesOf(operationOf(endpoint), call, model);
          series.set(key, found);
        }
        found.duration.observe((call.to - call.from) / 1000);
        if (!call.isAnswer) continue;
        if (typeof usage?.inputTokens === 'number') found.input.observe(usage.inputTokens);
        if (typeof usage?.outputTokens === 'number') found.output.observe(usage.outputTokens);
        if (stream && firstByteMs !== undefined) found.firstToken.observe(firstByteMs / 1000);
      }
    },
  };
}
