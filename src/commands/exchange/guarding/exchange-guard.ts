/** The guardrails of one exchange: they evaluate its request and its answer, and record every verdict. */
import { guardrailApplied, type guardrailVerdicts, placeholdersAssigned } from '../../../events/catalogue/guardrail.ts';
import { isExactNumber } from '../../../json/exact-json.ts';
import { isObject } from '../../../json/is-object.ts';
import { carriedForm, isCarried } from '../../../providers/translate/responses-to-chat/reasoning.ts';
import type { GuardedBody } from '../../guardrails/body/body-texts.ts';
import type { GuardedBodies } from '../../guardrails/body/guarded-bodies.ts';
import type { StreamDialect } from '../../guardrails/events/guarded-dialects.ts';
import {
  allowed,
  type EvaluationContext,
  type GuardrailDecision,
  type GuardrailPhase,
  type HeaderChanges,
  outweighs,
} from '../../guardrails/guardrail-type.ts';
import {
  blockStatus,
  type GuardrailRun,
  type GuardrailStep,
  guardrailHeader,
  warningHeader,
} from '../../guardrails/phases/guardrail-step.ts';
import { type PhaseOutcome, runPhase } from '../../guardrails/phases/run-phase.ts';
import { Placeholders, type RecordedPlaceholder } from '../../guardrails/placeholders.ts';
import type { ParsedRequest } from '../../model-request/model-request.ts';
import type { Target } from '../../model-request/routing-types.ts';
import { earlyEnd } from '../../model-request/upstream-refusals.ts';
import { type Refusal, refusals } from '../../refusal.ts';
import type { VisibilityScope } from '../../visibility.ts';
import type { EarlierTurns, PastAttempt } from '../dialect.ts';
import type { ExchangeRecord } from '../exchange-record.ts';
import type { GuardrailSteps } from '../policy.ts';
import type { AnswerWriter, GivenAnswer } from '../response-stream.ts';

interface GuardParts {
  readonly steps: GuardrailSteps;
  readonly record: ExchangeRecord;
  /** Whether changed requests and delivered answers are recorded. */
  readonly keepBodies: boolean;
  readonly facts: Omit<EvaluationContext, 'placeholders' | 'signal' | 'now'>;
  /** Of earlier turns. */
  readonly placeholders: readonly RecordedPlaceholder[];
  /** Aborted when the client leaves or the gateway stops. */
  signal(): AbortSignal;
}

/** What one phase decided, for the record. */
interface Verdict extends Pick<PhaseOutcome, 'decision' | 'decidedBy' | 'failed' | 'warnings' | 'runs'> {
  readonly phase: GuardrailPhase;
  readonly attempt?: number;
  readonly unreadable?: readonly string[];
  /** The request as it was changed. */
  readonly body?: Uint8Array | undefined;
}

export class ExchangeGuard {
  readonly steps: GuardrailSteps;
  readonly placeholders: Placeholders;
  readonly keepBodies: boolean;
  readonly record: ExchangeRecord;
  readonly #parts: GuardParts;
  readonly #warnings = new Set<string>();
  readonly #headers: HeaderChanges[] = [];
  /** Whether the request was changed. */
  #isChanged = false;
  /** The request as the prompt phase changed it, in the bytes on record. */
  changedBody: Buffer | undefined;
  /** Whether a guardrail warned about the answer, or changed its headers. */
  hasAnswerEffects = false;

  constructor(parts: GuardParts) {
    this.#parts = parts;
    this.steps = parts.steps;
    this.record = parts.record;
    this.keepBodies = parts.keepBodies;
    this.placeholders = new Placeholders(parts.placeholders);
  }

  /** Whether answers are evaluated, or changed: an answer may repeat parts of a request that guardrails changed. */
  get guardsAnswers(): boolean {
    const { response, collected, stream } = this.steps;
    return this.#isChanged || response.length + collected.length + stream.length > 0 || this.placeholders.size > 0;
  }

  get context(): EvaluationContext {
    const { facts, signal } = this.#parts;
    return { ...facts, now: new Date(), signal: signal(), placeholders: this.placeholders };
  }

  /** Evaluates the request, and records the verdict, the request as it was changed, and the placeholders. */
  async prompt(body: unknown, of: GuardedBody): Promise<PhaseOutcome> {
    const outcome = await this.#run('prompt', this.steps.prompt, body, of);
    this.#isChanged = outcome.body !== body;
    const changed = outcome.body === body || !this.keepBodies ? undefined : Buffer.from(JSON.stringify(outcome.body));
    this.changedBody = changed;
    this.#note({ ...outcome, phase: 'prompt', body: changed });
    const { size } = this.placeholders;
    if (size > 0) {
      const table = this.keepBodies ? Buffer.from(JSON.stringify(this.placeholders.recorded())) : undefined;
      this.record.note(placeholdersAssigned.create({ count: size }, this.record.context, table));
    }
    return outcome;
  }

