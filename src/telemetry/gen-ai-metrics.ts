/** The histograms of OpenTelemetry's semantic conventions for GenAI. `metric-data.ts` gives them their names. */
import { Histogram, Registry } from 'prom-client';
import { metricFiguresOf } from '../http/metric-figures.ts';
import type { TracedExchange } from './exchange-trace.ts';
import { type CalledProvider, operationOf } from './spans.ts';

/** Those of the conventions, in seconds, tokens and seconds. */
const buckets = {
  duration: [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92],
  tokens: [1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864],
  firstToken: [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10],
};
/** Calls of further models are counted together. */
const MAX_SERIES = 1000;
const ofCall = ['operation_name', 'provider_name', 'request_model'].map((name) => `gen_ai_${name}`);

export function genAiMetrics() {
  const registry = new Registry();
  const histogram = (name: string, help: string, more: string, bounds: number[]) =>
    new Histogram({
      name: `gen_ai_${name}`,
      help,
      labelNames: [...ofCall, more],
      buckets: bounds,
      registers: [registry],
    });
  const duration = histogram(
    'client_operation_duration',
    'Duration of calls of providers',
    'error_type',
    buckets.duration,
  );
  const tokens = histogram('client_token_usage', 'Tokens that providers report', 'gen_ai_token_type', buckets.tokens);
  const help = 'Time from the received request to the first byte of a streamed answer';
  const firstToken = histogram('server_time_to_first_token', help, 'gen_ai_response_model', buckets.firstToken);

  const seriesOf = (operation: string, { vendor, model, error }: CalledProvider, isOther: boolean) => {
    const request = isOther ? 'other' : model;
    const of = { gen_ai_operation_name: operation, gen_ai_provider_name: vendor, gen_ai_request_model: request };
    return {
      duration: duration.labels(error === undefined ? of : { ...of, error_type: error }),
      input: tokens.labels({ ...of, gen_ai_token_type: 'input' }),
      output: tokens.labels({ ...of, gen_ai_token_type: 'output' }),
      firstToken: firstToken.labels({ ...of, gen_ai_response_model: request }),
    };
  };
  const series = new Map<string, ReturnType<typeof seriesOf>>();

  return {
    figures: () => metricFiguresOf(registry),
    observe({ endpoint, stream, firstByteMs, usage }: TracedExchange, calls: readonly CalledProvider[]): void {
      for (const call of calls) {
        const key = `${endpoint}\n${call.vendor}\n${call.model}\n${call.error}`;
        let found = series.get(key);
        if (found === undefined) {
          const isOther = series.size >= MAX_SERIES;
          found = seriesOf(operationOf(endpoint), call, isOther);
          if (!isOther) series.set(key, found);
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
