/** The preview of one request in the live tail: the flat form of a row that lists show while the request is open. */
import type { z } from 'zod';
import type { requestReceived } from '../events/catalogue/exchange.ts';
import { type guardrailApplied, guardrailVerdicts } from '../events/catalogue/guardrail.ts';
import type { workflowFeatures } from '../events/catalogue/workflow.ts';
import { managedKeyId, type RecordedEvent } from '../events/event.ts';
import { parseExactly } from '../json/exact-json.ts';
import { isObject } from '../json/is-object.ts';
import type { InFlightExchange } from './in-flight.ts';
import { guardrailEntry, type VerdictRow } from './verdicts.ts';

/** Larger bodies are left out of previews, with a flag in their place. The log has them whole. */
export const MAX_PREVIEW_BODY_BYTES = 64 * 1024;

export interface AttemptPreview {
  readonly seq: number;
  readonly kind: string;
  readonly provider_type: string;
  readonly provider_name: string;
  readonly model?: string;
  readonly started_at: string;
  readonly duration_ns?: number;
  readonly status_code?: number;
  readonly success?: boolean;
  readonly error_code?: string | null;
  readonly error_message?: string;
}

/** The state of a request so far. Changed in place by `preview-view.ts`. */
export interface RequestSoFar {
  readonly received: RecordedEvent<string, z.infer<typeof requestReceived.data>>;
  resolved?: { readonly provider: string; readonly providerType: string; readonly model: string };
  attempts: AttemptPreview[];
  attemptStartedAt: number;
  /** Set when the response cache answers. */
  cached: { readonly type: string; readonly exchangeId: string } | undefined;
  /** Whether guardrails evaluate the answer of the attempt: the client then gets frames instead of the provider's chunks. */
  isGuarded: boolean;
  /** The runs of guardrails, and their outcome; undefined when none ran. */
  verdicts: VerdictRow[];
  guardrails: GuardrailSummary | undefined;
  /** What the client receives. */
  answer: AnswerText;
  /** When the answer so far was last sent, and whether it has grown since. */
  answerSentAt: number;
  answerGrew: boolean;
}

export function beginPreview(received: RequestSoFar['received']): RequestSoFar {
  return {
    received,
    attempts: [],
    attemptStartedAt: received.at,
    cached: undefined,
    isGuarded: false,
    verdicts: [],
    guardrails: undefined,
    answer: new AnswerText(MAX_PREVIEW_BODY_BYTES),
    answerSentAt: Number.NEGATIVE_INFINITY,
    answerGrew: false,
  };
}

export interface Ending {
  readonly outcome: 'completed' | 'failed' | 'refused' | 'disconnected';
  readonly status: number;
  readonly durationMs: number;
  readonly errorType?: string;
  readonly errorCode?: string | null;
  readonly errorMessage?: string;
  readonly answer?: Uint8Array;
}

export interface PreviewOptions {
  readonly liveState: string;
  readonly pending: boolean;
  readonly ending?: Ending;
  readonly requestBody?: boolean;
  readonly answer?: 'partial' | 'whole';
}

/** The first members of a preview and of its row. */
export function previewHead(id: string, { received, resolved }: RequestSoFar, ending: Ending | undefined) {
  return {
    id,
    request_id: received.context.requestId,
    timestamp: new Date(received.at).toISOString(),
    duration_ns: ending && nanoseconds(ending.durationMs),
    requested_model: received.data.model,
    resolved_model: resolved && `${resolved.provider}/${resolved.model}`,
    provider: resolved?.providerType,
    provider_name: resolved?.provider,
  };
}

/** The same of an open request. */
export function snapshotHead(exchange: InFlightExchange) {
  return {
    id: exchange.id,
    request_id: exchange.requestId,
    timestamp: new Date(exchange.at).toISOString(),
    requested_model: exchange.requestedModel,
    resolved_model: exchange.model === undefined ? undefined : `${exchange.provider}/${exchange.model}`,
    provider: exchange.providerType,
    provider_name: exchange.provider,
  };
}

