/** One request as it is sent to one provider, what its answer must contain, and how the attempt may end. */
import type { LogUnavailable } from '../../events/log.ts';
import { isObject } from '../../json/is-object.ts';
import type { MessageSocket } from '../../network/message-socket.ts';
import type {
  Dialect,
  ForwardCall,
  ProviderCall,
  ProviderFailure,
  ProviderReply,
  TimeLimit,
} from '../../providers/provider.ts';
import type { RequestReservation } from '../model-request/admission.ts';
import type { ForwardEndpoint } from '../model-request/forward-operations.ts';
import type { Client, ModelRequest } from '../model-request/model-request.ts';
import type { NamedValue } from '../model-request/references.ts';
import type { RefusedTarget, Target } from '../model-request/routing-types.ts';
import type { EstimatedTokens } from '../model-request/usage.ts';
import type { Refusal } from '../refusal.ts';
import type { ExchangeRecord } from './exchange-record.ts';
import type { AnswerReader, ResponseStream } from './response-stream.ts';

interface PlanBase<S extends ResponseStream> {
  /** Called for each attempt: a response stream holds the state of one answer. */
  newStream(attempt: number): S;
  /**
   * Another plan for the same request, used when the provider's refusal shows that it lacks the route of this one, or
   * that its WebSocket has ended.
   */
  instead?(refusal: Refusal): Promise<Plan<S>> | undefined;
  /** The request is sent so many times at once, and the answers are one (see parallel-calls.ts). Default 1. */
  readonly calls?: number | undefined;
  /** Guardrails evaluate its answer. */
  readonly isGuarded?: true;
  /** The most tokens of each answer, where a budget has limited them. */
  readonly outputLimit?: number;
  /** How many vectors were requested, of embeddings. */
  readonly vectors?: number;
}

/** A model request in a dialect that the provider speaks. */
export interface ModelPlan<S extends ResponseStream = ResponseStream> extends PlanBase<S> {
  readonly kind: 'model';
  /** The dialect spoken to the provider. */
  readonly dialect: Dialect;
  readonly body: Buffer;
  /** The client's headers that the provider gets: lower-case names. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Of a client on a WebSocket: where the provider has them, the request is sent on one. */
  readonly socket?: Pick<ProviderCall, 'client' | 'continues' | 'steers'>;
  /**
   * Makes the answer in place of the provider, which is called in exchanges of their own: these are retried, admitted and
   * charged, and this attempt is not. @throws Refusal, LogUnavailable, ProviderFailure
   */
  readonly make?: (call: ProviderCall, request: ModelRequest) => Promise<ProviderReply>;
}

/** Whether the gateway makes the answer, and calls the provider in exchanges of their own. */
export function isMade(plan: Plan): boolean {
  return plan.kind === 'model' && plan.make !== undefined;
}

/** A request that is forwarded unchanged, and so is its answer, of any kind. */
export interface ForwardPlan<S extends ResponseStream = ResponseStream> extends PlanBase<S> {
  readonly kind: 'forward';
  readonly dialect: 'forward' | 'passthrough' | 'realtime';
  /** What its answer must contain. */
  readonly answer: ExpectedAnswer;
  readonly call: Omit<ForwardCall, 'requestId' | 'signal' | 'body'>;
  readonly body: Uint8Array | Upload | undefined;
  /** Whether the gateway may send the request twice. */
  readonly repeatable: boolean;
  /** Of a form: the fields before its files. The record keeps size and digest of the body instead of the bytes. */
  readonly fields?: readonly NamedValue[];
  /** The record keeps the number and the digest of the answer's bytes instead of the bytes. */
  readonly digestOnly?: boolean;
  /** The answer is read whole, however long it is, before any of it is passed on. */
  readonly readsWhole?: boolean;
  /** Every answer of the provider is passed on as the answer, including errors and redirects. */
  readonly verbatim?: boolean;
  /** The refusal for the client, when the provider's refusal shows that it does not have this operation. */
  unsupported?(refusal: Refusal): Refusal | undefined;
  /** The call opens a WebSocket: the answer is what passes over it until one side closes it. @throws LogUnavailable */
  session?(opened: OpenedSession): Promise<SessionEnd>;
}

