/**
 * The record of one exchange: events are noted as things happen and appended to the log together, just before their
 * effects are visible outside the gateway.
 */
import * as exchange from '../../events/catalogue/exchange.ts';
import { pluginApplied } from '../../events/catalogue/gateway.ts';
import { frameDelivered, guardrailApplied, placeholdersAssigned } from '../../events/catalogue/guardrail.ts';
import {
  type Actor,
  countEvents,
  type EventContext,
  type NewEvent,
  type StreamName,
  separateEvents,
  streamName,
} from '../../events/event.ts';
import { wallClock } from '../../events/event-id.ts';
import {
  type Appended,
  type AppendStage,
  type EventLog,
  type StreamWrite,
  WrongExpectedRevision,
} from '../../events/log.ts';
import type { Owner } from '../visibility.ts';

const NOTHING: Promise<undefined> = Promise.resolve(undefined);
const STAGES = {
  accepted: { until: 'accepted' },
  written: { until: 'written' },
  durable: { until: 'durable' },
} as const;

/** Events that say nothing of what was to be recorded together with them. */
const HOLD_ALONE: ReadonlySet<string> = new Set(
  [
    ...[exchange.requestReceived, exchange.modelResolved, exchange.attemptFailed, exchange.chunkReceived],
    ...[exchange.historyReplayed, pluginApplied, guardrailApplied, placeholdersAssigned, frameDelivered],
  ].map(({ type }) => type),
);

const USAGE: ReadonlySet<string> = new Set([exchange.usageRecorded.type, exchange.usageDeferred.type]);

/** The recorded facts of an exchange that is resumed. */
interface ContinuedExchange {
  readonly lastRevision: bigint;
  readonly receivedAt: number;
  readonly elapsedMs: number;
  /** The actor who sent the request. */
  readonly createdBy: Actor;
}

/** The trace of an exchange (W3C Trace Context), where traces or their metrics are exported. */
export interface ExchangeTrace {
  /** Names the span of the exchange, whose parent is the client's; the client's own where no traces are exported. */
  readonly traceparent: string | undefined;
  /** For the provider: the span of the attempt is the parent of what it does. */
  headersOf(attempt: number): Readonly<Record<string, string>>;
  /** A step for which the exchange waits has a span. */
  step<Result>(name: string, result: Promise<Result>): Promise<Result>;
  noted(event: NewEvent): void;
}

export class ExchangeRecord {
  readonly id: string;
  readonly stream: StreamName;
  readonly context: EventContext;
  /** The owner of everything that the exchange stores, also when the gateway continues it after a restart. */
  readonly owner: Owner;
  readonly startedAt: number;
  /** Milliseconds since the epoch: the time of `request.received`. */
  readonly receivedAt: number;
  readonly #log: Pick<EventLog, 'append'>;
  #noted: NewEvent[] = [];
  #otherWrites: StreamWrite[] = [];
  #revision = -1;
  /** The events of the last append, and the revision before them. */
  #last: { readonly noted: NewEvent[]; readonly revision: number } | undefined;
  /** Whether a provider was called. */
  called = false;
  /** US dollars of the usage that was noted; undefined when there is none, NaN when a cost is not known. */
  cost: number | undefined;
  /** Whether the first event is noted or recorded. */
  isReceived: boolean;
  /** Undefined where nothing is exported. */
  trace: ExchangeTrace | undefined;
  /** Unix seconds, for objects with a creation time: the same whenever the record is read again. */
  readonly createdAt: number;

  constructor(log: Pick<EventLog, 'append'>, id: string, context: EventContext, begun?: ContinuedExchange) {
    this.#log = log;
    this.id = id;
    this.stream = streamName('exchange', id);
    this.context = context;
    this.owner = { userPath: context.userPath, createdBy: begun?.createdBy ?? context.actor };
    this.startedAt = performance.now() - (begun?.elapsedMs ?? 0);
    this.receivedAt = begun?.receivedAt ?? Math.floor(wallClock());
    this.createdAt = Math.floor(this.receivedAt / 1000);
    this.isReceived = begun !== undefined;
    this.trace = undefined;
    if (begun !== undefined) this.#revision = Number(begun.lastRevision);
  }

