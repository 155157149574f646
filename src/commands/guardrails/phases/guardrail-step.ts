/** A guardrail in a workflow, and the record of one run of it. */
import type {
  CompiledGuardrail,
  EvaluationContext,
  GuardrailAction,
  GuardrailDecision,
  GuardrailPhase,
  GuardrailResult,
  StreamChannel,
  TextPart,
} from '../guardrail-type.ts';

export interface GuardrailStep {
  /** The name of the instance. */
  readonly name: string;
  readonly type: string;
  /** Ascending; steps with the same number run at the same time. */
  readonly step: number;
  readonly failMode: 'closed' | 'open';
  /** 0: without limit. */
  readonly timeoutMs: number;
  /** Whether it changes texts, as it is configured. */
  readonly mutating: boolean;
  readonly guardrail: CompiledGuardrail;
}

/** One run, for the record of the exchange. Contains no text of the request and no value that was found. */
export interface GuardrailRun {
  readonly phase: GuardrailPhase;
  readonly step: number;
  readonly guardrail: string;
  readonly type: string;
  readonly verdict: GuardrailAction | 'failure';
  readonly code?: string;
  readonly message?: string;
  /** Of a failure. */
  readonly error?: string;
  readonly failMode?: 'closed' | 'open';
  /** Whether texts, the system text or headers changed. */
  readonly edited: boolean;
  readonly findings?: Readonly<Record<string, number>>;
  readonly durationNs: number;
}

/** The steps in their order, those that run together in one list. */
export function orderedSteps(steps: readonly GuardrailStep[]): readonly (readonly GuardrailStep[])[] {
  const groups = Map.groupBy(steps, ({ step }) => step);
  return [...groups].sort(([one], [other]) => one - other).map(([, together]) => together);
}

/** One run of one guardrail with its time limit. */
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

/** Rewrites the texts of one streamed answer as they arrive. */
export interface TextPhaseStep {
  /** For the client. */
  readonly text: string;
  /** Set once: the stream ends here. The text is sent before. */
  readonly stop?: PhaseStop;
}

/** Why a guardrail ended a stream. */
export type PhaseStop =
  | { readonly decision: GuardrailDecision; readonly decidedBy: string }
  /** The guardrail that failed. */
  | { readonly failed: string };

export interface TextPhase {
  push(channel: StreamChannel, text: string): TextPhaseStep;
  /** The text of the channel is complete: returns what was retained. */
  end(channel: StreamChannel): TextPhaseStep;
}

/** What the client gets when guardrails decide: statuses, codes and headers. */
export const guardrailHeader = 'x-chancery-guardrail';

/** Bytes of a stream that are kept while a guardrail reads the whole answer, and of one event. */
export const mostCollectedBytes = 4 * 1024 * 1024;
export const responseTooLarge = 'response_too_large';
export const eventTooLarge = 'event_too_large';

export function blockStatus(decision: Extract<GuardrailDecision, { action: 'block' }>, phase: GuardrailPhase): number {
  return decision.status ?? (phase === 'prompt' ? 400 : 422);
}

/** The value of `guardrailHeader`; undefined without warnings. */
export function warningHeader(codes: readonly string[]): string | undefined {
  return codes.length === 0 ? undefined : codes.map((code) => `warn; code=${code}`).join(', ');
}
