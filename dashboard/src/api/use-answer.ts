/** An answer of the API as the state of a component. */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import type { QueryValue } from '../app/router.ts';
import { timeZone } from '../settings/time-zone.ts';
import { type Answer, ApiError, getAnswer, type ReadPath } from './client.ts';
import { sessionKey } from './session-key.ts';

export interface Loaded<Data> {
  /** The newest answer; while another query loads, the one before. */
  readonly data: Data | undefined;
  readonly error: ApiError | undefined;
  readonly isLoading: boolean;
  /** When loading began, in milliseconds of `performance.now()`. */
  readonly since: number;
  reload(): void;
  /** Stops loading; the data stays as it is. */
  cancel(): void;
}

export interface AnswerOptions {
  /** Reads again after this time while the page is visible. */
  readonly refreshMs?: number | undefined;
  /** False: nothing is read. */
  readonly enabled?: boolean;
}

/**
 * Reads `GET <path>` again when path, query or time zone change; aborts the request that is no longer needed. Data of
 * another path is not kept.
 */
export function useAnswer<Path extends ReadPath>(
  path: Path | { readonly of: Path; readonly at: string },
  query: Readonly<Record<string, QueryValue>> = {},
  { refreshMs, enabled = true }: AnswerOptions = {},
): Loaded<Answer<Path>> {
  const at = typeof path === 'string' ? path : path.at;
  return useLoaded((signal) => getAnswer<Path>(path, { query, signal }), JSON.stringify([at, query, timeZone.value]), {
    refreshMs,
    enabled,
    keepWhile: at,
  });
}

interface LoadOptions extends AnswerOptions {
  /** Data is kept while another query of the same name loads. */
  readonly keepWhile?: string;
  /** The data is shown at once when the same is loaded again, until the new answer has arrived. */
  readonly remember?: boolean;
}

/** The newest answers of figures, by identity, the oldest first. Recorded content is not among them. */
const remembered = new Map<string, unknown>();
const MOST_REMEMBERED = 30;
// Another key may see less.
sessionKey.subscribe(() => remembered.clear());

function rememberAnswer(identity: string, data: unknown): void {
  remembered.delete(identity);
  remembered.set(identity, data);
  const [oldest] = remembered.keys();
  if (remembered.size > MOST_REMEMBERED && oldest !== undefined) remembered.delete(oldest);
}

interface LoadState<Data> {
  readonly data: Data | undefined;
  readonly error: ApiError | undefined;
  readonly isLoading: boolean;
  readonly since: number;
  readonly of: string;
}

/** Runs `load` when `identity` changes. */
export function useLoaded<Data>(
  load: (signal: AbortSignal) => Promise<Data>,
  identity: string,
  { refreshMs, enabled = true, keepWhile = identity, remember = false }: LoadOptions = {},
): Loaded<Data> {
  const earlier = () => (remember ? (remembered.get(identity) as Data | undefined) : undefined);
  const [state, setState] = useState<LoadState<Data>>(() => ({
    ...{ data: earlier(), error: undefined, isLoading: enabled, since: performance.now(), of: keepWhile },
  }));
  const [round, setRound] = useState(0);
  const newest = useRef(load);
  newest.current = load;
  const running = useRef<AbortController | undefined>(undefined);

  // `identity` and `round` say when to load again.
  useEffect(() => {
    if (!enabled) return undefined;
    const leaving = new AbortController();
    const key = sessionKey.value;
    running.current = leaving;
    setState((before) => ({
      ...before,
      data: earlier() ?? (before.of === keepWhile ? before.data : undefined),
      ...{ error: undefined, isLoading: true, since: performance.now(), of: keepWhile },
    }));
    newest.current(leaving.signal).then(
      (data) => {
        if (leaving.signal.aborted) return;
        if (remember && sessionKey.value === key) rememberAnswer(identity, data);
        setState((before) => ({ ...before, data, error: undefined, isLoading: false }));
      },
      (error: unknown) => {
        if (leaving.signal.aborted) return;
        setState((before) => ({ ...before, error: asApiError(error), isLoading: false }));
      },
    );
    return () => leaving.abort();
  }, [identity, round, enabled]);

  useEffect(() => {
    if (refreshMs === undefined || !enabled) return undefined;
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible') setRound((before) => before + 1);
    }, refreshMs);
    return () => clearInterval(timer);
  }, [refreshMs, enabled]);

  const reload = useCallback(() => setRound((before) => before + 1), []);
  const cancel = useCallback(() => {
    running.current?.abort();
    setState((before) => ({ ...before, isLoading: false }));
  }, []);
  // Until the effect has run, the state is that of the path before.
  const isOfBefore = state.of !== keepWhile;
  return {
    data: isOfBefore ? undefined : state.data,
    error: isOfBefore ? undefined : state.error,
    isLoading: isOfBefore ? enabled : state.isLoading,
    since: state.since,
    reload,
    cancel,
  };
}

function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  console.error(error);
  const message = error instanceof Error ? error.message : String(error);
  return new ApiError(`The page could not use the answer: ${message}`, { status: 0, code: 'unexpected' });
}
