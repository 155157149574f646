/** The figures of a run while it goes on. They contain no text of a request or of an answer. */
import type { z } from 'zod';
import {
  guardrailApplied,
  type guardrailVerdicts,
  type replayResult,
  replayVerdicts,
} from '../../../events/catalogue/guardrail.ts';
import { isObject } from '../../../json/is-object.ts';
import type { GuardrailRun } from '../phases/guardrail-step.ts';
import type { Evaluated } from './evaluate-exchange.ts';
import type { ReplayedExchange, RequestObstacle } from './recorded-requests.ts';

export type ReplayResult = z.infer<typeof replayResult>;
type GuardrailFigures = ReplayResult['guardrails'][number];
type Writable<T> = { -readonly [Member in keyof T]: T[Member] };

/** Examples of each verdict. */
const EXAMPLES = 10;
/** Kinds of findings of one guardrail. */
const KINDS = 100;

export class ReplayFigures {
  readonly #verdicts: Writable<ReplayResult['verdicts']> = {
    ...{ blocked: 0, failed: 0, responded: 0, warned: 0, changed: 0, passed: 0 },
  };
  readonly #recordedVerdicts: Record<string, Record<string, number>> = {};
  readonly #notEvaluated: Record<string, number> = {};
  readonly #answersNotEvaluated: Record<string, number> = {};
  readonly #guardrails = new Map<string, Writable<GuardrailFigures>>();
  readonly #examples: ReplayResult['examples'][number][] = [];
  #requests = 0;
  #otherWorkflow = 0;
  #withoutEarlierTurns = 0;
  #unreadable = 0;
  sample: ReplayResult['sample'];
  truncatedAt: number | undefined;

  /** Requests of the draft so far. */
  get requests(): number {
    return this.#requests;
  }

  noteOtherWorkflow(): void {
    this.#otherWorkflow += 1;
  }

  noteObstacle(obstacle: RequestObstacle): void {
    this.#requests += 1;
    addTo(this.#notEvaluated, obstacle);
  }

  note(exchange: ReplayedExchange, evaluated: Evaluated): void {
    const { id, received } = exchange.recorded;
    const { verdict, guardrail, phase, code, runs, lacksEarlierTurns, isUnreadable, answerObstacle } = evaluated;
    this.#requests += 1;
    this.#verdicts[verdict] += 1;
    const recorded = recordedOutcome(exchange);
    const ofVerdict = this.#recordedVerdicts[verdict] ?? {};
    this.#recordedVerdicts[verdict] = ofVerdict;
    addTo(ofVerdict, recorded.verdict);
    if (lacksEarlierTurns) this.#withoutEarlierTurns += 1;
    if (isUnreadable) this.#unreadable += 1;
    if (answerObstacle !== undefined) addTo(this.#answersNotEvaluated, answerObstacle);
    for (const run of runs) this.#noteRun(run);
    if (this.#verdicts[verdict] > EXAMPLES) return;
    const decided = verdict === 'passed' ? {} : { guardrail, phase, code };
    this.#examples.push({ verdict, exchangeId: id, at: received.at, ...decided, recorded });
  }

  #noteRun({ guardrail, type, phase, step, verdict, edited, findings = {}, durationNs }: GuardrailRun): void {
    const key = `${phase} ${step} ${guardrail}`;
    let figures = this.#guardrails.get(key);
    if (figures === undefined) {
      const verdicts = { allow: 0, warn: 0, respond: 0, block: 0, failure: 0 };
      const nothing = { runs: 0, verdicts, edited: 0, findings: {}, durationNs: 0, longestNs: 0 };
      figures = { guardrail, type, phase, step, ...nothing };
      this.#guardrails.set(key, figures);
    }
    figures.runs += 1;
    figures.verdicts[verdict] += 1;
    if (edited) figures.edited += 1;
    for (const [kind, found] of Object.entries(findings)) {
      if (kind in figures.findings || Object.keys(figures.findings).length < KINDS)
        addTo(figures.findings, kind, found);
    }
    figures.durationNs += durationNs;
    figures.longestNs = Math.max(figures.longestNs, durationNs);
  }

  /** As it is now: later requests do not change it. */
  result(): ReplayResult {
    return structuredClone({
      requests: this.#requests,
      verdicts: this.#verdicts,
      recordedVerdicts: this.#recordedVerdicts,
      notEvaluated: this.#notEvaluated,
      answersNotEvaluated: this.#answersNotEvaluated,
      otherWorkflow: this.#otherWorkflow,
      withoutEarlierTurns: this.#withoutEarlierTurns,
      unreadable: this.#unreadable,
      guardrails: [...this.#guardrails.values()],
      examples: this.#examples.toSorted(
        (one, other) => replayVerdicts.indexOf(one.verdict) - replayVerdicts.indexOf(other.verdict),
      ),
      ...(this.sample !== undefined && { sample: this.sample }),
      ...(this.truncatedAt !== undefined && { truncatedAt: this.truncatedAt }),
    });
  }
}

function addTo(counts: Record<string, number>, name: string, count = 1): void {
  counts[name] = (counts[name] ?? 0) + count;
}

/** What happened to a request when it was recorded, in the words of a replay. */
interface RecordedOutcome {
  /** The strongest of the guardrails that ran; `passed` without any. */
  readonly verdict: (typeof replayVerdicts)[number];
  /** Of the answer; 0 when the client got none. */
  readonly status: number;
}

const verdictOf = {
  block: 'blocked',
  failure: 'failed',
  respond: 'responded',
  warn: 'warned',
} as const satisfies Partial<Record<(typeof guardrailVerdicts)[number], RecordedOutcome['verdict']>>;

function recordedOutcome({ recorded: { end }, events }: ReplayedExchange): RecordedOutcome {
  let verdict: RecordedOutcome['verdict'] = 'passed';
  for (const event of events) {
    if (event.type !== guardrailApplied.type) continue;
    const { verdict: given, edited } = guardrailApplied.data.parse(event.data);
    const own = given === 'allow' ? (edited ? 'changed' : 'passed') : verdictOf[given];
    if (replayVerdicts.indexOf(own) < replayVerdicts.indexOf(verdict)) verdict = own;
  }
  const status = isObject(end?.data) ? end.data['status'] : undefined;
  return { verdict, status: typeof status === 'number' ? status : 0 };
}
