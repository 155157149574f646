/**
 * Runs the guardrails of the stream phase on the texts of one answer as they arrive, and restores the values of
 * placeholders last. For any division into pieces the client gets the guardrails applied to the whole text.
 */
import {
  allowed,
  type EvaluationContext,
  type GuardrailDecision,
  outweighs,
  type StreamChannel,
  type StreamGuardrail,
  type StreamStep,
} from '../guardrail-type.ts';
import type { Placeholders } from '../placeholders.ts';
import { placeholderFinder } from '../text/finder.ts';
import { ChannelStages } from '../text/json-text.ts';
import { StreamRewriter } from '../text/stream-rewriter.ts';
import {
  type GuardrailRun,
  type GuardrailStep,
  orderedSteps,
  type TextPhase,
  type TextPhaseStep,
} from './guardrail-step.ts';

/** Whether the answer must be collected and given to `runPhase`: a step of the stream phase cannot read pieces. */
export function mustCollect(steps: readonly GuardrailStep[]): boolean {
  return steps.some(({ guardrail }) => guardrail.openStream === undefined);
}

interface OpenStep {
  readonly step: GuardrailStep;
  readonly stream: StreamGuardrail;
  decision: GuardrailDecision;
  error: string | undefined;
  nanoseconds: number;
  edited: boolean;
}

export class StreamPhase implements TextPhase {
  readonly #steps: readonly OpenStep[];
  readonly #restored: ChannelStages | undefined;
  readonly #warnings = new Set<string>();
  #isStopped = false;

  /** @param steps for which `mustCollect` is false; empty when only values are restored */
  constructor(steps: readonly GuardrailStep[], context: EvaluationContext) {
    this.#steps = orderedSteps(steps)
      .flat()
      .map((step) => ({
        step,
        stream: opened(step, context),
        decision: allowed,
        error: undefined,
        nanoseconds: 0,
        edited: false,
      }));
    this.#restored = restoredTexts(context.placeholders);
  }

  push(channel: StreamChannel, text: string): TextPhaseStep {
    return this.#pass(channel, text, false);
  }

  end(channel: StreamChannel): TextPhaseStep {
    return this.#pass(channel, '', true);
  }

  /** The codes of the warnings so far. */
  get warnings(): readonly string[] {
    return [...this.#warnings];
  }

  /** One record for each step. */
  runs(): GuardrailRun[] {
    return this.#steps.map(({ step, stream, decision, error, nanoseconds, edited }) => {
      const findings = stream.findings?.();
      const isFound = findings !== undefined && Object.keys(findings).length > 0;
      return {
        phase: 'stream',
        step: step.step,
        guardrail: step.name,
        type: step.type,
        verdict: error === undefined ? decision.action : 'failure',
        ...(decision.action !== 'allow' && { code: decision.code, message: decision.message }),
        ...(error !== undefined && { error, failMode: step.failMode }),
        edited,
        ...(isFound && { findings }),
        durationNs: nanoseconds,
      };
    });
  }

  #pass(channel: StreamChannel, given: string, isEnd: boolean): TextPhaseStep {
    if (this.#isStopped) return { text: '' };
    let text = given;
    let stop: TextPhaseStep['stop'];
    for (const open of this.#steps) {
      const { name } = open.step;
      const step = this.#evaluate(open, channel, text, isEnd);
      // A guardrail that fails may retain text, so the stream cannot go on whatever the fail mode is.
      if (step === undefined) {
        this.#isStopped = true;
        return { text: '', stop: { failed: name } };
      }
      text = step.text;
      const { decision } = step;
      if (decision === undefined) continue;
      if (decision.action === 'warn') this.#warnings.add(decision.code);
      if (outweighs(decision, open.decision)) open.decision = decision;
      // The steps after it still read the text before the match.
      if (decision.action === 'block' || decision.action === 'respond') stop ??= { decision, decidedBy: name };
    }
    if (this.#restored !== undefined) {
      text = text === '' ? '' : this.#restored.push(channel, text);
      if (isEnd) text += this.#restored.end(channel);
    }
    if (stop === undefined) return { text };
    this.#isStopped = true;
    return { text, stop };
  }

  #evaluate(open: OpenStep, channel: StreamChannel, text: string, isEnd: boolean): StreamStep | undefined {
    const started = performance.now();
    try {
      const pushed: StreamStep = text === '' ? { text: '' } : open.stream.push(channel, text);
      const last: StreamStep = isEnd ? open.stream.end(channel) : { text: '' };
      const joined = pushed.text + last.text;
      const decision = pushed.decision ?? last.decision;
      open.edited ||= joined !== text && Object.keys(open.stream.findings?.() ?? {}).length > 0;
      return { text: joined, decision };
    } catch (error) {
      open.error = error instanceof Error ? error.message : String(error);
      return undefined;
    } finally {
      open.nanoseconds += Math.round((performance.now() - started) * 1e6);
    }
  }
}

function opened({ name, guardrail }: GuardrailStep, context: EvaluationContext): StreamGuardrail {
  const stream = guardrail.openStream?.(context);
  if (stream === undefined) throw new Error(`the guardrail '${name}' reads whole answers only`);
  return stream;
}

/** Undefined when there is nothing to restore. */
export function restoredTexts(placeholders: Placeholders): ChannelStages | undefined {
  if (placeholders.size === 0) return undefined;
  const finder = placeholderFinder(placeholders);
  return new ChannelStages(() => new StreamRewriter(finder, ({ value }) => value));
}
