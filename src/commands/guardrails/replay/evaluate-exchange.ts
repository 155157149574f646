/** Evaluates one recorded request, and its recorded answer, with the guardrails of a draft. Changes nothing. */

import { exchangeCompleted } from '../../../events/catalogue/exchange.ts';
import { replayVerdicts } from '../../../events/catalogue/guardrail.ts';
import type { RecordedEvent } from '../../../events/event.ts';
import { type EventLog, logWith } from '../../../events/log.ts';
import { createFrameSplitter, type Frame } from '../../../providers/stream-frames.ts';
import type { GuardrailSteps } from '../../exchange/policy.ts';
import type { RecordedExchange } from '../../exchange/record/read-exchange.ts';
import { type ReplayDependencies, replayAnswer } from '../../exchange/record/replay-answer.ts';
import { parseChunk } from '../../model-request/answer-body.ts';
import { guardedBodies } from '../body/guarded-bodies.ts';
import { guardedEvents, type StreamDialect } from '../events/guarded-dialects.ts';
import { CollectedTexts, type StreamEvent } from '../events/guarded-events.ts';
import type { EvaluationContext, GuardrailAction, GuardrailPhase } from '../guardrail-type.ts';
import { type GuardrailRun, mostCollectedBytes, type PhaseStop, responseTooLarge } from '../phases/guardrail-step.ts';
import { type PhaseOutcome, runPhase } from '../phases/run-phase.ts';
import { mustCollect, StreamPhase } from '../phases/stream-phase.ts';
import { Placeholders } from '../placeholders.ts';
import {
  type RecordedPrompt,
  type ReplayedExchange,
  type RequestObstacle,
  recordedPrompt,
} from './recorded-requests.ts';

/** From the strongest to the weakest. */
export { replayVerdicts };

type ReplayVerdict = (typeof replayVerdicts)[number];

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
  readonly phase: GuardrailPhase;
  /** The exchange would go on. */
  readonly goesOn: boolean;
}

interface EvaluationDependencies extends ReplayDependencies {
  /** Awaited between pieces of the work. */
  letOthersWork(): Promise<void>;
}

/** @returns what the guardrails would do, or the reason why the request cannot be evaluated */
export async function evaluateExchange(
  exchange: ReplayedExchange,
  steps: GuardrailSteps,
  deps: EvaluationDependencies,
  signal: AbortSignal,
): Promise<Evaluated | RequestObstacle> {
  const prompt = await recordedPrompt(exchange, deps.archive);
  if (typeof prompt === 'string') return prompt;
  const { dialect, body, lacksEarlierTurns } = prompt;
  const context = contextOf(exchange, signal);
  const of = guardedBodies[dialect].request;
  const before = resultOf(await runPhase({ phase: 'prompt', steps: steps.prompt, body, of, context }), 'prompt');
  await deps.letOthersWork();
  const evaluated = (result: PhaseResult, answerObstacle?: AnswerObstacle): Evaluated => {
    const { goesOn: _goesOn, phase, ...rest } = result;
    return { ...rest, ...(result.verdict !== 'passed' && { phase }), lacksEarlierTurns, answerObstacle };
  };
  if (!before.goesOn) return evaluated(before);
  const answered = await evaluateAnswer({ exchange, prompt }, steps, context, deps);
  if (answered === undefined || typeof answered === 'string') return evaluated(before, answered);
  return evaluated(stronger(before, answered));
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
  readonly prompt: RecordedPrompt;
}

