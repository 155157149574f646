/** One run of one guardrail with its time limit. */
import type { TextPart } from '../guarded-text.ts';
import type { CompiledGuardrail, EvaluationContext, GuardrailPhase, GuardrailResult } from '../guardrail-type.ts';
import type { GuardrailRun, GuardrailStep } from './guardrail-step.ts';

export interface GuardrailOutcome {
  readonly run: GuardrailRun;
  /** Undefined when the guardrail failed. */
  readonly result?: GuardrailResult;
  /** The failure ends the request: the guardrail fails closed, or changes texts and did not end in time. */
  readonly fatal: boolean;
}

/** Never throws and never rejects. */
export async function evaluateStep(
  step: GuardrailStep,
  phase: GuardrailPhase,
  parts: readonly TextPart[],
  context: EvaluationContext,
): Promise<GuardrailOutcome> {
  const started = process.hrtime.bigint();
  const base = () => ({
    phase,
    step: step.step,
    guardrail: step.name,
    type: step.type,
    durationNs: Number(process.hrtime.bigint() - started),
  });
  try {
    const result = await limited(step, context, (within) => evaluation(step, phase, parts, within));
    const { decision, findings } = result;
    const run: GuardrailRun = {
      ...base(),
      verdict: decision.action,
      ...(decision.action !== 'allow' && { code: decision.code, message: decision.message }),
      edited: (result.texts?.size ?? 0) > 0 || result.system !== undefined || result.headers !== undefined,
      ...(findings !== undefined && { findings }),
    };
    return { run, result, fatal: false };
  } catch (error) {
    const { failMode } = step;
    const isLate = error instanceof GuardrailTimeout;
    const message = error instanceof Error ? error.message : String(error);
    const run: GuardrailRun = { ...base(), verdict: 'failure', error: message, failMode, edited: false };
    return { run, fatal: failMode === 'closed' || (isLate && step.mutating) };
  }
}

export class GuardrailTimeout extends Error {
  override readonly name = 'GuardrailTimeout';
}

function evaluation(
  { name, guardrail }: GuardrailStep,
  phase: GuardrailPhase,
  parts: readonly TextPart[],
  context: EvaluationContext,
): GuardrailResult | Promise<GuardrailResult> {
  const result = guardrail[hookOf(phase, guardrail)]?.(parts, context);
  if (result === undefined) throw new Error(`the guardrail '${name}' cannot run in the ${phase} phase`);
  return result;
}

/** A collected stream is a whole answer, unless the guardrail has rules of its own for streams. */
function hookOf(phase: GuardrailPhase, { stream }: CompiledGuardrail): GuardrailPhase {
  return phase === 'stream' && stream === undefined ? 'response' : phase;
}

/** Rejects when the time is over. What the guardrail calls is aborted; a result that comes later is ignored. */
function limited(
  { timeoutMs }: GuardrailStep,
  context: EvaluationContext,
  evaluate: (context: EvaluationContext) => GuardrailResult | Promise<GuardrailResult>,
): GuardrailResult | Promise<GuardrailResult> {
  if (timeoutMs === 0) return evaluate(context);
  const late = new AbortController();
  const result = evaluate({ ...context, signal: AbortSignal.any([context.signal, late.signal]) });
  if (!(result instanceof Promise)) return result;
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      const timeout = new GuardrailTimeout(`no decision within ${timeoutMs} ms`);
      reject(timeout);
      late.abort(timeout);
    }, timeoutMs);
    result.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
