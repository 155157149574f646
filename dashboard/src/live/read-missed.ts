/**
 * Reads the requests of gaps from the audit log. The audit log follows the log with a delay and states how far it is: a
 * gap is read until all of it is included.
 */
import { isBefore, type LogPosition, requestOfEntry, usageOfEntry } from './live-event.ts';
import { auditQuery, isInFilter, type LiveFilter } from './live-filter.ts';
import type { Gap, LiveState } from './live-state.ts';

export interface ReadMissedOptions {
  /** `GET /admin/audit/log`. @throws when the audit log cannot be read */
  readLog(query: Readonly<Record<string, string>>, signal: AbortSignal): Promise<unknown>;
  readonly filter: LiveFilter;
  readonly state: LiveState;
  /** Called after each change of the state. */
  onChange(): void;
  readonly signal: AbortSignal;
  /** Pauses before each reading. */
  readonly pausesMs?: readonly number[];
}

const PAUSES_MS = [300, 1_000, 1_000, 2_000, 3_000, 5_000, 10_000, 20_000];
const PAGE = 100;
/** Pages that one reading reads. */
const MAX_PAGES = 20;
/** Requests that are read by their id: those that began before the gap and ended in it. */
const MAX_BY_ID = 50;
/** An event may be recorded this long after its time. */
const MARGIN_MS = 100;

/** Resolves when all gaps are read, or the signal is aborted. */
export async function readMissed(options: ReadMissedOptions): Promise<void> {
  const { state, signal, pausesMs = PAUSES_MS } = options;
  for (const gap of state.loadingGaps) {
    let found = gap.found;
    for (const [attempt, pause] of pausesMs.entries()) {
      await sleep(pause, signal);
      if (signal.aborted) return;
      const reading = await readGap(gap, options);
      if (signal.aborted) return;
      found += reading.found;
      const isComplete = reading.problem === undefined;
      const isLast = attempt === pausesMs.length - 1;
      if (isComplete) state.updateGap(gap.id, { state: 'loaded', found });
      else state.updateGap(gap.id, { found, ...(isLast ? { state: 'partial', message: reading.problem } : {}) });
      options.onChange();
      if (isComplete) break;
    }
  }
}

interface Reading {
  readonly found: number;
  /** Why requests are missing. */
  readonly problem?: string;
}

async function readGap(gap: Gap, { readLog, filter, state, signal }: ReadMissedOptions): Promise<Reading> {
  let found = 0;
  const from = gap.from - MARGIN_MS;
  const take = (entry: unknown): void => {
    const request = requestOfEntry(entry);
    const hasEndedSince = request.startedAt + (request.durationMs ?? 0) >= from;
    const isOfGap = hasEndedSince || state.get(request.id) !== undefined;
    if (isOfGap && isInFilter(filter, request) && state.record(request, usageOfEntry(entry))) found += 1;
  };
  try {
    const query = { ...auditQuery(filter), from: time(from), to: time(gap.to + MARGIN_MS), total: 'false' };
    let included: LogPosition | undefined;
    let cursor: string | undefined;
    for (let page = 0; ; page += 1) {
      if (page === MAX_PAGES) return { found, problem: `Only the newest ${MAX_PAGES * PAGE} of them were read.` };
      const parameters = { ...query, limit: String(PAGE), ...(cursor === undefined ? {} : { cursor }) };
      const answer = pageOf(await readLog(parameters, signal));
      if (page === 0) included = answer.position;
      answer.entries.forEach(take);
      cursor = answer.nextCursor;
      if (cursor === undefined) break;
    }
    for (const { id } of state.missedRows.slice(0, MAX_BY_ID)) {
      pageOf(await readLog({ id, limit: '1', total: 'false' }, signal)).entries.forEach(take);
    }
    const isIncluded = included !== undefined && gap.until !== undefined && !isBefore(included, gap.until);
    return isIncluded ? { found } : { found, problem: 'The audit log does not have all of them yet.' };
  } catch (error) {
    return { found, problem: error instanceof Error ? error.message : String(error) };
  }
}

interface Page {
  readonly entries: readonly unknown[];
  readonly nextCursor: string | undefined;
  /** Requests that ended up to here are included. */
  readonly position: LogPosition | undefined;
}

function pageOf(answer: unknown): Page {
  const { entries, next_cursor: cursor, position } = answer as Readonly<Record<string, unknown>>;
  return {
    entries: Array.isArray(entries) ? entries : [],
    nextCursor: typeof cursor === 'string' ? cursor : undefined,
    position: typeof position === 'string' ? position : undefined,
  };
}

function time(at: number): string {
  return new Date(at).toISOString();
}

async function sleep(ms: number, signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener(
      'abort',
      () => {
        clearTimeout(timer);
        resolve();
      },
      { once: true },
    );
  });
}
