/**
 * Everything that the live list knows: rows, gaps, position and rate. The tab that reads the stream applies events; the
 * other tabs apply the changes that it posts. Both hold the same state afterwards.
 *
 * A connection without a cursor, and a `reset`, begin with the requests in flight. What was in flight before and is not
 * any more has ended in the gap; its end comes from the audit log.
 */
import { addEvents, type EventRate, noEvents } from './event-rate.ts';
import {
  isBefore,
  type LiveEvent,
  type LogPosition,
  type RequestPreview,
  type UsageEntry,
  type UsageTotals,
} from './live-event.ts';
import { addUsage, advanceRow, isOpen, type LiveRow, recordedRow } from './live-row.ts';
import { RowList } from './row-list.ts';

/** A part of the log whose events were not sent. */
export interface Gap {
  readonly id: string;
  /** Milliseconds since the epoch: the last event before, and the connection after it. */
  readonly from: number;
  readonly to: number;
  /** The end of the gap in the log; undefined until the connection after it has begun. */
  readonly until?: LogPosition;
  /** `loading` until the audit log was read; `partial`: it has more requests than were read, or could not be read. */
  readonly state: 'loading' | 'loaded' | 'partial';
  /** Requests that were added from the audit log. */
  readonly found: number;
  /** Why it is partial. */
  readonly message?: string;
}

export interface Changes {
  readonly rows: readonly LiveRow[];
  /** All gaps; undefined when none changed. */
  readonly gaps?: readonly Gap[];
}

/** A connection that has not sent all requests in flight yet. */
interface Beginning {
  /** Events after this time may be missing. */
  readonly from: number;
  readonly gapId: string | undefined;
  readonly inFlight: Set<string>;
}

export const DEFAULT_CAPACITY = 5_000;
/** Gaps that are kept; the oldest go first. */
const MAX_GAPS = 20;
/** Requests whose usage is kept until they appear. */
const MAX_WAITING_USAGES = 500;

export class LiveState {
  readonly #list: RowList;
  readonly #changed = new Set<string>();
  readonly #waitingUsages = new Map<string, UsageEntry[]>();
  #gaps: readonly Gap[] = [];
  #gapsChanged = false;
  #position: LogPosition | undefined;
  #rate: EventRate = noEvents;
  /** Time of the newest event, by the gateway's clock. */
  #lastAt = 0;
  #clockAhead = 0;
  #beginning: Beginning | undefined;

  constructor(capacity = DEFAULT_CAPACITY) {
    this.#list = new RowList(capacity);
  }

  /** Oldest first. The same array until a row changes. */
  get rows(): readonly LiveRow[] {
    return this.#list.rows;
  }

  get gaps(): readonly Gap[] {
    return this.#gaps;
  }

  /** Everything up to here has been applied. Undefined while that is not certain: a connection then begins anew. */
  get position(): LogPosition | undefined {
    return this.#position;
  }

  get rate(): EventRate {
    return this.#rate;
  }

  get lastAt(): number {
    return this.#lastAt;
  }

  /** Milliseconds by which this computer's clock is ahead of the gateway's, as of the last heartbeat. */
  get clockAhead(): number {
    return this.#clockAhead;
  }

  get(id: string): LiveRow | undefined {
    return this.#list.get(id);
  }

  /** To be called when a connection without a cursor is accepted. */
  beginAnew(now: number): void {
    this.#begin(this.#lastAt === 0 ? now : this.#lastAt, now);
  }

  /** @param now milliseconds since the epoch, by this computer's clock: for the rate */
  apply(events: readonly LiveEvent[], now: number): void {
    let count = 0;
    for (const event of events) {
      // Other events may be older.
      if (event.kind === 'heartbeat') this.#clockAhead = now - event.at;
      if (this.#applyEvent(event)) count += 1;
    }
    if (count > 0) this.#rate = addEvents(this.#rate, count, now);
  }

  /** Whether the event counts for the rate. */
  #applyEvent(event: LiveEvent): boolean {
    const { position, at } = event;
    if (event.kind === 'reset') {
      this.#begin(this.#lastAt === 0 ? at : this.#lastAt, at);
      return false;
    }
    if (event.isNew) {
      if (this.#position !== undefined && isBefore(position, this.#position)) return false;
      this.#endBeginning(position);
      this.#position = position;
      if (at > this.#lastAt) this.#lastAt = at;
    }
    if (event.kind === 'request') {
      if (!event.isNew) this.#beginning?.inFlight.add(event.request.id);
      this.#applyRequest(event.request, position);
    } else if (event.kind === 'usage') {
      this.#applyUsage(event.usage);
    }
    return event.isNew && event.kind !== 'heartbeat';
  }

  #applyRequest(request: RequestPreview, position: LogPosition): void {
    const row = this.#list.get(request.id);
    const advanced = advanceRow(row, request, position);
    if (advanced !== row) this.#put(row === undefined ? this.#withWaitingUsages(advanced) : advanced);
  }

  #applyUsage(usage: UsageEntry): void {
    const row = this.#list.get(usage.exchangeId);
    if (row !== undefined) {
      const added = addUsage(row, usage);
      if (added !== row) this.#put(added);
      return;
    }
    const waiting = this.#waitingUsages.get(usage.exchangeId) ?? [];
    this.#waitingUsages.set(usage.exchangeId, [...waiting, usage]);
    if (this.#waitingUsages.size > MAX_WAITING_USAGES) {
      for (const oldest of this.#waitingUsages.keys()) {
        this.#waitingUsages.delete(oldest);
        break;
      }
    }
  }