/** Later events do not change it. Its details are computed when it is serialised, except for a partial answer. */
export function auditPreview(id: string, request: RequestSoFar, options: PreviewOptions): object {
  const { received, answer, cached } = request;
  const { data, context } = received;
  const { ending } = options;
  const attempts = request.attempts.length === 0 ? undefined : [...request.attempts];
  const { guardrails } = request;
  const verdicts = guardrails === undefined ? undefined : [...request.verdicts];
  const details = () => ({
    user_agent: data.headers['user-agent'],
    request_headers: data.headers,
    ...workflowDetails(data.workflow),
    guardrail_verdict: guardrails?.verdict,
    guardrails_edited: guardrails?.edited === true || undefined,
    guardrails: verdicts?.map(guardrailEntry),
    attempts,
    replayed_from: cached?.exchangeId,
    error_code: ending?.errorCode,
    error_message: ending?.errorMessage,
    ...(options.requestBody === true ? requestBody(received.body) : {}),
    ...(options.answer === undefined ? {} : answerBody(answer, options.answer, ending?.answer)),
  });
  return {
    ...previewHead(id, request, ending),
    workflow_version_id: data.workflow?.id,
    cache_type: cached?.type,
    status_code: ending?.status,
    auth_key_id: managedKeyId(context.actor),
    auth_method: data.authMethod,
    client_ip: data.clientIp,
    method: data.method,
    path: data.path,
    user_path: context.userPath ?? '/',
    session_id: data.sessionId,
    labels: data.labels,
    stream: data.stream,
    error_type: ending?.errorType,
    error_message: ending?.errorMessage,
    _live_state: options.liveState,
    _live_pending: options.pending,
    data: options.answer === 'partial' ? details() : { toJSON: details },
  };
}

/** About how many bytes a run of a guardrail takes. */
const RUN_WEIGHT = 500;

/** About how many bytes a preview keeps alive. */
export function weightOf(request: RequestSoFar, options: PreviewOptions): number {
  const { body } = request.received;
  const requestBody = options.requestBody === true && body !== undefined ? body.length : 0;
  return (
    2_000 +
    RUN_WEIGHT * request.verdicts.length +
    requestBody +
    (options.answer === undefined ? 0 : request.answer.bytesKept + (options.ending?.answer?.length ?? 0))
  );
}

/** The preview of an open request for a listener that has just connected. Bodies are not read for it. */
export function snapshotPreview(exchange: InFlightExchange, liveState: string): object {
  const { attempt } = exchange;
  return {
    ...snapshotHead(exchange),
    workflow_version_id: exchange.workflow?.id,
    auth_key_id: managedKeyId(exchange.actor),
    auth_method: exchange.authMethod,
    client_ip: exchange.clientIp,
    method: exchange.method,
    path: exchange.path,
    user_path: exchange.userPath ?? '/',
    stream: exchange.streaming,
    _live_state: liveState,
    _live_pending: true,
    data: {
      user_agent: exchange.userAgent,
      ...workflowDetails(exchange.workflow),
      attempts_made: exchange.attempts,
      attempts:
        attempt === undefined
          ? undefined
          : [
              {
                seq: attempt.seq,
                kind: attempt.kind,
                provider_type: attempt.providerType,
                provider_name: attempt.provider,
                model: attempt.model,
              },
            ],
    },
  };
}

function workflowDetails(workflow: z.infer<typeof requestReceived.data>['workflow']): object {
  if (workflow === undefined) return {};
  const { version, scope, off = [] } = workflow;
  return { workflow_version: version, workflow_scope: scope, workflow_features: featuresWithout(off) };
}

export function nanoseconds(ms: number): number {
  return Math.round(ms * 1e6);
}

function requestBody(body: Uint8Array | undefined): object {
  if (body === undefined) return {};
  if (body.length > MAX_PREVIEW_BODY_BYTES) return { request_body_too_big_to_handle: true };
  return { request_body: jsonOrText(body) };
}

