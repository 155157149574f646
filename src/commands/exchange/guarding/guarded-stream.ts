/**
 * The response stream of an attempt whose answer guardrails evaluate. It reads the events of the client without guardrails, and
 * writes what the client gets: the events of a stream as they arrive, or all of it once it was evaluated as a whole.
 * Everything that it returns for the client is noted as `frame.delivered`, except a whole answer.
 */

import { frameDelivered } from '../../../events/catalogue/guardrail.ts';
import { isObject } from '../../../json/is-object.ts';
import type { Frame } from '../../../providers/stream-frames.ts';
import { type ClientEvent, END_MARKER } from '../../../providers/translate/json.ts';
import { bodyProblem } from '../../guardrails/body/body-problem.ts';
import { restoreValues } from '../../guardrails/body/restore-values.ts';
import { guardedEvents, type StreamDialect } from '../../guardrails/events/guarded-dialects.ts';
import { CollectedTexts, type GuardedEvents, type StreamEvent } from '../../guardrails/events/guarded-events.ts';
import type { GuardrailDecision } from '../../guardrails/guardrail-type.ts';
import {
  eventTooLarge,
  mostCollectedBytes,
  type PhaseStop,
  responseTooLarge,
  type TextPhaseStep,
} from '../../guardrails/phases/guardrail-step.ts';
import { mustCollect, StreamPhase } from '../../guardrails/phases/stream-phase.ts';
import { Placeholders } from '../../guardrails/placeholders.ts';
import type { ModelRequest, ParsedRequest } from '../../model-request/model-request.ts';
import type { Target } from '../../model-request/routing-types.ts';
import { type EarlyEnd, streamIncomplete } from '../../model-request/upstream-refusals.ts';
import { type Refusal, refusals } from '../../refusal.ts';
import type { PastAttempt } from '../dialect.ts';
import type { ExchangeRecord } from '../exchange-record.ts';
import type { Plan } from '../plan.ts';
import {
  AnswerBlocked,
  type AnswerReader,
  type AnswerStream,
  type AnswerWriter,
  bytesOfGiven,
  encode,
  type FrameResult,
  type GuardrailEnd,
  joined,
  type ResponseStream,
  type StreamFinish,
  write,
} from '../response-stream.ts';
import {
  type ExchangeGuard,
  type GuardedAnswers,
  type GuardedEndpoint,
  refusalOfPhase,
  withoutCarried,
} from './exchange-guard.ts';

// The request to one target, whose answer guardrails evaluate.

/** The plan with guarded streams, also where another plan replaces it. */
export function planWithGuard(plan: Plan<AnswerStream>, parts: Omit<GuardedParts, 'unguarded' | 'attempt'>): Plan {
  const guarded = {
    isGuarded: true as const,
    newStream: (attempt: number) => new GuardedStream({ ...parts, attempt, unguarded: plan.newStream(attempt) }),
    instead: (refusal: Refusal) => plan.instead?.(refusal)?.then((other) => planWithGuard(other, parts)),
  };
  // A forwarded JSON answer is evaluated before any of it is sent.
  return plan.kind === 'forward' ? { ...plan, ...guarded, readsWhole: true } : { ...plan, ...guarded };
}

/** The facts of the attempt that the client's answer states. */
export function pastAttempt({
  parsedRequest,
  request,
  target: { provider, model },
  record,
  historyReplayed,
}: {
  readonly parsedRequest: ParsedRequest;
  readonly request: Pick<ModelRequest, 'headers'>;
  readonly target: Target;
  readonly record: Pick<ExchangeRecord, 'id' | 'createdAt'>;
  readonly historyReplayed: boolean;
}): PastAttempt {
  const { id: exchangeId, createdAt } = record;
  return {
    ...{
      parsedRequest,
      clientHeaders: request.headers,
      exchangeId,
      createdAt,
      provider,
      providerType: provider.type,
      model,
    },
    ...{ dialect: 'chat', historyReplayed, now: () => Math.floor(Date.now() / 1000) },
  };
}

interface GuardedParts {
  readonly unguarded: AnswerStream;
  readonly guard: ExchangeGuard;
  readonly bodies: GuardedEndpoint['bodies'];
  readonly answers: GuardedAnswers;
  readonly past: PastAttempt;
  readonly attempt: number;
}

