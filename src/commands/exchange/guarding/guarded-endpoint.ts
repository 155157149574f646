/** How guardrails read the requests and answers of one endpoint. */
import type { GuardedBodies } from '../../guardrails/body/guarded-bodies.ts';
import type { StreamDialect } from '../../guardrails/events/guarded-dialects.ts';
import type { StreamEvent } from '../../guardrails/events/guarded-events.ts';
import type { RecordedPlaceholder } from '../../guardrails/placeholders.ts';
import type { ParsedRequest } from '../../model-request/parsed-request.ts';
import type { Target } from '../../model-request/target.ts';
import type { Sight } from '../../visibility.ts';
import type { EarlierTurns, PastAttempt } from '../dialect.ts';
import type { ExchangeRecord } from '../exchange-record.ts';
import type { AnswerWriter, GivenAnswer } from '../relay.ts';

export interface GuardedEndpoint {
  readonly bodies: GuardedBodies;
  /** Undefined when the answers contain no text. */
  readonly answers?: GuardedAnswers;
  /** @throws Refusal for a request whose answer would not pass the guardrails */
  check?(input: Pick<MergeInput, 'parsedRequest' | 'candidates'>): void;
  /**
   * The request with the turns that it continues and the items that it refers to, unless every candidate has them.
   * Undefined when it is complete.
   * @throws Refusal
   */
  merged?(input: MergeInput): Promise<MergedRequest | undefined>;
}

export interface GuardedAnswers {
  readonly stream: StreamDialect;
  /** Writes the events of an answer as its client gets them. */
  writer(attempt: PastAttempt): AnswerWriter<StreamEvent>;
  /** Writes an answer that consists of one text: `relay` gets its events. */
  ofText(text: string, attempt: PastAttempt): GivenAnswer;
}

export interface MergeInput {
  readonly parsedRequest: ParsedRequest;
  readonly history: EarlierTurns | undefined;
  readonly candidates: readonly Target[];
  readonly sight: Sight;
  readonly record: ExchangeRecord;
}

export interface MergedRequest {
  readonly json: Record<string, unknown>;
  /** How many of its input items are earlier turns. */
  readonly earlier: number;
  /** The turns that every candidate looks up itself. */
  readonly history: EarlierTurns | undefined;
  /** The values that guardrails kept from providers in earlier turns. */
  readonly placeholders: readonly RecordedPlaceholder[];
}