/** Undefined when there is nothing to evaluate. */
async function evaluateAnswer(
  { exchange: { recorded, events }, prompt }: AnswerToEvaluate,
  steps: GuardrailSteps,
  context: EvaluationContext,
  deps: EvaluationDependencies,
): Promise<PhaseResult | AnswerObstacle | undefined> {
  const { dialect, answer } = prompt;
  if (answer === undefined || dialect === 'embeddings') return undefined;
  const { stream } = recorded.request;
  if ((stream ? steps.collected.length + steps.stream.length : steps.response.length) === 0) return undefined;
  if (!isComplete(recorded)) return 'incomplete';
  const read = { ...deps, log: readOnce(deps.log, events) };
  if (!stream) {
    const body = await wholeAnswer(recorded, read, context.signal);
    if (body === undefined) return 'answer_not_recorded';
    return resultOf(
      await runPhase({ phase: 'response', steps: steps.response, body, of: answer, context }),
      'response',
    );
  }
  const answered = new CountedEvents(answerEvents(recorded, read, context.signal), deps);
  const isWhole = steps.collected.length > 0 || mustCollect(steps.stream);
  const result = isWhole
    ? await evaluateCollected(answered, dialect, steps, context)
    : await evaluateLive(answered, dialect, steps, context);
  return answered.count === 0 ? 'answer_not_recorded' : result;
}

/** A stream that is collected: guardrails of the response phase first, then those of the stream phase. */
async function evaluateCollected(
  answered: CountedEvents,
  dialect: StreamDialect,
  { collected, stream }: GuardrailSteps,
  context: EvaluationContext,
): Promise<PhaseResult> {
  const texts = new CollectedTexts();
  const reading = guardedEvents(dialect, texts, new Placeholders());
  for await (const event of answered.all()) {
    if (answered.bytes > mostCollectedBytes) return tooLarge;
    reading.events(event);
  }
  reading.finish();
  const first = { phase: 'response', steps: collected, body: texts.body, of: texts.of, context } as const;
  const outcome = await runPhase(first);
  const before = resultOf(outcome, 'response');
  if (!before.goesOn || stream.length === 0) return before;
  const last = await runPhase({ ...first, phase: 'stream', steps: stream, body: outcome.body });
  return stronger(before, resultOf(last, 'stream'));
}

const tooLarge: PhaseResult = {
  ...{ verdict: 'failed', phase: 'stream', code: responseTooLarge, runs: [], isUnreadable: false, goesOn: false },
};

async function evaluateLive(
  answered: CountedEvents,
  dialect: StreamDialect,
  { stream }: GuardrailSteps,
  context: EvaluationContext,
): Promise<PhaseResult> {
  const phase = new StreamPhase(stream, context);
  const guarded = guardedEvents(dialect, phase, context.placeholders);
  for await (const event of answered.all()) {
    guarded.events(event);
    if (guarded.stop !== undefined) return streamResult(phase.runs(), guarded.stop);
  }
  guarded.finish();
  return streamResult(phase.runs(), guarded.stop);
}

/** Events with other work between them. */
class CountedEvents {
  readonly #events: AsyncIterable<AnswerEvent>;
  readonly #deps: Pick<EvaluationDependencies, 'letOthersWork'>;
  count = 0;
  bytes = 0;

  constructor(events: AsyncIterable<AnswerEvent>, deps: Pick<EvaluationDependencies, 'letOthersWork'>) {
    this.#events = events;
    this.#deps = deps;
  }

  async *all(): AsyncGenerator<StreamEvent> {
    for await (const { event, bytes } of this.#events) {
      this.count += 1;
      this.bytes += bytes;
      yield event;
      await this.#deps.letOthersWork();
    }
  }
}

/** Both results as one. */
function stronger(one: PhaseResult, other: PhaseResult): PhaseResult {
  const isOther = replayVerdicts.indexOf(other.verdict) < replayVerdicts.indexOf(one.verdict);
  return {
    ...(isOther ? other : one),
    goesOn: other.goesOn,
    runs: [...one.runs, ...other.runs],
    isUnreadable: one.isUnreadable || other.isUnreadable,
  };
}

function resultOf({ decision, decidedBy, failed, runs, unreadable }: PhaseOutcome, phase: GuardrailPhase): PhaseResult {
  const facts = { phase, runs, isUnreadable: unreadable.length > 0 };
  if (failed !== undefined) return { ...facts, verdict: 'failed', guardrail: failed, goesOn: false };
  if (decision.action === 'allow') return allowedResult(facts);
  const { action, code } = decision;
  return { ...facts, verdict: verdictOf[action], guardrail: decidedBy, code, goesOn: action === 'warn' };
}

