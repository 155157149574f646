/** The spans of an exchange, from its facts, with the names of OpenTelemetry's semantic conventions for GenAI. Pure. */
import * as exchange from '../events/catalogue/exchange.ts';
import { guardrailApplied } from '../events/catalogue/guardrail.ts';
import { eventsOf, type NotedEvent, spanIdAt, type TracedExchange } from './exchange-trace.ts';
import { inputMessages, outputMessages } from './messages.ts';
import type { Attributes, Span } from './span-writer.ts';

/** One call of a provider. Times are milliseconds since the exchange began. */
export interface CalledProvider {
  readonly number: number;
  readonly kind: string;
  readonly provider: string;
  /** As the conventions name it. */
  readonly vendor: string;
  readonly model: string;
  readonly from: number;
  readonly to: number;
  /** Whether its answer is that of the exchange. */
  readonly isAnswer: boolean;
  readonly status: number | undefined;
  readonly error: string | undefined;
}

/** Spans that are no calls of providers have ids behind those of all calls. */
const AFTER_CALLS = 0x4000;

const vendors: Readonly<Record<string, string>> = {
  azure: 'azure.ai.openai',
  gemini: 'gcp.gemini',
  mistral: 'mistral_ai',
  xai: 'x_ai',
};

const operations: Readonly<Record<string, string>> = {
  '/v1/chat/completions': 'chat',
  '/v1/responses': 'chat',
  '/v1/messages': 'chat',
  '/v1/completions': 'text_completion',
  '/v1/embeddings': 'embeddings',
};

/** `audio_speech` for `/v1/audio/speech`: the conventions name no such operation. */
export function operationOf(endpoint: string): string {
  return operations[endpoint] ?? endpoint.replace(/^\/(v1\/)?/, '').replaceAll('/', '_');
}

/**
 * The codes of errors that are exported: of the gateway, and those that providers share. Any other comes from a provider, a
 * guardrail or a plugin, and may repeat contents.
 */
const codes: ReadonlySet<string> = new Set(
  [
    'ambiguous_member answer_incomplete answer_too_large answer_too_long background_elsewhere bad_provider_answer',
    'body_too_complex budget_exceeded client_disconnected context_length_exceeded conversation_full conversation_not_found',
    'duplicate_item endpoint_not_guarded feature_unavailable form_expected gateway_stopped idempotency_key_reused',
    'idempotent_answer_not_kept insufficient_quota internal_error invalid_form invalid_json invalid_prompt invalid_type',
    'invalid_user_path invalid_value item_not_found key_not_active late_field log_damaged log_unavailable',
    'missing_required_parameter model_access_denied model_mismatch model_not_found nested_too_deeply not_cached overloaded',
    'passthrough_scope_denied plugin_failure previous_response_chain_too_long previous_response_not_found price_unknown',
    'provider_credentials_refused provider_error provider_timeout provider_unavailable provider_unreachable',
    'rate_limit_exceeded repeated_member request_canceled request_too_large response_already_in_flight response_cancelled',
    'response_not_found server_error session_idle session_interrupted steering_not_supported stopping stored_reference_denied stream_incomplete too_many_pending_steers too_many_streams too_many_websockets',
    'unknown_parameter unknown_provider unmetered_operation unsupported_operation unsupported_parameter',
    'unsupported_response_operation unsupported_value',
  ].flatMap((line) => line.split(' ')),
);

/** As the APIs of providers define them. */
const finishReasons: ReadonlySet<string> = new Set(
  [
    'stop length tool_calls content_filter function_call error abort eos eos_token model_length sensitive safety',
    'end_turn max_tokens stop_sequence tool_use pause_turn refusal model_context_window_exceeded',
    'completed incomplete failed cancelled load insufficient_system_resource',
  ].flatMap((line) => line.split(' ')),
);

function errorCode(code: string | null | undefined, otherwise: string): string {
  return code != null && codes.has(code) ? code : otherwise;
}

/** A client may name any model: only a text in the form of a name is exported. */
function modelName(model: string): string {
  return /^[\w.:/@+~-]{0,128}$/.test(model) ? model : 'other';
}

export function providerCalls({ events, durationMs }: TracedExchange): CalledProvider[] {
  const started = eventsOf(events, exchange.attemptStarted);
  if (started.length === 0) return [];
  const failures = eventsOf(events, exchange.attemptFailed);
  const end = events.findLast(({ type }) => exchange.exchangeEnds.has(type));
  return started.map(({ at, data }, index): CalledProvider => {
    const failed = failures.find((event) => event.data.attempt === data.attempt);
    const isLast = index === started.length - 1;
    const until = failed?.at ?? (isLast ? end?.at : started[index + 1]?.at) ?? Math.max(at, durationMs);
    return {
      number: data.attempt,
      kind: data.kind,
      provider: data.provider,
      vendor: vendors[data.providerType] ?? data.providerType,
      model: modelName(data.model ?? ''),
      from: at,
      to: until,
      isAnswer: isLast && failed === undefined,
      status: failed?.data.status,
      error:
        failed === undefined
          ? isLast
            ? errorOf(events)
            : undefined
          : errorCode(failed.data.code, String(failed.data.status ?? 'unreachable')),
    };
  });
}

/** Why the exchange has no whole answer. */
function errorOf(events: readonly NotedEvent[]): string | undefined {
  const last = events.findLast(({ type }) => exchange.exchangeEnds.has(type));
  if (last === undefined || last.type === exchange.exchangeCompleted.type) return undefined;
  const [failed] = eventsOf([last], exchange.exchangeFailed);
  if (failed !== undefined) return errorCode(failed.data.code, failed.data.reason);
  const [refused] = eventsOf([last], exchange.requestRefused);
  return refused === undefined ? 'client_disconnected' : errorCode(refused.data.code, refused.data.type);
}

