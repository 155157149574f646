/**
 * The record of one exchange: events are noted as things happen and handed to the log together, just before
 * somebody outside learns of them.
 */
import type { Actor, EventContext, NewEvent, StreamName } from '../../events/event.ts';
import { streamName } from '../../events/event.ts';
import { type AppendStage, type EventLog, type StreamWrite, WrongExpectedRevision } from '../../events/log.ts';
import { wallClock } from '../../events/wall-clock.ts';
import type { Owner } from '../visibility.ts';

const NOTHING = Promise.resolve();
const STAGES = { written: { until: 'written' }, durable: { until: 'durable' } } as const;

/** What is recorded already, of an exchange that is taken up again. */
export interface ContinuedExchange {
  readonly lastRevision: bigint;
  readonly receivedAt: number;
  readonly elapsedMs: number;
  /** Whose request it is. */
  readonly createdBy: Actor;
}

export class ExchangeRecord {
  readonly id: string;
  readonly stream: StreamName;
  readonly context: EventContext;
  /** Whom what the exchange stores belongs to, also after a restart, when the gateway itself goes on with it. */
  readonly owner: Owner;
  readonly startedAt: number;
  /** Milliseconds since the epoch: the time of `request.received`. */
  readonly receivedAt: number;
  readonly #log: Pick<EventLog, 'append'>;
  #noted: NewEvent[] = [];
  #elsewhere: StreamWrite[] = [];
  #revision = -1;
  /** Whether a provider was called for it. */
  called = false;
  #isReceived = false;

  constructor(log: Pick<EventLog, 'append'>, id: string, context: EventContext, begun?: ContinuedExchange) {
    this.#log = log;
    this.id = id;
    this.stream = streamName('exchange', id);
    this.context = context;
    this.owner = { userPath: context.userPath, createdBy: begun?.createdBy ?? context.actor };
    this.startedAt = performance.now() - (begun?.elapsedMs ?? 0);
    this.receivedAt = begun?.receivedAt ?? Math.floor(wallClock());
    if (begun !== undefined) this.#revision = Number(begun.lastRevision);
  }

  /** Milliseconds since the request was received, to a microsecond. */
  elapsed(): number {
    return Math.round((performance.now() - this.startedAt) * 1000) / 1000;
  }

  /** Whether anything is with the log: before that, nobody outside was told of this exchange. */
  get flushed(): boolean {
    return this.#revision >= 0;
  }

  /** Keeps an event for the next `flush`. */
  note(event: NewEvent): void {
    this.#noted.push(event);
  }

  /**
   * Keeps the first event. It bears the time that the objects of the answer carry, however long it is until the log
   * has it: what is read again from the record says the same second.
   */
  noteReceived(event: NewEvent): void {
    this.#isReceived = true;
    this.#noted.push({ ...event, at: this.receivedAt });
  }

  /** Whether the first event is noted or on record. */
  get isReceived(): boolean {
    return this.#isReceived || this.flushed;
  }

  /** Changes the events that are noted and not handed over yet. */
  revise(change: (noted: readonly NewEvent[]) => NewEvent[]): void {
    this.#noted = change(this.#noted);
  }

  /** Keeps a write to another stream, appended in one piece with the events noted here. */
  noteElsewhere(write: StreamWrite): void {
    const at = this.#elsewhere.findIndex(({ stream }) => stream === write.stream);
    const before = this.#elsewhere[at];
    if (before === undefined) this.#elsewhere.push(write);
    else this.#elsewhere[at] = { ...before, events: [...before.events, ...write.events] };
  }

  /** Unix seconds, for objects that carry their time of creation: the same whenever the record is read again. */
  get createdAt(): number {
    return Math.floor(this.receivedAt / 1000);
  }

  /**
   * Hands over what is noted together with a write to another stream, durably, if that stream is where the write
   * expects it; else nothing is recorded and everything stays noted.
   * @throws LogUnavailable
   */
  async flushIf(write: StreamWrite): Promise<boolean> {
    const noted = this.#noted;
    const elsewhere = this.#elsewhere;
    const revision = this.#revision;
    this.#elsewhere = [...elsewhere, write];
    try {
      await this.flush('durable');
      return true;
    } catch (error) {
      if (!(error instanceof WrongExpectedRevision)) throw error;
      this.#noted = noted;
      this.#elsewhere = elsewhere;
      this.#revision = revision;
      return false;
    }
  }

  /** @throws LogUnavailable */
  flush(until: AppendStage): Promise<unknown> {
    if (this.#noted.length === 0 && this.#elsewhere.length === 0) return NOTHING;
    const own: StreamWrite = {
      stream: this.stream,
      events: this.#noted,
      expectedRevision: this.#revision === -1 ? 'noStream' : BigInt(this.#revision),
    };
    const writes = this.#elsewhere.length === 0 ? [own] : [own, ...this.#elsewhere];
    this.#revision += this.#noted.length;
    this.#noted = [];
    this.#elsewhere = [];
    return this.#log.append(writes, STAGES[until]);
  }
}
