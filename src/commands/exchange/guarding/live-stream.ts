/** A stream that guardrails evaluate as it arrives, or after all of it was collected. */
import { guardedEvents, type StreamDialect } from '../../guardrails/events/guarded-dialects.ts';
import type { GuardedEvents, StreamEvent } from '../../guardrails/events/guarded-events.ts';
import { eventTooLarge, mostCollectedBytes, responseTooLarge } from '../../guardrails/phases/phase-refusal.ts';
import type { StreamPhase } from '../../guardrails/phases/stream-phase.ts';
import type { PhaseStop, TextPhaseStep } from '../../guardrails/phases/text-phase.ts';
import type { Placeholders } from '../../guardrails/placeholders.ts';
import { type Refusal, refusals } from '../../refusal.ts';

export class LiveStream {
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

export class BufferedStream {
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