/** That of the exchange first. */
export function spansOf(traced: TracedExchange, calls: readonly CalledProvider[]): Span[] {
  const { traceId, spanId, startedAt, exchangeId, events, request, durationMs, endpoint } = traced;
  const span = (
    place: number,
    name: string,
    kind: Span['kind'],
    times: Times,
    isFailed: boolean,
    given: Attributes,
  ) => ({
    traceId,
    spanId: spanIdAt(spanId, place),
    parentSpanId: place === 0 ? traced.parentSpanId : spanId,
    hasRemoteParent: place === 0 && traced.hasRemoteParent,
    state: traced.state,
    name,
    kind,
    from: startedAt + times.from,
    to: startedAt + times.to,
    isFailed,
    exchangeId,
    attributes: given,
  });
  const operation = operationOf(endpoint);
  const error = errorOf(events);
  const whole = { from: 0, to: durationMs };
  const isFailed = traced.status >= 500 || (error !== undefined && traced.status < 400);
  const spans: Span[] = [
    span(0, `${request.method} ${endpoint}`, 'server', whole, isFailed, ofExchange(traced, operation, error)),
  ];
  for (const call of calls) {
    const attributes = ofCall(traced, call, operation);
    spans.push(span(call.number, `${operation} ${call.model}`, 'client', call, call.error !== undefined, attributes));
  }
  let place = AFTER_CALLS;
  for (const step of traced.steps) spans.push(span(place++, step.name, 'internal', step, step.isFailed, {}));
  for (const run of eventsOf(events, guardrailApplied).flatMap(guardrailRuns)) {
    const attributes = { 'chancery.guardrail.type': run.type, 'chancery.guardrail.verdict': run.verdict };
    spans.push(span(place++, `guardrail ${run.guardrail}`, 'internal', run, run.verdict === 'failure', attributes));
  }
  return spans;
}

interface Times {
  readonly from: number;
  readonly to: number;
}

function ofExchange(traced: TracedExchange, operation: string, error: string | undefined): Attributes {
  const { request, events, labels, model } = traced;
  const requested = eventsOf(events, exchange.requestReceived)[0]?.data.model ?? model;
  const [path = '', query] = request.path.split('?', 2);
  return {
    'http.request.method': request.method,
    'http.route': traced.endpoint,
    'http.response.status_code': traced.status,
    'url.path': path,
    'url.query': query,
    'user_agent.original': request.headers['user-agent'],
    'client.address': request.clientIp,
    'error.type': error,
    'gen_ai.operation.name': operation,
    'gen_ai.request.model': requested === undefined ? undefined : modelName(requested),
    'gen_ai.conversation.id': request.sessionId,
    'chancery.request.id': traced.requestId,
    'chancery.user_path': traced.userPath,
    'chancery.labels': labels.length === 0 ? undefined : labels,
    'chancery.cache': traced.cache,
    'chancery.cost_usd': traced.cost,
  };
}

function ofCall(traced: TracedExchange, call: CalledProvider, operation: string): Attributes {
  const { stream, usage, content, firstByteMs, events } = traced;
  const { error, isAnswer, from } = call;
  const model = call.model || undefined;
  const completed = isAnswer ? eventsOf(events, exchange.exchangeCompleted)[0]?.data : undefined;
  const used = isAnswer ? eventsOf(events, exchange.usageRecorded).at(-1)?.data : undefined;
  const finish = completed?.finishReason ?? undefined;
  const id = used?.providerId ?? completed?.responseId;
  return {
    'gen_ai.operation.name': operation,
    'gen_ai.provider.name': call.vendor,
    'gen_ai.request.model': model,
    'gen_ai.request.stream': stream || undefined,
    'chancery.provider': call.provider,
    'chancery.attempt.kind': call.kind,
    'http.response.status_code': call.status,
    'error.type': error,
    'gen_ai.response.id': id !== undefined && /^[\w.:-]{1,128}$/.test(id) ? id : undefined,
    'gen_ai.response.model': completed === undefined ? undefined : model,
    'gen_ai.response.finish_reasons': finish === undefined ? undefined : [finishReasons.has(finish) ? finish : 'other'],
    'gen_ai.response.time_to_first_chunk':
      isAnswer && stream && firstByteMs !== undefined ? Math.max(0, firstByteMs - from) / 1000 : undefined,
    'gen_ai.usage.input_tokens': isAnswer ? usage?.inputTokens : undefined,
    'gen_ai.usage.output_tokens': isAnswer ? usage?.outputTokens : undefined,
    'gen_ai.usage.cache_read.input_tokens': used?.cachedInputTokens,
    'gen_ai.usage.reasoning.output_tokens': used?.reasoningTokens,
    'gen_ai.input.messages': isAnswer ? inputMessages(content?.request) : undefined,
    'gen_ai.output.messages': isAnswer ? outputMessages(content?.answer, finish) : undefined,
  };
}

/** The runs of a phase, whose end is on record: steps run one after the other, the guardrails of one at the same time. */
function guardrailRuns({
  at,
  data: { runs },
}: ReturnType<typeof eventsOf<string, typeof guardrailApplied.data>>[number]) {
  let end = at;
  return [...Map.groupBy(runs, ({ step }) => step)]
    .sort(([one], [other]) => other - one)
    .flatMap(([, ofStep]) => {
      const from = Math.max(0, end - Math.max(...ofStep.map(({ durationNs }) => durationNs / 1e6)));
      end = from;
      return ofStep.map((run) => ({ ...run, from, to: from + run.durationNs / 1e6 }));
    });
}