/** A session whose provider is connected. */
export interface OpenedSession {
  readonly socket: MessageSocket;
  /** For a provider that is silent within a response. */
  readonly idle: TimeLimit;
  readonly attempt: number;
  readonly received: Received;
  readonly reservation: RequestReservation | undefined;
  /**
   * Notes usage and charges it; more may follow.
   * @param estimate of what the provider has not reported
   * @returns nano-dollars; undefined where the cost is not known or not recorded
   */
  spend(
    target: Target,
    reader: Pick<AnswerReader, 'usage' | 'model' | 'answerId'>,
    estimate?: { readonly tokens: EstimatedTokens; readonly isPartial: boolean },
  ): number | undefined;
}

/** As of `AttemptEnd`. */
export type SessionEnd =
  | { readonly kind: 'streamed'; readonly rest: Buffer[] }
  | { readonly kind: 'broken'; readonly refusal: Refusal; readonly rest: Buffer[]; readonly cut: true }
  | { readonly kind: 'abandoned'; readonly rest: Buffer[]; readonly cut: true };

/** One request as it is sent to one provider. A dialect makes one with plain streams; guardrails make guarded ones of it. */
export type Plan<S extends ResponseStream = ResponseStream> = ModelPlan<S> | ForwardPlan<S>;

/** A request body that is streamed to the provider. */
export interface Upload extends AsyncIterable<Buffer> {
  /** Why the body broke off, unless the provider ended it. */
  readonly failure: Refusal | LogUnavailable | undefined;
}

/** What passes an answer on uses of its attempt. */
export interface AttemptOptions {
  readonly target: Target;
  readonly record: ExchangeRecord;
  readonly client: Client;
  readonly keepBodies: boolean;
  readonly maxAnswerBytes: number;
  readonly streamLimits: StreamLimits;
  /** Absent where the provider does not count the input before it answers, or no budget counts the request. */
  readonly inputCounted?: RequestReservation['inputCounted'] | undefined;
}

/** The bounds of a streamed answer, from its headers on. */
export interface StreamLimits {
  readonly ms: number;
  /** Of an event stream: the gateway holds what it has to record or to evaluate of it. */
  readonly bytes: number;
}

export interface Answered {
  readonly attempt: number;
  readonly plan: Plan;
  readonly answer: ResponseStream;
  readonly received: Received;
}

export interface WholeAnswer extends Answered {
  readonly kind: 'whole';
  readonly reply: ProviderReply;
  readonly bytes: Buffer;
}

/** `cut`: the bytes sent so far cannot show that the answer is not whole, so the client's connection has to be cut. */
export type AttemptEnd =
  | WholeAnswer
  | (Answered & { readonly kind: 'streamed'; readonly reply: ProviderReply; readonly rest: Buffer[] })
  | (Answered & { readonly kind: 'broken'; readonly refusal: Refusal; readonly rest: Buffer[]; readonly cut?: boolean })
  /** A guardrail ended the answer before any byte was sent to the client. */
  | (Answered & { readonly kind: 'blocked'; readonly refusal: Refusal; readonly isWhole: boolean })
  | (Answered & {
      readonly kind: 'abandoned';
      readonly rest: Buffer[];
      readonly cut?: boolean;
      /** No provider was working on the request: the last had refused, and the next was not called yet. */
      readonly notCalled?: boolean;
    });

export interface FailedAttempt {
  readonly kind: 'failed';
  readonly refusal: Refusal;
  /** The provider's status, when it answered with one. */
  readonly status?: number;
  readonly failure?: ProviderFailure;
  readonly body?: Buffer;
  readonly retryAfterMs?: number;
  /** The stream of a failed answer that reports its usage. */
  readonly spent?: ResponseStream | undefined;
  /** The provider answered and charged for it, but the answer is malformed: a retry would cost the same again. */
  readonly malformed?: boolean;
}

