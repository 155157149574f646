/** Evaluates one recorded request, and its recorded answer, with the guardrails of a draft. Changes nothing. */
import { replayVerdicts } from '../../../events/catalogue/guardrail-replay.ts';
import type { ReplayDependencies } from '../../exchange/record/replay-answer.ts';
import { type GuardedDialect, guardedBodies } from '../body/guarded-bodies.ts';
import { guardedEvents, type StreamDialect } from '../events/guarded-dialects.ts';
import type { GuardrailAction } from '../guardrail-decision.ts';
import type { EvaluationContext, GuardrailPhase } from '../guardrail-type.ts';
import type { GuardrailRun } from '../phases/guardrail-step.ts';
import { responseTooLarge } from '../phases/phase-refusal.ts';
import { type PhaseOutcome, runPhase } from '../phases/run-phase.ts';
import { mustCollect, StreamPhase } from '../phases/stream-phase.ts';
import { Placeholders } from '../placeholders.ts';
import { collectedStream, collectStream } from './collected-stream.ts';
import type { ReplayChains } from './draft.ts';
import { readOnce } from './read-once.ts';
import { type AnswerObstacle, answerEvents, isComplete, wholeAnswer } from './recorded-answer.ts';
import { type RequestObstacle, recordedPrompt } from './recorded-prompt.ts';
import type { ReplayedExchange } from './recorded-requests.ts';

/** From the strongest to the weakest. */
export { replayVerdicts };
export type ReplayVerdict = (typeof replayVerdicts)[number];

export interface Evaluated {
  readonly verdict: ReplayVerdict;
  /** The guardrail that decided, its phase and its code. */
  readonly guardrail?: string | undefined;
  readonly phase?: GuardrailPhase | undefined;
  readonly code?: string | undefined;
  readonly runs: readonly GuardrailRun[];
  readonly lacksEarlierTurns: boolean;
  /** Some members cannot be read by guardrails. */
  readonly isUnreadable: boolean;
  /** Why guardrails of the draft did not evaluate the answer; undefined when they did, or when there are none. */
  readonly answerObstacle?: AnswerObstacle | undefined;
}

interface PhaseResult extends Pick<Evaluated, 'verdict' | 'guardrail' | 'code' | 'runs' | 'isUnreadable'> {
  /** The exchange would go on. */
  readonly goesOn: boolean;
}

export interface EvaluationDependencies extends ReplayDependencies {
  /** Awaited between pieces of the work. */
  letOthersWork(): Promise<void>;
}

/** @returns what the guardrails would do, or the reason why the request cannot be evaluated */
export async function evaluateExchange(
  exchange: ReplayedExchange,
  chains: ReplayChains,
  deps: EvaluationDependencies,
  signal: AbortSignal,
): Promise<Evaluated | RequestObstacle> {
  const prompt = await recordedPrompt(exchange, deps.archive);
  if (typeof prompt === 'string') return prompt;
  const { dialect, body, lacksEarlierTurns } = prompt;
  const context = contextOf(exchange, signal);
  const outcome = await runPhase({
    phase: 'prompt',
    steps: chains.prompt,
    body,
    of: guardedBodies[dialect].request,
    context,
  });
  const before = resultOf(outcome);
  const started = { ...before, lacksEarlierTurns, ...(before.verdict !== 'passed' && { phase: 'prompt' as const }) };
  await deps.letOthersWork();
  if (!before.goesOn) return started;
  const phase = exchange.recorded.request.stream ? 'stream' : 'response';
  const answered = await evaluateAnswer({ exchange, dialect, phase }, chains, context, deps);
  if (answered === undefined) return started;
  if (typeof answered === 'string') return { ...started, answerObstacle: answered };
  const isStronger = replayVerdicts.indexOf(answered.verdict) < replayVerdicts.indexOf(before.verdict);
  return {
    ...(isStronger ? { ...answered, phase } : started),
    lacksEarlierTurns,
    runs: [...before.runs, ...answered.runs],
    isUnreadable: before.isUnreadable || answered.isUnreadable,
  };
}

function contextOf({ recorded, target }: ReplayedExchange, signal: AbortSignal): EvaluationContext {
  const { received, request, id } = recorded;
  return {
    requestId: received.context.requestId ?? id,
    userPath: received.context.userPath ?? '/',
    model: target?.model ?? request.model ?? '',
    provider: target?.provider ?? '',
    labels: request.labels ?? [],
    now: new Date(received.at),
    signal,
    placeholders: new Placeholders(),
  };
}

