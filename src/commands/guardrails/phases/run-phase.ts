/** Runs the guardrails of the prompt phase or of the response phase on one body. */

import { isExactNumber } from '../../../json/exact-json.ts';
import { isObject } from '../../../json/is-object.ts';
import { type BodyTexts, type GuardedBody, withTexts } from '../body/body-texts.ts';
import {
  allowed,
  type EvaluationContext,
  type GuardrailDecision,
  type GuardrailPhase,
  type GuardrailResult,
  type HeaderChanges,
  outweighs,
} from '../guardrail-type.ts';
import {
  evaluateStep,
  type GuardrailOutcome,
  type GuardrailRun,
  type GuardrailStep,
  orderedSteps,
} from './guardrail-step.ts';

export interface PhaseInput {
  readonly phase: GuardrailPhase;
  readonly steps: readonly GuardrailStep[];
  readonly body: unknown;
  /** How the texts of the body are found. */
  readonly of: GuardedBody;
  readonly context: EvaluationContext;
}

export interface PhaseOutcome {
  /** The strongest decision; of equal ones the first. Later steps do not run after `block` or `respond`. */
  readonly decision: GuardrailDecision;
  /** The instance that decided; undefined when all allow. */
  readonly decidedBy: string | undefined;
  /** The instance whose failure ends the request: 500 `plugin_failure`. Undefined when a stronger guardrail blocks. */
  readonly failed: string | undefined;
  /** The body as the guardrails changed it; the same object when they changed nothing. */
  readonly body: unknown;
  /** In the order in which they apply. */
  readonly headers: readonly HeaderChanges[];
  /** The codes of all warnings, each once. */
  readonly warnings: readonly string[];
  /** Every run, in the order of the steps. */
  readonly runs: readonly GuardrailRun[];
  /** Members that no guardrail could read: see `BodyTexts`. */
  readonly unreadable: readonly string[];
}

export async function runPhase({ phase, steps, body, of, context }: PhaseInput): Promise<PhaseOutcome> {
  const view = new ChangedBody(body, of);
  const runs: GuardrailRun[] = [];
  const headers: HeaderChanges[] = [];
  const warnings = new Set<string>();
  let decision: GuardrailDecision = allowed;
  let decidedBy: string | undefined;
  let failed: string | undefined;

  for (const together of orderedSteps(steps)) {
    const { parts } = view;
    const outcomes = await Promise.all(together.map((step) => evaluateStep(step, phase, parts, context)));
    for (const { run, result, fatal } of outcomes) {
      runs.push(run);
      if (fatal) failed ??= run.guardrail;
      if (result === undefined) continue;
      if (result.decision.action === 'warn') warnings.add(result.decision.code);
      if (result.headers !== undefined) headers.push(result.headers);
      if (outweighs(result.decision, decision)) {
        decision = result.decision;
        decidedBy = run.guardrail;
      }
    }
    if (failed !== undefined || decision.action === 'block' || decision.action === 'respond') break;
    for (const result of changing(outcomes)) view.change(result);
  }
  // A blocked request stays blocked when another guardrail of the step fails.
  if (decision.action === 'block') failed = undefined;
  const { unreadable } = view;
  return { decision, decidedBy, failed, body: view.changed(), headers, warnings: [...warnings], runs, unreadable };
}

function changing(outcomes: readonly GuardrailOutcome[]): GuardrailResult[] {
  return outcomes.flatMap(({ result }) => (result === undefined ? [] : [result]));
}

/** The body while guardrails change it: texts are written once, at the end. */
class ChangedBody {
  readonly #of: GuardedBody;
  #body: unknown;
  #texts: BodyTexts;
  #parts: BodyTexts['parts'];
  readonly #changes = new Map<number, string>();

  constructor(body: unknown, of: GuardedBody) {
    this.#of = of;
    this.#body = body;
    this.#texts = of.texts(body);
    this.#parts = this.#texts.parts;
  }

  get parts(): BodyTexts['parts'] {
    return this.#parts;
  }

  get unreadable(): readonly string[] {
    return this.#texts.unreadable;
  }

  change({ texts, system }: GuardrailResult): void {
    if (texts !== undefined && texts.size > 0) {
      this.#parts = this.#parts.map((part, index) => {
        const text = texts.get(index);
        if (text === undefined) return part;
        this.#changes.set(index, text);
        return { ...part, text };
      });
    }
    if (system === undefined || this.#of.withSystem === undefined) return;
    this.#body = this.#of.withSystem(this.changed(), system);
    this.#texts = this.#of.texts(this.#body);
    this.#parts = this.#texts.parts;
  }

  changed(): unknown {
    if (this.#changes.size > 0) {
      const changed = withTexts(this.#body, this.#texts, this.#changes);
      this.#body = this.#of.withSystem === undefined ? withoutLogprobs(changed) : changed;
      this.#changes.clear();
      // The places within JSON texts have moved.
      this.#texts = this.#of.texts(this.#body);
      this.#parts = this.#texts.parts;
    }
    return this.#body;
  }
}

/** Log probabilities repeat the text of an answer token by token: they are removed when the text changes. */
function withoutLogprobs(answer: unknown): unknown {
  if (Array.isArray(answer)) return answer.map(withoutLogprobs);
  if (!isObject(answer) || isExactNumber(answer)) return answer;
  return Object.fromEntries(
    Object.entries(answer).map(([name, value]) => {
      if (name !== 'logprobs') return [name, withoutLogprobs(value)];
      return [name, Array.isArray(value) ? [] : null];
    }),
  );
}