export class GuardedStream implements ResponseStream {
  readonly unguarded: AnswerStream;
  readonly reader: AnswerReader;
  readonly #parts: GuardedParts;
  readonly #guard: ExchangeGuard;
  readonly #writer: AnswerWriter;
  /** The answer of a guardrail in place of the provider's. */
  #given: AnswerWriter | undefined;
  #stream: LiveStream | BufferedStream | undefined;
  /** The client's stream has ended; the rest of the provider's is read for its usage. */
  #isOver = false;
  /** The error that the provider reported by an event. */
  #reported: Refusal | undefined;
  #delivered = 0;
  /** From the terminal frame on: what was written and waits for the end of the exchange. */
  #unnoted: Buffer[] | undefined;
  #isLastNoted = false;
  #isNoted = false;

  constructor(parts: GuardedParts) {
    this.#parts = parts;
    this.unguarded = parts.unguarded;
    this.reader = parts.unguarded.reader;
    this.#guard = parts.guard;
    this.#writer = parts.answers.writer(parts.past);
  }

  get writer(): AnswerWriter {
    return this.#given ?? this.#writer;
  }

  async whole(bytes: Buffer, parsed: unknown): Promise<Buffer> {
    const { bodies, answers, attempt, past } = this.#parts;
    const { steps, placeholders } = this.#guard;
    let answer = this.unguarded.wholeAnswer(bytes, parsed);
    if (bodyProblem(answer, false) !== undefined) {
      const { name } = past.provider;
      throw refusals.badAnswer(name, `The answer of the provider '${name}' is nested too deeply to be evaluated.`);
    }
    answer = withoutCarried(answer);
    if (steps.response.length > 0 && bodies.answer !== undefined) {
      const outcome = await this.#guard.answer('response', steps.response, attempt, {
        body: answer,
        of: bodies.answer,
      });
      const refusal = refusalOfPhase(outcome, 'response');
      if (refusal !== undefined) throw new AnswerBlocked(refusal);
      if (outcome.decision.action === 'respond') {
        const given = answers.ofText(outcome.decision.text, past);
        this.#given = given.stream.writer;
        return bytesOfGiven(given, false);
      }
      answer = outcome.body;
    }
    return Buffer.from(JSON.stringify(this.#writer.writeWhole(restoreValues(answer, placeholders))));
  }

  frame(frame: Frame): FrameResult {
    const { events: read, ...outcome } = this.unguarded.eventsIn(frame);
    if (this.#isOver) return { terminal: true };
    if (read === undefined) return outcome;
    const stream = this.#openStream();
    const events = this.#evaluable(read);
    if (stream instanceof BufferedStream) {
      const tooLarge = stream.take(events, frame.raw.length);
      return tooLarge === undefined ? outcome : this.#stopped([], { refusal: tooLarge, isFailure: true });
    }
    if (outcome.terminal) this.#unnoted ??= [];
    const written = stream.events(events, outcome.terminal);
    if (stream.stop !== undefined) return this.#stoppedBy(stream, stream.stop, written);
    return { ...outcome, bytes: this.#write(written) };
  }

  finish(): StreamFinish | Promise<StreamFinish> {
    const { events, cut } = this.unguarded.writer.finish();
    this.#noteLast();
    if (this.#isOver) return { cut: false };
    const stream = this.#openStream();
    const last = this.#evaluable(events);
    if (stream instanceof BufferedStream) return cut ? this.#cut() : this.#evaluated(stream, last);
    const retained = cut ? stream.finish() : [];
    const written = [...retained, ...stream.events(last, true), ...(cut ? [] : stream.finish())];
    if (stream.stop !== undefined) return { ...this.#stoppedBy(stream, stream.stop, written), cut: false };
    this.#noteStream(stream);
    return cut ? { bytes: this.#write(written), cut, reported: this.#reported } : this.#closed(this.#write(written));
  }

  broken(refusal: Refusal): Buffer | undefined {
    this.#noteLast();
    const rest = this.#interrupted();
    return joined([...rest, ...pieces(this.#encode(this.#writer.broken(refusal)))]);
  }

  abandon(end: EarlyEnd): Buffer | undefined {
    this.#noteLast();
    const rest = this.#interrupted();
    return joined([...rest, ...pieces(this.#encode(this.#writer.abandon(end)))]);
  }

  #openStream(): LiveStream | BufferedStream {
    if (this.#stream !== undefined) return this.#stream;
    const { steps, placeholders, context } = this.#guard;
    if (steps.collected.length > 0 || mustCollect(steps.stream)) this.#stream = new BufferedStream();
    else {
      const phase = new StreamPhase(steps.stream, context);
      this.#stream = new LiveStream(this.#parts.answers.stream, phase, placeholders, steps.stream.length > 0);
    }
    return this.#stream;
  }

  /** Copies, since the reader changes its events. Without the end marker, which the writer adds. */
  #evaluable(events: readonly ClientEvent[]): StreamEvent[] {
    return events.flatMap((given) => {
      const event = given === END_MARKER ? undefined : withoutCarried(given);
      if (!isObject(event)) return [];
      if (event['type'] === 'error') this.#reported ??= this.#failureIn(event);
      return [event];
    });
  }

  /** The `error` event of a response stream. */
  #failureIn(event: StreamEvent): Refusal {
    const { provider } = this.#parts.past;
    const { message, code } = isObject(event['error']) ? event['error'] : event;
    const said = typeof message === 'string' ? message : `The provider '${provider.name}' reported an error.`;
    return refusals.badAnswer(provider.name, said, typeof code === 'string' ? code : undefined);
  }

  /** Evaluates a stream that was collected: guardrails of the response phase first, then those of the stream phase. */
  async #evaluated(stream: BufferedStream, last: readonly StreamEvent[]): Promise<StreamFinish> {
    const { attempt, answers } = this.#parts;
    const { steps, placeholders } = this.#guard;
    stream.take(last, 0);
    const texts = new CollectedTexts();
    const reading = guardedEvents(answers.stream, texts, new Placeholders());
    for (const event of stream.collected) reading.events(event);
    reading.finish();
    let body: unknown = texts.body;
    for (const [phase, some] of [
      ['response', steps.collected],
      ['stream', steps.stream],
    ] as const) {
      if (some.length === 0) continue;
      const outcome = await this.#guard.answer(phase, some, attempt, { body, of: texts.of });
      const refusal = refusalOfPhase(outcome, phase);
      if (refusal !== undefined) {
        const end = { refusal, isFailure: outcome.decision.action !== 'block' };
        return { bytes: this.#ending(end), cut: false, guardrail: end };
      }
      if (outcome.decision.action === 'respond') return { bytes: this.#respond(outcome.decision), cut: false };
      body = outcome.body;
    }
    const writing = guardedEvents(answers.stream, texts.written(body, placeholders), placeholders);
    const events = [...stream.collected.flatMap((event) => writing.events(event)), ...writing.finish()];
    return this.#closed(this.#write(events));
  }

  /** The provider's stream broke before it could be evaluated: nothing of it is sent. */
  #cut(): StreamFinish {
    return {
      bytes: this.#encode(this.#writer.broken(streamIncomplete(this.#parts.past.provider.name))),
      cut: true,
      reported: this.#reported,
    };
  }

  #closed(written: Buffer | undefined): StreamFinish {
    const { events, cut } = this.#writer.finish();
    return { bytes: joined([...pieces(written), ...pieces(this.#encode(events))]), cut };
  }

  /** A guardrail ended the stream as it arrived. @param before the events before its end */
  #stoppedBy(stream: LiveStream, stop: PhaseStop, before: readonly StreamEvent[]): FrameResult {
    const failed = 'failed' in stop ? stop.failed : undefined;
    this.#noteStream(stream, failed);
    if ('failed' in stop) {
      return this.#stopped([...stream.release(), ...before], {
        refusal: refusals.guardrailFailed(stop.failed),
        isFailure: true,
      });
    }
    const { decision } = stop;
    if (decision.action === 'respond' && stream.isWithheld) {
      this.#isOver = true;
      this.#unnoted ??= [];
      return { bytes: this.#respond(decision), terminal: true };
    }
    const refusal =
      refusalOfPhase({ decision: asBlock(decision), failed: undefined }, 'stream') ?? refusals.internal(stop);
    return this.#stopped([...stream.release(), ...before], { refusal, isFailure: false });
  }

  #stopped(before: readonly StreamEvent[], guardrail: GuardrailEnd): FrameResult {
    this.#isOver = true;
    this.#unnoted ??= [];
    const written = pieces(this.#write(before));
    return { bytes: joined([...written, ...pieces(this.#ending(guardrail))]), terminal: true, guardrail };
  }

  /** The end of a stream of which something was sent. */
  #ending({ refusal, isFailure }: GuardrailEnd): Buffer | undefined {
    return this.#encode(isFailure ? this.#writer.broken(refusal) : (this.#writer.filtered?.() ?? []));
  }

  #respond({ text }: Extract<GuardrailDecision, { action: 'respond' }>): Buffer {
    const given = this.#parts.answers.ofText(text, this.#parts.past);
    this.#given = given.stream.writer;
    const bytes = bytesOfGiven(given, true);
    this.#noted(bytes);
    return bytes;
  }

  /** The text that is still retained is lost with the rest of the answer. */
  #interrupted(): readonly Buffer[] {
    const stream = this.#stream;
    if (!(stream instanceof LiveStream) || this.#isOver) return [];
    this.#noteStream(stream);
    return pieces(this.#write(stream.release()));
  }

  #noteStream(stream: LiveStream, failed?: string): void {
    if (this.#isNoted) return;
    this.#isNoted = true;
    const { phase } = stream;
    this.#guard.noteStream(this.#parts.attempt, phase.runs(), phase.warnings, failed);
  }

  #write(events: readonly StreamEvent[]): Buffer | undefined {
    return this.#noted(write(events, this.#writer));
  }

  #encode(events: readonly ClientEvent[]): Buffer | undefined {
    return this.#noted(encode(events, this.#writer));
  }

  /**
   * Bytes that wait for the end of the exchange are noted with it: after a crash in between, the record has no end that
   * no client has received.
   */
  #noted(bytes: Buffer | undefined): Buffer | undefined {
    if (bytes === undefined) return undefined;
    if (this.#unnoted !== undefined && !this.#isLastNoted) this.#unnoted.push(bytes);
    else this.#note(bytes);
    return bytes;
  }

  #noteLast(): void {
    this.#isLastNoted = true;
    for (const bytes of this.#unnoted ?? []) this.#note(bytes);
    this.#unnoted = [];
  }

  #note(bytes: Buffer): void {
    const { record, keepBodies } = this.#guard;
    if (!keepBodies) return;
    const data = { attempt: this.#parts.attempt, index: this.#delivered };
    record.note(frameDelivered.create(data, record.context, bytes));
    this.#delivered += 1;
  }
}

/** Text of the answer has been sent, so an answer in its place ends the stream like a block. */
function asBlock(decision: GuardrailDecision): GuardrailDecision {
  if (decision.action !== 'respond') return decision;
  const { code, message = 'A guardrail ended the answer.' } = decision;
  return { action: 'block', code, message };
}

function pieces(bytes: Buffer | undefined): readonly Buffer[] {
  return bytes === undefined ? [] : [bytes];
}

/** A stream that guardrails evaluate as it arrives, or after all of it was collected. */
class LiveStream {
  readonly phase: StreamPhase;
  readonly #events: GuardedEvents;
  /** Events before the first text: while they are withheld, a guardrail can still answer with an error. */
  #withheld: StreamEvent[] | undefined;
  #hasText = false;

  /** @param withholds whether a guardrail may end the stream */
  constructor(dialect: StreamDialect, phase: StreamPhase, placeholders: Placeholders, withholds: boolean) {
    this.phase = phase;
    const noted = (step: TextPhaseStep) => {
      if (step.text !== '') this.#hasText = true;
      return step;
    };
    const texts = {
      push: (...given: Parameters<StreamPhase['push']>) => noted(phase.push(...given)),
      end: (...given: Parameters<StreamPhase['end']>) => noted(phase.end(...given)),
    };
    this.#events = guardedEvents(dialect, texts, placeholders);
    if (withholds) this.#withheld = [];
  }

  get stop(): PhaseStop | undefined {
    return this.#events.stop;
  }

  /** Whether nothing was returned yet. */
  get isWithheld(): boolean {
    return this.#withheld !== undefined;
  }

  events(events: readonly StreamEvent[], isLast: boolean): readonly StreamEvent[] {
    const written = events.flatMap((event) => this.#events.events(event));
    if (this.#withheld === undefined) return written;
    this.#withheld.push(...written);
    return this.#hasText || (isLast && this.stop === undefined) ? this.release() : [];
  }

  finish(): readonly StreamEvent[] {
    return [...this.release(), ...this.#events.finish()];
  }

  release(): readonly StreamEvent[] {
    const withheld = this.#withheld ?? [];
    this.#withheld = undefined;
    return withheld;
  }
}

class BufferedStream {
  readonly collected: StreamEvent[] = [];
  #bytes = 0;

  /** @returns the refusal of an answer that is too large to be collected */
  take(events: readonly StreamEvent[], bytes: number): Refusal | undefined {
    this.#bytes += bytes;
    if (bytes > mostCollectedBytes) return refusals.answerTooLargeToCheck(eventTooLarge, mostCollectedBytes);
    if (this.#bytes > mostCollectedBytes) return refusals.answerTooLargeToCheck(responseTooLarge, mostCollectedBytes);
    for (const event of events) this.collected.push(event);
    return undefined;
  }
}