/**
 * A provider that has begun to answer: the status and the headers are known, and no byte has been sent to the client.
 * Nothing more is sent until `deliver` is called, which resolves at the end of the answer.
 */
export interface OpenAnswer extends Answered {
  readonly kind: 'open';
  readonly reply: ProviderReply;
  /** @throws LogUnavailable */
  deliver(): Promise<AttemptEnd>;
}

/** The result of calling one target. */
export type CallResult =
  | OpenAnswer
  | WholeAnswer
  | BlockedAnswer
  | Extract<AttemptEnd, { kind: 'abandoned' }>
  | RefusedTarget;

export type BlockedAnswer = Extract<AttemptEnd, { kind: 'blocked' }>;

/** How an exchange with a provider ended. */
export type Outcome = AttemptEnd | RefusedTarget;

/** The request's own body broke off or was too large; the provider did not fail. */
export interface FailedUpload {
  readonly kind: 'upload_failed';
  readonly refusal: Refusal;
}

export function nothingYet(): Received {
  return { chunks: 0, bytes: 0, firstByteMs: undefined };
}

/** What the provider has returned so far. */
export interface Received {
  chunks: number;
  bytes: number;
  firstByteMs: number | undefined;
  /** Tokens of the text of an answer in one piece whose provider did not count them; of each parallel call. */
  outputTokens?: readonly number[];
}

// The least that an answer in one piece must contain, for every dialect and forwarded endpoint. An answer without it is
// the provider's failure, whatever its status: another target is called, or the client gets 502 `bad_provider_answer`.
// Only what a client cannot do without is checked, so that no answer of a real provider is refused.

export interface ReceivedAnswer {
  /** Undefined when the bytes are not JSON. */
  readonly parsed: unknown;
  readonly bytes: number;
  /** The content type is JSON. */
  readonly isJson: boolean;
  /** How many vectors were requested, of embeddings. */
  readonly vectors?: number | undefined;
}

/** @returns what is missing; undefined for an answer */
type AnswerShape = (answer: ReceivedAnswer) => string | undefined;

type ExpectedAnswer = Dialect | ForwardEndpoint | '/v1/messages/count_tokens' | 'object' | 'anything';

/** What the answer lacks; undefined when it is one. */
export function missingIn(kind: ExpectedAnswer, answer: ReceivedAnswer): string | undefined {
  return shapes[kind](answer);
}

/** Undefined for an answer in JSON, and for a complete one. */
type JsonShape = (answer: Record<string, unknown>, received: ReceivedAnswer) => string | undefined;

const json =
  (missing: JsonShape): AnswerShape =>
  (received) =>
    isObject(received.parsed) ? missing(received.parsed, received) : 'a JSON object';

/** Forwarded answers may have a form of the provider's own: any member instead of `name`. */
const ownOr = (name: string, missing: JsonShape): AnswerShape =>
  json((answer, received) => {
    if (name in answer) return missing(answer, received);
    return isEmpty(answer) ? `'${name}'` : undefined;
  });

const embeddings = (name: 'data' | 'embeddings', vectorOf: (entry: unknown) => unknown): AnswerShape =>
  json((answer, { vectors }) => {
    const list = answer[name];
    if (!Array.isArray(list) || list.length === 0) return 'embeddings';
    if (vectors !== undefined && list.length !== vectors) return `${vectors} embeddings`;
    let length: number | undefined;
    for (const entry of list) {
      const vector = vectorOf(entry);
      if (!isVector(vector)) return 'a vector in each embedding';
      // Vectors by token differ in their number.
      if (Array.isArray(vector[0])) continue;
      length ??= vector.length;
      if (vector.length !== length) return 'vectors of the same length';
    }
    return undefined;
  });

const images = ownOr('data', ({ data }) => {
  const hasImage = (one: unknown): boolean => isObject(one) && (isText(one.url) || isText(one.b64_json));
  return Array.isArray(data) && data.length > 0 && data.every(hasImage) ? undefined : 'an image';
});

