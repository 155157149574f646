/** One request in the list: what its events say so far. Pure: the same events give the same row. */
import {
  isBefore,
  type LogPosition,
  type Outcome,
  type RequestPreview,
  type UsageEntry,
  type UsageTotals,
} from './live-event.ts';

export type RowState =
  | 'in_flight'
  | 'streaming'
  | Outcome
  /** It ended while there was no connection, and its end is not known yet, or not to be found. */
  | 'missed';

export interface LiveRow extends RequestPreview {
  readonly state: RowState;
  /** Of the last event that changed the row. */
  readonly position: LogPosition;
  /** Usage entries by live events; failed attempts have entries of their own. */
  readonly usages: readonly UsageEntry[];
  /** Usage by an entry of the audit log. */
  readonly recordedUsage?: UsageTotals;
}

/** Characters of an ended answer that a row keeps. */
const KEPT_OF_ENDED = 400;
/** Usage entries that a row keeps. */
const MAX_USAGES = 50;

export function isOpen({ state }: Pick<LiveRow, 'state'>): boolean {
  return state === 'in_flight' || state === 'streaming';
}

/** @returns the same row when the event is older than the row, or comes after its end */
export function advanceRow(row: LiveRow | undefined, request: RequestPreview, position: LogPosition): LiveRow {
  if (row === undefined) return withState({ ...request, state: 'in_flight', position, usages: [] });
  if (isBefore(position, row.position)) return row;
  const hasEnded = !isOpen(row) && row.state !== 'missed';
  if (hasEnded && request.outcome === undefined) return row;
  return withState({ ...row, ...request, startedAt: row.startedAt, state: row.state, position });
}

function withState(row: LiveRow): LiveRow {
  if (row.outcome !== undefined) return { ...row, state: row.outcome, ...shortened(row) };
  return { ...row, state: row.answerTail === undefined ? 'in_flight' : 'streaming' };
}

function shortened({ answerTail }: LiveRow): Pick<LiveRow, 'answerTail'> {
  return answerTail === undefined ? {} : { answerTail: endOf(answerTail, KEPT_OF_ENDED) };
}

/** The last characters of a text, without half of a surrogate pair. */
function endOf(text: string, length: number): string {
  if (text.length <= length) return text;
  const start = text.length - length;
  const code = text.charCodeAt(start);
  return text.slice(code >= 0xdc00 && code <= 0xdfff ? start + 1 : start);
}

/** Each usage entry counts once. */
export function addUsage(row: LiveRow, usage: UsageEntry): LiveRow {
  if (row.usages.some(({ id }) => id === usage.id) || row.usages.length >= MAX_USAGES) return row;
  return { ...row, usages: [...row.usages, usage] };
}

/** The row with the end and the usage that the audit log has. The same row when it has no more. */
export function recordedRow(
  row: LiveRow | undefined,
  request: RequestPreview,
  usage: UsageTotals | undefined,
  position: LogPosition,
): LiveRow {
  const hasEnded = row !== undefined && !isOpen(row) && row.state !== 'missed';
  const ended = hasEnded
    ? row
    : advanceRow(row === undefined ? undefined : { ...row, position: '0' }, request, position);
  const hasMore = usage !== undefined && usage.entries > (ended.recordedUsage?.entries ?? 0);
  return hasMore ? { ...ended, recordedUsage: usage } : ended;
}

/** Tokens and cost. Null is unknown; undefined when nothing is known yet. */
export function usageOfRow({ usages, recordedUsage }: LiveRow): UsageTotals | undefined {
  // Both may include the same entries; the one that has more of them is complete.
  if (recordedUsage !== undefined && recordedUsage.entries >= usages.length) return recordedUsage;
  if (usages.length === 0) return undefined;
  const sum = (values: readonly (number | null)[]) =>
    values.reduce((total, value) => (value === null ? total : (total ?? 0) + value), null);
  return {
    entries: usages.length,
    inputTokens: sum(usages.map(({ inputTokens }) => inputTokens)),
    outputTokens: sum(usages.map(({ outputTokens }) => outputTokens)),
    cost: sum(usages.map(({ cost }) => cost)),
  };
}

/** The order of rows: by the start of the request, so that it does not depend on when a tab connected. */
export interface RowPlace {
  readonly startedAt: number;
  readonly id: string;
}

export function comparePlaces(one: RowPlace, other: RowPlace): number {
  if (one.startedAt !== other.startedAt) return one.startedAt - other.startedAt;
  return one.id < other.id ? -1 : Number(one.id > other.id);
}