  /** Evaluates a whole answer of an attempt, and records the verdict. */
  async answer(
    phase: 'response' | 'stream',
    steps: readonly GuardrailStep[],
    attempt: number,
    { body, of }: { readonly body: unknown; readonly of: GuardedBody },
  ): Promise<PhaseOutcome> {
    const outcome = await this.#run(phase, steps, body, of);
    if (outcome.warnings.length + outcome.headers.length > 0) this.hasAnswerEffects = true;
    this.#note({ ...outcome, phase, attempt, body: undefined });
    return outcome;
  }

  /** Records the verdict on a stream that was evaluated as it arrived. */
  noteStream(attempt: number, runs: readonly GuardrailRun[], warnings: readonly string[], failed?: string): void {
    for (const code of warnings) this.#warnings.add(code);
    if (warnings.length > 0) this.hasAnswerEffects = true;
    let decision: GuardrailDecision = allowed;
    let decidedBy: string | undefined;
    for (const { verdict, code = '', message = '', guardrail } of runs) {
      if (verdict === 'failure' || verdict === 'allow') continue;
      const given = { action: verdict, code, message, text: '' };
      if (!outweighs(given, decision)) continue;
      decision = given;
      decidedBy = guardrail;
    }
    this.#note({ phase: 'stream', attempt, decision, decidedBy, failed, warnings, runs });
  }

  /** Changes the headers of the answer as the guardrails that ran so far require. Adds the header of their warnings. */
  changeAnswerHeaders(headers: Record<string, string>): void {
    for (const { responseSet, responseAdd, responseRemove } of this.#headers) {
      Object.assign(headers, responseSet);
      for (const [name, value] of Object.entries(responseAdd ?? {})) {
        headers[name] = headers[name] === undefined ? value : `${headers[name]}, ${value}`;
      }
      for (const name of responseRemove ?? []) delete headers[name];
    }
    const warnings = warningHeader([...this.#warnings]);
    if (warnings !== undefined) headers[guardrailHeader] = warnings;
  }

  /** The client's headers as providers get them. */
  requestHeaders(given: Readonly<Record<string, string>>): Record<string, string> {
    const headers = { ...given };
    for (const { requestSet, requestRemove } of this.#headers) {
      Object.assign(headers, requestSet);
      for (const name of requestRemove ?? []) delete headers[name];
    }
    return headers;
  }

  /** @throws Refusal when the client left or the gateway stopped meanwhile */
  async #run(phase: GuardrailPhase, steps: readonly GuardrailStep[], body: unknown, of: GuardedBody) {
    const { context } = this;
    const outcome = await runPhase({ phase, steps, body, of, context });
    // The end of a call of a guardrail is then no failure of the guardrail, which might be skipped.
    if (context.signal.aborted) throw earlyEnd(context.signal.reason).refusal;
    for (const code of outcome.warnings) this.#warnings.add(code);
    this.#headers.push(...outcome.headers);
    return outcome;
  }

  #note({ phase, attempt, decision, decidedBy, failed, warnings, runs, unreadable = [], body }: Verdict): void {
    if (runs.length === 0) return;
    const verdict: (typeof guardrailVerdicts)[number] = failed === undefined ? decision.action : 'failure';
    const data = {
      phase,
      attempt,
      verdict,
      decidedBy: failed ?? decidedBy,
      code: failed !== undefined || decision.action === 'allow' ? undefined : decision.code,
      edited: runs.some(({ edited }) => edited),
      warnings: warnings.length === 0 ? undefined : warnings,
      unreadable: unreadable.length === 0 ? undefined : unreadable.slice(0, mostUnreadable),
      runs,
    };
    this.record.note(guardrailApplied.create(data, this.record.context, body));
  }
}

/** Paths of unreadable members that are recorded; a request may have any number. */
const mostUnreadable = 100;

/** The error for the client; undefined when the request goes on. */
export function refusalOfPhase(
  { decision, failed }: Pick<PhaseOutcome, 'decision' | 'failed'>,
  phase: GuardrailPhase,
): Refusal | undefined {
  if (decision.action === 'block') {
    const what = phase === 'prompt' ? 'request' : 'answer';
    return refusals.guardrailBlocked(blockStatus(decision, phase), decision.code, decision.message, what);
  }
  return failed === undefined ? undefined : refusals.guardrailFailed(failed);
}

/** How guardrails read the requests and answers of one endpoint. */
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
  writer(attempt: PastAttempt): AnswerWriter;
  /** Writes an answer that consists of one text: `stream` gets its events. */
  ofText(text: string, attempt: PastAttempt): GivenAnswer;
}

export interface MergeInput {
  readonly parsedRequest: ParsedRequest;
  readonly history: EarlierTurns | undefined;
  readonly candidates: readonly Target[];
  readonly visibility: VisibilityScope;
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

// Reasoning that the gateway carries for clients in a form of its own is no text that guardrails read, so guarded
// requests and answers have the same form without any reasoning.

const nothing = carriedForm({ text: '' });

/** A copy. */
export function withoutCarried(value: unknown): unknown {
  if (typeof value === 'string') return isCarried(value) ? nothing : value;
  if (Array.isArray(value)) return value.map(withoutCarried);
  if (!isObject(value) || isExactNumber(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, withoutCarried(one)]));
}
