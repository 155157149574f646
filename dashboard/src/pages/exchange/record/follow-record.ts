/** Reads the events of a request: all that exist, and, while it is running, those that follow. */
import { type Answer, ApiError, getAnswer } from '../../../api/client.ts';
import { isEnd, type RecordedEvent, type RelatedLink, withEvents } from './recorded-event.ts';

export interface RecordState {
  readonly events: readonly RecordedEvent[];
  readonly related: readonly RelatedLink[];
  readonly error: ApiError | undefined;
  /** Until everything that existed is read. */
  readonly isLoading: boolean;
  /** Whether more events exist than are read. */
  readonly isCut: boolean;
}

export const nothingRead: RecordState = { events: [], related: [], error: undefined, isLoading: true, isCut: false };

const PAGE = 1000;
/** Events that are kept in the page. */
const MOST_EVENTS = 50_000;
const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 15_000;
/** How often a request is looked for that is too new to be on disk. */
const TRIES_OF_NEW = 4;

/** Ends when the request has ended, or with an error; the last state is kept then. */
export async function followRecord(
  id: string,
  signal: AbortSignal,
  changed: (state: RecordState) => void,
): Promise<void> {
  let state = nothingRead;
  const set = (more: Partial<RecordState>): void => {
    state = { ...state, ...more };
    if (!signal.aborted) changed(state);
  };
  let wait = FIRST_WAIT_MS;
  let missed = 0;
  while (!signal.aborted) {
    let page: Answer<'/admin/audit/events'>;
    try {
      const after = state.events.at(-1)?.revision;
      page = await getAnswer('/admin/audit/events', { query: { log_id: id, after, limit: PAGE }, signal });
      if (!Array.isArray(page.events)) throw new Error('The answer has no list of events.');
    } catch (error) {
      if (signal.aborted) return;
      if (isTooNew(error, id) && missed < TRIES_OF_NEW) {
        missed += 1;
        await pause(FIRST_WAIT_MS, signal);
        continue;
      }
      set({ error: asApiError(error), isLoading: false });
      return;
    }
    const events = withEvents(state.events, page.events as readonly RecordedEvent[]);
    const isCut = page.has_more && events.length >= MOST_EVENTS;
    set({
      events,
      related: page.related ?? state.related,
      error: undefined,
      isLoading: page.has_more && !isCut,
      isCut,
    });
    if (page.has_more && !isCut) continue;
    if (isCut || events.some(isEnd)) return;
    wait = page.events.length > 0 ? FIRST_WAIT_MS : Math.min(LONGEST_WAIT_MS, wait * 1.5);
    await pause(wait, signal);
    await whenVisible(signal);
  }
}

/** Exchange ids are UUIDs of version 7, which begin with the time. */
function isTooNew(error: unknown, id: string): boolean {
  if (!(error instanceof ApiError) || error.status !== 404) return false;
  const madeAt = Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16);
  return Math.abs(Date.now() - madeAt) < 60_000;
}

function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  return new ApiError(error instanceof Error ? error.message : String(error), { status: 0, code: 'unexpected' });
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

/** A page in the background reads nothing. */
function whenVisible(signal: AbortSignal): Promise<void> {
  if (document.visibilityState === 'visible') return Promise.resolve();
  return new Promise((resolve) => {
    document.addEventListener('visibilitychange', () => resolve(), { once: true, signal });
    signal.addEventListener('abort', () => resolve());
  });
}