/** `recorded`: the client's answer, when it differs from the provider's. */
function answerBody(answer: AnswerText, part: 'partial' | 'whole', recorded: Uint8Array | undefined): object {
  if (recorded !== undefined) {
    if (recorded.length > MAX_PREVIEW_BODY_BYTES) return { response_body_too_big_to_handle: true };
    return { response_body: jsonOrText(recorded) };
  }
  const soFar = answer.soFar();
  if (soFar === undefined) return {};
  return {
    response_body: soFar.value,
    response_body_partial: part === 'partial' ? true : undefined,
    response_body_too_big_to_handle: soFar.tooBig ? true : undefined,
  };
}

function jsonOrText(body: Uint8Array): unknown {
  const text = Buffer.from(body.buffer, body.byteOffset, body.length).toString('utf8');
  try {
    return parseExactly(text);
  } catch {
    return text;
  }
}

/**
 * The answer so far, read from a provider's chunks for the live tail. It recognises each dialect by its members: chat
 * completion chunks, Responses and Messages events, messages of realtime sessions, Ollama's lines, whole JSON answers. It leaves out what it cannot
 * parse.
 */
interface AnswerSoFar {
  /** Text for a stream; the parsed JSON of a whole answer, or of a stream's terminal response object. */
  readonly value: unknown;
  readonly tooBig: boolean;
}