  /** Milliseconds since the request was received, to a microsecond. */
  elapsed(): number {
    return Math.round((performance.now() - this.startedAt) * 1000) / 1000;
  }

  /** Whether any event was appended: before that, nothing of this exchange is visible outside. */
  get flushed(): boolean {
    return this.#revision >= 0;
  }

  /** Keeps an event for the next `flush`. */
  note(event: NewEvent): void {
    this.#noted.push(event);
    this.trace?.noted(event);
  }

  /**
   * Keeps the first event. It carries the creation time of the answer's objects, however late it is appended, so that
   * an answer read again from the record has the same second.
   */
  noteReceived(event: NewEvent): void {
    this.isReceived = true;
    this.#noted.push({ ...event, at: this.receivedAt });
    this.trace?.noted(event);
  }

  /** Changes the events that are noted and not yet appended. */
  revise(change: (noted: readonly NewEvent[]) => NewEvent[]): void {
    this.#noted = change(this.#noted);
  }

  /** Keeps a write to another stream, appended atomically with the events noted here. */
  addWrite(write: StreamWrite): void {
    const at = this.#otherWrites.findIndex(({ stream }) => stream === write.stream);
    const before = this.#otherWrites[at];
    if (before === undefined) this.#otherWrites.push(write);
    else this.#otherWrites[at] = { ...before, events: [...before.events, ...write.events] };
  }

  /**
   * Appends the noted events durably together with a write to another stream, if that stream has the expected
   * revision; otherwise nothing is recorded and everything stays noted.
   * @returns whether it was appended
   * @throws LogUnavailable
   */
  async flushIf(write: StreamWrite): Promise<boolean> {
    const noted = this.#noted;
    const otherWrites = this.#otherWrites;
    const revision = this.#revision;
    this.#otherWrites = [...otherWrites, write];
    try {
      await this.flush('durable');
      return true;
    } catch (error) {
      if (!(error instanceof WrongExpectedRevision)) throw error;
      this.#noted = noted;
      this.#otherWrites = otherWrites;
      this.#revision = revision;
      return false;
    }
  }

  /**
   * After an append that was refused as too large, of which nothing is recorded: notes those of its events again that
   * hold without it, and without the bodies for which the next append has no room.
   * @param room bytes of the bodies
   * @returns the usage, to be noted behind the end of the exchange
   */
  withdraw(room: number): NewEvent[] {
    if (this.#last === undefined) return [];
    const { noted: appended, revision } = this.#last;
    const noted = separateEvents([...appended, ...this.#noted]);
    this.#last = undefined;
    this.#revision = revision;
    this.#otherWrites = [];
    let left = room;
    this.#noted = noted
      .filter(({ type }) => HOLD_ALONE.has(type))
      .map((event) => {
        const bytes = event.body?.length ?? 0;
        if (bytes > left) return { ...event, body: undefined };
        left -= bytes;
        return event;
      });
    return noted.filter(({ type }) => USAGE.has(type));
  }

  /** @returns undefined when there was nothing to append. @throws LogUnavailable, EventTooLarge */
  flush(until: AppendStage): Promise<Appended | undefined> {
    if (this.#noted.length === 0 && this.#otherWrites.length === 0) return NOTHING;
    const own: StreamWrite = {
      stream: this.stream,
      events: this.#noted,
      expectedRevision: this.#revision === -1 ? 'noStream' : BigInt(this.#revision),
    };
    const writes = this.#otherWrites.length === 0 ? [own] : [own, ...this.#otherWrites];
    this.#last = { noted: this.#noted, revision: this.#revision };
    this.#revision += countEvents(this.#noted);
    this.#noted = [];
    this.#otherWrites = [];
    return this.#log.append(writes, STAGES[until]);
  }
}