interface AnswerToEvaluate {
  readonly exchange: ReplayedExchange;
  readonly dialect: GuardedDialect;
  readonly phase: 'response' | 'stream';
}

/** Undefined when there is nothing to evaluate. */
async function evaluateAnswer(
  { exchange: { recorded, events: recordedEvents }, dialect, phase }: AnswerToEvaluate,
  { [phase]: steps }: ReplayChains,
  context: EvaluationContext,
  deps: EvaluationDependencies,
): Promise<PhaseResult | AnswerObstacle | undefined> {
  const { answer } = guardedBodies[dialect];
  if (answer === undefined || dialect === 'embeddings' || steps.length === 0) return undefined;
  if (!isComplete(recorded)) return 'incomplete';
  const { signal } = context;
  const read = { ...deps, log: readOnce(deps.log, recordedEvents) };
  if (phase === 'response') {
    const body = await wholeAnswer(recorded, read, signal);
    if (body === undefined) return 'answer_not_recorded';
    return resultOf(await runPhase({ phase, steps, body, of: answer, context }));
  }
  const events = counted(answerEvents(recorded, read, signal), deps);
  if (mustCollect(steps)) {
    const body = await collectStream(events, dialect, context);
    if (body === undefined) {
      return { verdict: 'failed', code: responseTooLarge, runs: [], isUnreadable: false, goesOn: false };
    }
    if (events.count() === 0) return 'answer_not_recorded';
    return resultOf(await runPhase({ phase, steps, body, of: collectedStream, context }));
  }
  const stream = new StreamPhase(steps, context);
  const stop = await passed(events, dialect, stream, context);
  if (events.count() === 0) return 'answer_not_recorded';
  return streamResult(stream.runs(), stop);
}

async function passed(
  events: AsyncIterable<Readonly<Record<string, unknown>>>,
  dialect: StreamDialect,
  stream: StreamPhase,
  { placeholders }: EvaluationContext,
) {
  const guarded = guardedEvents(dialect, stream, placeholders);
  for await (const event of events) {
    guarded.events(event);
    if (guarded.stop !== undefined) return guarded.stop;
  }
  guarded.finish();
  return guarded.stop;
}

/** The events with other work between them, and their number so far. */
function counted<Event>(events: AsyncIterable<Event>, { letOthersWork }: EvaluationDependencies) {
  let count = 0;
  async function* all(): AsyncGenerator<Event> {
    for await (const event of events) {
      count += 1;
      yield event;
      await letOthersWork();
    }
  }
  return { [Symbol.asyncIterator]: all, count: () => count };
}

function resultOf({ decision, decidedBy, failed, runs, unreadable }: PhaseOutcome): PhaseResult {
  const isUnreadable = unreadable.length > 0;
  if (failed !== undefined) return { verdict: 'failed', guardrail: failed, runs, isUnreadable, goesOn: false };
  const { action } = decision;
  if (action === 'allow') return { ...allowedResult(runs), isUnreadable };
  const { code } = decision;
  return { verdict: verdictOf[action], guardrail: decidedBy, code, runs, isUnreadable, goesOn: action === 'warn' };
}

const verdictOf = { warn: 'warned', respond: 'responded', block: 'blocked' } as const satisfies Readonly<
  Record<Exclude<GuardrailAction, 'allow'>, ReplayVerdict>
>;

function allowedResult(runs: readonly GuardrailRun[]): PhaseResult {
  const changing = runs.find(({ edited }) => edited);
  const verdict = changing === undefined ? 'passed' : 'changed';
  return { verdict, guardrail: changing?.guardrail, runs, isUnreadable: false, goesOn: true };
}

function streamResult(runs: readonly GuardrailRun[], stop: ReturnType<StreamPhase['push']>['stop']): PhaseResult {
  if (stop !== undefined && 'failed' in stop) {
    return { verdict: 'failed', guardrail: stop.failed, runs, isUnreadable: false, goesOn: false };
  }
  if (stop !== undefined && stop.decision.action !== 'allow') {
    const { decision, decidedBy: guardrail } = stop;
    return {
      verdict: verdictOf[decision.action],
      guardrail,
      code: decision.code,
      runs,
      isUnreadable: false,
      goesOn: false,
    };
  }
  const warning = runs.find(({ verdict }) => verdict === 'warn');
  if (warning === undefined) return allowedResult(runs);
  return {
    verdict: 'warned',
    guardrail: warning.guardrail,
    code: warning.code,
    runs,
    isUnreadable: false,
    goesOn: true,
  };
}
