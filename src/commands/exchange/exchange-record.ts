/**
 * The record of one exchange: events are noted as things happen and handed to the log together, just before
 * somebody outside learns of them.
 */
import type { EventContext, NewEvent, StreamName } from '../../events/event.ts';
import { streamName } from '../../events/event.ts';
import type { AppendStage, EventLog, StreamWrite } from '../../events/log.ts';

const NOTHING = Promise.resolve();
const STAGES = { written: { until: 'written' }, durable: { until: 'durable' } } as const;

export class ExchangeRecord {
  readonly id: string;
  readonly stream: StreamName;
  readonly context: EventContext;
  readonly startedAt: number;
  readonly #log: EventLog;
  #noted: NewEvent[] = [];
  #elsewhere: StreamWrite[] = [];
  #revision = -1;

  /** @param begun what is recorded already, of an exchange that is taken up again after a crash */
  constructor(log: EventLog, id: string, context: EventContext, begun?: { lastRevision: bigint; elapsedMs: number }) {
    this.#log = log;
    this.id = id;
    this.stream = streamName('exchange', id);
    this.context = context;
    this.startedAt = performance.now() - (begun?.elapsedMs ?? 0);
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

  /** Keeps a write to another stream, appended in one piece with the events noted here. */
  noteElsewhere(write: StreamWrite): void {
    this.#elsewhere.push(write);
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