const verdictOf = { warn: 'warned', respond: 'responded', block: 'blocked' } as const satisfies Readonly<
  Record<Exclude<GuardrailAction, 'allow'>, ReplayVerdict>
>;

function allowedResult(facts: Pick<PhaseResult, 'phase' | 'runs' | 'isUnreadable'>): PhaseResult {
  const changing = facts.runs.find(({ edited }) => edited);
  return {
    ...facts,
    verdict: changing === undefined ? 'passed' : 'changed',
    guardrail: changing?.guardrail,
    goesOn: true,
  };
}

function streamResult(runs: readonly GuardrailRun[], stop: PhaseStop | undefined): PhaseResult {
  const facts = { phase: 'stream', runs, isUnreadable: false } as const;
  if (stop !== undefined && 'failed' in stop) {
    return { ...facts, verdict: 'failed', guardrail: stop.failed, goesOn: false };
  }
  if (stop !== undefined && stop.decision.action !== 'allow') {
    const { decision, decidedBy: guardrail } = stop;
    return { ...facts, verdict: verdictOf[decision.action], guardrail, code: decision.code, goesOn: false };
  }
  const warning = runs.find(({ verdict }) => verdict === 'warn');
  if (warning === undefined) return allowedResult(facts);
  return { ...facts, verdict: 'warned', guardrail: warning.guardrail, code: warning.code, goesOn: true };
}

// The recorded answer of a request as its client got it: a whole body, or the events of a stream.

/** Why an answer is not evaluated. */
type AnswerObstacle =
  /** The exchange failed, or its client left. */
  | 'incomplete'
  /** It is not recorded, or it is no JSON. */
  | 'answer_not_recorded';

/** Undefined when it is not on record. */
async function wholeAnswer(
  recorded: RecordedExchange,
  deps: ReplayDependencies,
  signal: AbortSignal,
): Promise<Record<string, unknown> | undefined> {
  const pieces: Buffer[] = [];
  for await (const bytes of answerBytes(recorded, deps, signal)) pieces.push(bytes);
  return parseChunk(Buffer.concat(pieces).toString());
}

/** An event of a stream, and its size. */
interface AnswerEvent {
  readonly event: StreamEvent;
  readonly bytes: number;
}

async function* answerEvents(
  recorded: RecordedExchange,
  deps: ReplayDependencies,
  signal: AbortSignal,
): AsyncGenerator<AnswerEvent> {
  const splitter = createFrameSplitter();
  for await (const bytes of answerBytes(recorded, deps, signal)) yield* eventsIn(splitter.push(bytes));
  const last = splitter.end();
  if (last !== undefined) yield* eventsIn([last]);
}

function isComplete({ end }: RecordedExchange): boolean {
  return end?.type === exchangeCompleted.type;
}

function* eventsIn(frames: readonly Frame[]): Generator<AnswerEvent> {
  for (const { data, raw } of frames) {
    const event = data === undefined ? undefined : parseChunk(data);
    if (event !== undefined) yield { event, bytes: raw.length };
  }
}

async function* answerBytes(
  { id, request, chunks }: RecordedExchange,
  deps: ReplayDependencies,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  if (request.dialect === 'forward') {
    // Such answers are passed on unchanged.
    for (const { body } of chunks)
      if (body !== undefined) yield Buffer.from(body.buffer, body.byteOffset, body.byteLength);
    return;
  }
  for await (const part of replayAnswer(id, deps, signal)) if (part.kind === 'bytes') yield part.bytes;
}

// A log from which the events of one exchange were read already: they are not read again.

/** @param events the whole stream, from its beginning to its end */
function readOnce(log: EventLog, events: readonly RecordedEvent[]): EventLog {
  const stream = events[0]?.stream;
  return logWith(log, {
    readStream: (name, options) =>
      name === stream && options === undefined ? inTurn(events) : log.readStream(name, options),
  });
}

async function* inTurn(events: readonly RecordedEvent[]): AsyncGenerator<RecordedEvent> {
  yield* events;
}
