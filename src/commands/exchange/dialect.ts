/** The interface between the exchange and the dialect that a client speaks. One folder per dialect in dialects. */
import type { StreamWrite } from '../../events/log.ts';
import type { ReplyHead } from '../../providers/provider.ts';
import type { TurnInput } from '../conversations/turn.ts';
import type { RecordedPlaceholder } from '../guardrails/placeholders.ts';
import type { PassedRequest, Reservation } from '../model-request/admission.ts';
import type { Answering } from '../model-request/answer-body.ts';
import type { ModelRequest, ParsedRequest, ReadResult } from '../model-request/model-request.ts';
import type { Target } from '../model-request/routing-types.ts';
import type { Units } from '../model-request/usage.ts';
import { Refusal } from '../refusal.ts';
import type { StoredResponse } from '../responses/archive.ts';
import type { RememberedResponse } from '../responses/socket-memory.ts';
import type { VisibilityScope } from '../visibility.ts';
import type { ExchangeRecord } from './exchange-record.ts';
import type { Plan } from './plan.ts';
import type { ExchangePolicy } from './policy.ts';
import type { AnswerStream, AnswerWriter, GivenAnswer } from './response-stream.ts';

export interface PlanInput {
  /** The request to send: the client's, or the one that guardrails made of it. */
  readonly parsedRequest: ParsedRequest;
  /** The bytes of which `parsedRequest.json` is the parsed form. */
  readonly body: Buffer;
  /** The client's request, to which the answer refers. */
  readonly original: ParsedRequest;
  /** Set when earlier turns and referenced items are in the request already. */
  readonly merged?: { /** How many input items are earlier turns. */ readonly earlier: number } | undefined;
  /** The client's headers as providers get them: lower-case names, credentials redacted. */
  readonly headers: Readonly<Record<string, string>>;
  /** The client's headers as they are recorded, which the gateway itself obeys. */
  readonly clientHeaders: Readonly<Record<string, string>>;
  readonly target: Target;
  readonly caller: ModelRequest['caller'];
  /** What the caller may see of stored objects. */
  readonly visibility: VisibilityScope;
  readonly record: ExchangeRecord;
  readonly policy: ExchangePolicy;
  /** The earlier turns that the request continues; undefined when it continues nothing. */
  readonly history: EarlierTurns | undefined;
  readonly reservation: Reservation | undefined;
  /** Unix seconds, for objects that carry their time of creation. */
  readonly createdAt: number;
  /** The output that the response had when the gateway stopped, where the gateway runs its tools. */
  readonly made?: MadeOutput | undefined;
}

/** The output of a response before the gateway stopped, as far as calls of tools have recorded it. */
export interface MadeOutput {
  readonly items: readonly Record<string, unknown>[];
  readonly usage: unknown;
}

/** A recorded attempt: everything that its response stream needs, and nothing that is not on the record. */
export interface PastAttempt {
  readonly parsedRequest: ParsedRequest;
  /** The client's headers as they are recorded: lower-case names. */
  readonly clientHeaders: Readonly<Record<string, string>>;
  readonly exchangeId: string;
  /** Unix seconds. */
  readonly createdAt: number;
  readonly provider: Answering;
  readonly providerType: string;
  /** The provider's own id of the model; empty when no model is called. */
  readonly model: string;
  /** The dialect spoken to the provider. */
  readonly dialect: string;
  /** The number of parallel calls. Default 1. */
  readonly calls?: number | undefined;
  /** Whether earlier turns were put in front of the input. */
  readonly historyReplayed: boolean;
  /** Guardrails changed the request, so the provider does not repeat the client's instructions. */
  readonly isGuarded?: boolean;
  /** Unix seconds. */
  now(): number;
}

