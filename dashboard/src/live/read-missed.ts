/**
 * Reads the requests of gaps from the audit log. The audit log follows the log with a delay, so a gap is read several
 * times.
 */
import { requestOfEntry, usageOfEntry } from './live-event.ts';
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

const PAUSES_MS = [500, 2_000, 5_000, 15_000];
const PAGE = 100;
/** Pages that one reading reads. */
const MAX_PAGES = 20;
/** Requests that are searched by their id after the pages. */
const MAX_SEARCHES = 20;
/** An event may be recorded this long after its time. */
const MARGIN_MS = 2_000;
const DAY_MS = 86_400_000;

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
      const isLast = attempt === pausesMs.length - 1;
      const isComplete = reading.problem === undefined && state.missedRows.length === 0 && attempt > 0;
      if (isComplete) state.updateGap(gap.id, { state: 'loaded', found });
      else if (isLast) state.updateGap(gap.id, { state: 'partial', found, message: reading.problem ?? UNKNOWN_ENDS });
      else state.updateGap(gap.id, { found });
      options.onChange();
      if (isComplete) break;
    }
  }
}

const UNKNOWN_ENDS = 'The audit log does not have the end of some requests yet.';

interface Reading {
  readonly found: number;
  /** Why requests are missing. */
  readonly problem?: string;
}

async function readGap(gap: Gap, { readLog, filter, state, signal }: ReadMissedOptions): Promise<Reading> {
  let found = 0;
  const from = gap.from - MARGIN_MS;
  const take = (entry: unknown): number => {
    const request = requestOfEntry(entry);
    const isOfGap = request.startedAt >= from || state.get(request.id) !== undefined;
    if (isOfGap && isInFilter(filter, request) && state.record(request, usageOfEntry(entry))) found += 1;
    return request.startedAt;
  };
  const query = {
    ...auditQuery(filter),
    // The days are those of UTC, or of any zone: one more on each side.
    start_date: day(Math.min(gap.from, ...state.missedRows.map(({ startedAt }) => startedAt)) - DAY_MS),
    end_date: day(gap.to + DAY_MS),
  };
  try {
    let cursor: string | undefined;
    for (let page = 0; ; page += 1) {
      if (page === MAX_PAGES) return { found, problem: `More than ${MAX_PAGES * PAGE} requests were missed.` };
      const answer = pageOf(
        await readLog({ ...query, limit: String(PAGE), ...(cursor === undefined ? {} : { cursor }) }, signal),
      );
      // Newest first: everything of the gap has been read when a request is older.
      const started = answer.entries.map(take);
      cursor = answer.nextCursor;
      if (cursor === undefined || started.some((at) => at < from)) break;
    }
    for (const { id } of state.missedRows.slice(0, MAX_SEARCHES)) {
      const { entries } = pageOf(await readLog({ ...query, search: id, limit: '5' }, signal));
      entries.forEach(take);
    }
    return { found };
  } catch (error) {
    return { found, problem: error instanceof Error ? error.message : String(error) };
  }
}

function pageOf(answer: unknown): { readonly entries: readonly unknown[]; readonly nextCursor: string | undefined } {
  const { entries, next_cursor: nextCursor } = answer as { entries?: unknown; next_cursor?: unknown };
  return {
    entries: Array.isArray(entries) ? entries : [],
    nextCursor: typeof nextCursor === 'string' ? nextCursor : undefined,
  };
}

/** `YYYY-MM-DD` */
function day(at: number): string {
  return new Date(at).toISOString().slice(0, 10);
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