export class AnswerText {
  readonly #maxBytes: number;
  /** Chunks that are not parsed yet: they are parsed when the answer is read. */
  #unread: Uint8Array[] = [];
  #unreadBytes = 0;
  #text = '';
  #whole: unknown;
  #wholeBytes = 0;
  #tooBig = false;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** One stream event, or a whole body. */
  add(chunk: Uint8Array): void {
    if (this.#tooBig) return;
    this.#unread.push(chunk);
    this.#unreadBytes += chunk.length;
    // Envelopes around single words are a hundred times as large as the words: they are parsed before many are kept.
    if (this.#unreadBytes > 4 * this.#maxBytes) this.#read();
  }

  get bytesKept(): number {
    return this.#unreadBytes + this.#text.length + this.#wholeBytes;
  }

  /** The text of a stream, up to the limit; '' for an answer that is not a stream. */
  text(): string {
    this.#read();
    return this.#text;
  }

  soFar(): AnswerSoFar | undefined {
    this.#read();
    if (this.#whole !== undefined) return { value: this.#whole, tooBig: false };
    if (this.#text === '') return this.#tooBig ? { value: undefined, tooBig: true } : undefined;
    return { value: this.#text, tooBig: this.#tooBig };
  }

  #read(): void {
    const unread = this.#unread;
    this.#unread = [];
    this.#unreadBytes = 0;
    for (const chunk of unread) {
      const text = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length).toString('utf8');
      // The first of parallel calls, as the first choice.
      if (/^call: [1-9]/.test(text)) continue;
      if (/^\s*[{[]/.test(text)) this.#takeJson(parse(text), text.length);
      else for (const data of eventData(text)) this.#take(data);
    }
  }

  /** A whole answer, or a line of a stream of them. */
  #takeJson(json: unknown, size: number): void {
    // A message of a realtime session.
    if (isObject(json) && typeof json.event_id === 'string' && typeof json.type === 'string') {
      this.#append(deltaOf(json) ?? '');
      return;
    }
    const words = isObject(json) ? wordsOfLine(json, this.#text !== '') : undefined;
    if (words === undefined) this.#keep(json, size);
    else this.#append(words);
  }

  #take(data: string): void {
    const event = parse(data);
    if (!isObject(event)) return;
    const delta = deltaOf(event) ?? wordsOfLine(event, this.#text !== '');
    if (delta !== undefined) this.#append(delta);
    else if (isTerminal(event)) this.#keep(event.response, data.length);
  }

  #keep(whole: unknown, size: number): void {
    if (size > this.#maxBytes) this.#tooBig = true;
    else {
      this.#whole = whole;
      this.#wholeBytes = size;
    }
  }

  #append(delta: string): void {
    if (this.#tooBig) return;
    this.#text += delta;
    if (Buffer.byteLength(this.#text) <= this.#maxBytes) return;
    this.#text = truncate(this.#text, this.#maxBytes);
    this.#tooBig = true;
  }
}

/** The beginning of a text that takes at most `maxBytes` in UTF-8, cut between characters. */
function truncate(text: string, maxBytes: number): string {
  return new TextDecoder().decode(Buffer.from(text).subarray(0, maxBytes), { stream: true });
}

function parse(json: string): unknown {
  try {
    return parseExactly(json);
  } catch {
    return undefined;
  }
}

/** The data of each server-sent event; the end marker `[DONE]` is none. */
function* eventData(text: string): Iterable<string> {
  for (const event of text.split(/\r?\n\r?\n/)) {
    const data = event
      .split(/\r?\n/)
      .filter((line) => line.startsWith('data:'))
      .map((line) => line.slice('data:'.length))
      .join('\n')
      .trim();
    if (data.startsWith('{')) yield data;
  }
}

const TEXT_DELTAS: ReadonlySet<unknown> = new Set([
  ...['response.output_text.delta', 'response.output_audio_transcript.delta', 'response.audio_transcript.delta'],
]);

/** The text that an event adds to the answer: of the first choice, where there are several. */
function deltaOf(event: Record<string, unknown>): string | undefined {
  if (TEXT_DELTAS.has(event.type)) return typeof event.delta === 'string' ? event.delta : undefined;
  if (event.type === 'content_block_delta') {
    return isObject(event.delta) && typeof event.delta.text === 'string' ? event.delta.text : undefined;
  }
  const choice = Array.isArray(event.choices) ? event.choices[0] : undefined;
  if (!isObject(choice)) return undefined;
  const words = isObject(choice.delta) ? choice.delta.content : choice.text;
  return typeof words === 'string' ? words : undefined;
}

/** The text of one of Ollama's lines. The last line looks like a whole answer, except after earlier lines. */
function wordsOfLine({ done, message }: Record<string, unknown>, hasBegun: boolean): string | undefined {
  if (!isObject(message) || typeof message.content !== 'string') return undefined;
  return done === false || (done === true && hasBegun) ? message.content : undefined;
}

function isTerminal(event: Record<string, unknown>): boolean {
  return ['response.completed', 'response.incomplete', 'response.failed'].includes(String(event.type));
}

/** What the guardrails of a request came to, over all phases and attempts. */
type Applied = z.infer<typeof guardrailApplied.data>;

export interface GuardrailSummary {
  /** The strongest; the first of equal ones. */
  readonly verdict: Applied['verdict'];
  /** The guardrail with that verdict; undefined for `allow`. */
  readonly decidedBy: string | undefined;
  readonly code: string | undefined;
  /** Whether the request or the answer was changed. */
  readonly edited: boolean;
  readonly runs: number;
}

/** @param before undefined for the first phase */
export function withApplied(before: GuardrailSummary | undefined, applied: Applied): GuardrailSummary {
  const { verdict, decidedBy, code } =
    before !== undefined && strength(before.verdict) >= strength(applied.verdict) ? before : applied;
  return {
    verdict,
    decidedBy,
    code,
    edited: applied.edited || before?.edited === true,
    runs: applied.runs.length + (before?.runs ?? 0),
  };
}

function strength(verdict: Applied['verdict']): number {
  return guardrailVerdicts.indexOf(verdict);
}

type FeatureSwitches = Readonly<Record<(typeof workflowFeatures)[number], boolean>>;

/** All features but those that a workflow turned off. */
export function featuresWithout(off: readonly string[]): FeatureSwitches {
  const isOn = (feature: (typeof workflowFeatures)[number]) => !off.includes(feature);
  return {
    cache: isOn('cache'),
    audit: isOn('audit'),
    usage: isOn('usage'),
    budget: isOn('budget'),
    guardrails: isOn('guardrails'),
    failover: isOn('failover'),
  };
}