export interface ExchangeDialect {
  readonly name: 'chat' | 'responses' | 'embeddings' | 'messages' | 'forward' | 'passthrough' | 'realtime';
  readonly endpoint: string;
  read(json: unknown): ReadResult;
  /** Replaces `read` for a body that is more than one JSON text. The dialect reads the body and records it. */
  take?(request: ModelRequest): ReadResult | Promise<ReadResult>;
  /** The target, for requests in which the model does not decide it. @throws Refusal when there is no target */
  target?(parsedRequest: ParsedRequest): Target | Promise<Target>;
  /**
   * Loads the turns that the request continues; undefined when it continues nothing. Rejects with a Refusal when they
   * are not found.
   */
  loadHistory?(input: Pick<PlanInput, 'parsedRequest' | 'visibility'>): Promise<EarlierTurns> | undefined;
  /** @throws Refusal when the request cannot be sent to this provider */
  plan(input: PlanInput): Plan<AnswerStream> | Promise<Plan<AnswerStream>>;
  /** The answer to a request for which no provider is called; undefined when one is. */
  answerWithoutProvider?(
    parsedRequest: ParsedRequest,
    candidates: readonly Target[],
  ): ((past: PastAttempt) => GivenAnswer) | undefined;
  /** Whether a request counts in the rate limits also when no provider is called. */
  readonly alwaysCounts?: boolean;
  /** The response stream of a recorded attempt: the same bytes from the provider give the client the same bytes. */
  streamOfRecorded(attempt: PastAttempt): AnswerStream;
  /** The headers of the answer, except the ids of the exchange. Default: the content type alone. */
  answerHeaders?(reply: ReplyHead, request: ModelRequest): Record<string, string>;
  /** Units that are charged besides tokens, as far as the request states them. */
  units?(parsedRequest: ParsedRequest): Units | undefined;
  /** The model request in a body that the gateway does not read otherwise. */
  passed?(): PassedRequest | undefined;
  /**
   * Whether the gateway runs tools of the request. The model is then called in exchanges of their own, which limits and
   * budgets count, and the answer is not cached.
   */
  runsTools?(parsedRequest: ParsedRequest): boolean;
  /** Not every request spends tokens: usage is recorded only where a provider reports it. */
  readonly mayBeFree?: boolean;
  /** Normalised input items as JSON text, for the stored response. */
  inputItems?(parsedRequest: ParsedRequest, responseId: string): string;
  /** Whether the response is stored. */
  keeps?(parsedRequest: ParsedRequest): boolean;
  /** Gets each response that has succeeded and is not stored. */
  remember?(response: RememberedResponse): void;
  /**
   * Further writes for a response that succeeded, in the same append as its end: the turn of its conversation.
   * Undefined for a request without a conversation.
   */
  turn?(
    parsedRequest: Pick<ParsedRequest, 'json'>,
    writer: Pick<AnswerWriter, 'response'>,
    by: Pick<ExchangeRecord, 'id' | 'context'> & {
      readonly visibility: VisibilityScope;
      readonly placeholders?: readonly RecordedPlaceholder[] | undefined;
    },
  ): Promise<readonly StreamWrite[]> | undefined;
  /** The response that the gateway generates in the background; undefined for a request that is answered directly. */
  background?(input: PlanInput): BackgroundResponse | undefined;
}

/** A background response, whose id is known from the beginning. */
export interface BackgroundResponse {
  readonly id: string;
  /** The response object without any output. */
  readonly shell: object;
}

/** The turns that a request continues, loaded once. Each candidate gets the turns that its provider does not have. */
export type EarlierTurns =
  | {
      readonly kind: 'conversation';
      readonly id: string;
      readonly turn: TurnInput;
      placeholders(): readonly RecordedPlaceholder[];
    }
  | {
      readonly kind: 'response';
      /** Some of the turns may not be on record as responses, so the answer must not be cached. */
      readonly isRemembered?: boolean;
      readonly previousId: string;
      /** Undefined when this gateway has not stored it, or the caller may not see it. */
      readonly head: StoredResponse | undefined;
      /** Oldest first; read once. Rejects with a Refusal when one is not stored, or the chain is too long. */
      chain(): Promise<readonly StoredResponse[]>;
    };

/** Converts a parser's result to the request that the exchange works with. */
export function readWith(parsed: Parsed): ReadResult {
  if (!parsed.ok) return { ok: false, refusal: new Refusal({ ...parsed.refusal, type: 'invalid_request_error' }) };
  const json = parsed.request;
  const provider = typeof json.provider === 'string' && json.provider !== '' ? json.provider : undefined;
  return { ok: true, parsedRequest: { model: json.model, provider, stream: json.stream === true, json } };
}

/** The result of parsing a request body. */
type Parsed =
  | { readonly ok: true; readonly request: Record<string, unknown> & { model: string } }
  | {
      readonly ok: false;
      readonly refusal: { status: number; code: string | null; param: string | null; message: string };
    };

// How the body for the provider differs from the client's, member by member.

/** The members that differ between the client's body and the provider's, as JSON texts. */
export function memberChanges({
  parsedRequest,
  target: { model },
}: Pick<PlanInput, 'parsedRequest' | 'target'>): Record<string, string | undefined> {
  const changes: Record<string, string | undefined> = {};
  if (parsedRequest.model !== model) changes.model = JSON.stringify(model);
  // An object under `provider` is a routing preference for the provider, not a selector of the gateway.
  if (typeof parsedRequest.json.provider === 'string') changes.provider = undefined;
  return changes;
}

export function hasMembers(changes: object): boolean {
  for (const _ in changes) return true;
  return false;
}