  #withWaitingUsages(row: LiveRow): LiveRow {
    const waiting = this.#waitingUsages.get(row.id) ?? [];
    this.#waitingUsages.delete(row.id);
    return waiting.reduce(addUsage, row);
  }

  #put(row: LiveRow): void {
    if (this.#list.put(row)) this.#changed.add(row.id);
  }

  /** Events between `from` and `to` are missing, except on the first connection. */
  #begin(from: number, to: number): void {
    const before = this.#beginning;
    const isFirst = before === undefined && this.#lastAt === 0 && this.#list.size === 0;
    this.#position = undefined;
    // A connection that broke off while it began leaves one gap with the next one.
    const since = before?.from ?? from;
    const gapId = before?.gapId ?? (isFirst ? undefined : `gap-${since}-${to}-${this.#gaps.length}`);
    this.#beginning = { from: since, gapId, inFlight: new Set() };
    if (gapId === undefined) return;
    const others = this.#gaps.filter(({ id }) => id !== gapId);
    const gap: Gap = { id: gapId, from: since, to, state: 'loading', found: 0 };
    this.#setGaps([...others, gap].slice(-MAX_GAPS));
  }

  /** The first event after the requests in flight: open requests that were not among them have ended. */
  #endBeginning(position: LogPosition): void {
    if (this.#beginning === undefined) return;
    const { inFlight, gapId } = this.#beginning;
    this.#beginning = undefined;
    if (gapId !== undefined) this.updateGap(gapId, { until: position });
    for (const row of this.#list.rows) {
      if (isOpen(row) && !inFlight.has(row.id)) this.#put({ ...row, state: 'missed' });
    }
  }

  /** The gaps whose requests are to be read from the audit log. */
  get loadingGaps(): readonly Gap[] {
    return this.#beginning === undefined ? this.#gaps.filter(({ state }) => state === 'loading') : [];
  }

  /** Rows that ended in a gap. */
  get missedRows(): readonly LiveRow[] {
    return this.#list.rows.filter(({ state }) => state === 'missed');
  }

  /** Adds an ended request of the audit log. Returns whether its end was not known before. */
  record(request: RequestPreview, usage: UsageTotals | undefined): boolean {
    const row = this.#list.get(request.id);
    const recorded = recordedRow(row, request, usage, row?.position ?? '0');
    if (recorded === row) return false;
    this.#put(row === undefined ? this.#withWaitingUsages(recorded) : recorded);
    return row === undefined || row.state !== recorded.state;
  }

  updateGap(id: string, change: Partial<Pick<Gap, 'state' | 'found' | 'message' | 'until'>>): void {
    this.#setGaps(this.#gaps.map((gap) => (gap.id === id ? { ...gap, ...change } : gap)));
  }

  #setGaps(gaps: readonly Gap[]): void {
    this.#gaps = gaps;
    this.#gapsChanged = true;
  }

  /** What changed since the last call. */
  takeChanges(): Changes {
    const rows = [...this.#changed].flatMap((id) => this.#list.get(id) ?? []);
    this.#changed.clear();
    const gaps = this.#gapsChanged ? this.#gaps : undefined;
    this.#gapsChanged = false;
    return { rows, gaps };
  }

  /** Applies the changes of another tab. */
  putChanges({ rows, gaps }: Changes): void {
    for (const row of rows) this.#list.put(row);
    if (gaps !== undefined) this.#gaps = gaps;
  }

  /** Sets what is certain after the changes of another tab. */
  putReached(reached: Pick<LiveState, 'position' | 'rate' | 'lastAt' | 'clockAhead'>): void {
    this.#position = reached.position;
    this.#rate = reached.rate;
    this.#lastAt = reached.lastAt;
    this.#clockAhead = reached.clockAhead;
  }
}