/** A transcript may be plain text, also an empty one, or a JSON string. */
const transcript: AnswerShape = (received) => {
  if (!received.isJson || typeof received.parsed === 'string') return undefined;
  return ownOr('text', ({ text }) => (typeof text === 'string' ? undefined : "'text'"))(received);
};

const shapes: Readonly<Record<ExpectedAnswer, AnswerShape>> = {
  chat: json((answer) => missingChoice(answer, messageOf)),
  ollama_chat: json(({ message, done }) => {
    if (done === false) return 'its end';
    return isMessage(message) ? undefined : 'a message';
  }),
  messages: json(({ content }) => (Array.isArray(content) && content.every(hasType) ? undefined : "'content'")),
  responses: json(({ output, status }) => {
    if (Array.isArray(output)) return output.every(hasType) ? undefined : "the items of its 'output'";
    // A response that has not succeeded may have no output.
    return (output ?? null) === null && isText(status) && status !== 'completed' ? undefined : "'output'";
  }),
  embeddings: embeddings('data', (entry) => (isObject(entry) ? entry.embedding : undefined)),
  ollama_embed: embeddings('embeddings', (entry) => entry),
  '/v1/completions': ownOr('choices', (answer) => missingChoice(answer, textOf)),
  '/v1/audio/speech': ({ parsed, bytes, isJson }) => {
    if (!isJson) return bytes > 0 ? undefined : 'audio';
    return isObject(parsed) && !isEmpty(parsed) ? undefined : 'audio';
  },
  '/v1/audio/transcriptions': transcript,
  '/v1/audio/translations': transcript,
  '/v1/images/generations': images,
  '/v1/images/edits': images,
  '/v1/responses/input_tokens': ownOr('input_tokens', (answer) => missingCount(answer)),
  '/v1/responses/compact': ownOr('output', ({ output }) =>
    Array.isArray(output) && output.every(hasType) ? undefined : "'output'",
  ),
  '/v1/messages/count_tokens': json((answer) => missingCount(answer)),
  object: json(({ id }) => (isText(id) ? undefined : "'id'")),
  anything: () => undefined,
};

function missingChoice(
  { choices }: Record<string, unknown>,
  missingIn: (choice: Record<string, unknown>) => string | undefined,
): string | undefined {
  if (!Array.isArray(choices) || choices.length === 0) return 'a choice';
  for (const choice of choices) {
    const missing = isObject(choice) ? missingIn(choice) : 'a choice';
    if (missing !== undefined) return missing;
  }
  return undefined;
}

function messageOf({ message }: Record<string, unknown>): string | undefined {
  return isMessage(message) ? undefined : 'a message in each choice';
}

function textOf({ text }: Record<string, unknown>): string | undefined {
  return typeof text === 'string' ? undefined : 'text in each choice';
}

/** Text, parts, or neither: a message may consist of tool calls, a refusal or audio. */
function isMessage(message: unknown): boolean {
  if (!isObject(message)) return false;
  const content = message.content ?? null;
  const calls = message.tool_calls ?? null;
  return (
    (content === null || typeof content === 'string' || Array.isArray(content)) &&
    (calls === null || (Array.isArray(calls) && calls.every(isObject)))
  );
}

function missingCount({ input_tokens: count }: Record<string, unknown>): string | undefined {
  return typeof count === 'number' && count >= 0 ? undefined : "'input_tokens'";
}

/** Numbers, a text in base64, or the vectors of tokens. */
function isVector(vector: unknown): vector is string | readonly unknown[] {
  if (!Array.isArray(vector)) return isText(vector);
  if (Array.isArray(vector[0])) return vector.every(isVector);
  // A loop, because a vector has thousands of numbers.
  for (let at = 0; at < vector.length; at++) if (typeof vector[at] !== 'number') return false;
  return vector.length > 0;
}

function hasType(one: unknown): boolean {
  return isObject(one) && isText(one.type);
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

function isEmpty(answer: Record<string, unknown>): boolean {
  for (const _ in answer) return false;
  return true;
}
