/** An answer of the API as the state of a component. */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import type { QueryValue } from '../app/router.ts';
import { timeZone } from '../settings/time-zone.ts';
import { type Answer, ApiError, getAnswer, type ReadPath } from './client.ts';
import { sessionKey } from './session-key.ts';

export interface Loaded<Data> {
  /** The newest answer; while another query loads, the one before. */
  readonly data: Data | undefined;
  /** When `data` arrived, in milliseconds since the epoch. */
  readonly readAt: number | undefined;
  /** Of the last read that ended. A read that `refreshMs` began keeps it until it succeeds. */
  readonly error: ApiError | undefined;
  readonly isLoading: boolean;
  /** When loading began, in milliseconds of `performance.now()`. */
  readonly since: number;
  reload(): void;
  /** Stops loading; the data stays as it is. */
  cancel(): void;
}

export interface AnswerOptions {
  /** Reads again after this time while the page is visible; later when the answer before needs longer. */
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

interface Received<Data> {
  readonly data: Data;
  readonly readAt: number;
}

/** The newest answers of figures, by identity, the oldest first. Recorded content is not among them. */
const remembered = new Map<string, Received<unknown>>();
const MOST_REMEMBERED = 30;
// Another key may see less.
sessionKey.subscribe(() => remembered.clear());

function rememberAnswer(identity: string, received: Received<unknown>): void {
  remembered.delete(identity);
  remembered.set(identity, received);
  const [oldest] = remembered.keys();
  if (remembered.size > MOST_REMEMBERED && oldest !== undefined) remembered.delete(oldest);
}

/** A refresh waits so long for the answer before; then it is given up and read again. */
const REFRESH_WAITS_MS = 30_000;

interface LoadState<Data> {
  readonly received: Received<Data> | undefined;
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
  const earlier = () => (remember ? (remembered.get(identity) as Received<Data> | undefined) : undefined);
  const [state, setState] = useState<LoadState<Data>>(() => ({
    ...{ received: earlier(), error: undefined, isLoading: enabled, since: performance.now(), of: keepWhile },
  }));
  const [round, setRound] = useState(0);
  const newest = useRef(load);
  newest.current = load;
  const running = useRef<AbortController | undefined>(undefined);
  /** When the read under way began. */
  const begun = useRef<number | undefined>(undefined);
  const isRefresh = useRef(false);

  // `identity` and `round` say when to load again.
  useEffect(() => {
    if (!enabled) return undefined;
    const leaving = new AbortController();
    const key = sessionKey.value;
    running.current = leaving;
    const keepsError = isRefresh.current;
    isRefresh.current = false;
    const since = performance.now();
    begun.current = since;
    setState((before) => ({
      received: earlier() ?? (before.of === keepWhile ? before.received : undefined),
      error: keepsError && before.of === keepWhile ? before.error : undefined,
      ...{ isLoading: true, since, of: keepWhile },
    }));
    newest.current(leaving.signal).then(
      (data) => {
        if (leaving.signal.aborted) return;
        begun.current = undefined;
        const received = { data, readAt: Date.now() };
        if (remember && sessionKey.value === key) rememberAnswer(identity, received);
        setState((before) => ({ ...before, received, error: undefined, isLoading: false }));
      },
      (error: unknown) => {
        if (leaving.signal.aborted) return;
        begun.current = undefined;
        setState((before) => ({ ...before, error: asApiError(error), isLoading: false }));
      },
    );
    return () => leaving.abort();
  }, [identity, round, enabled]);

  useEffect(() => {
    if (refreshMs === undefined || !enabled) return undefined;
    const timer = setInterval(() => {
      const waited = begun.current === undefined ? Number.POSITIVE_INFINITY : performance.now() - begun.current;
      if (document.visibilityState !== 'visible' || waited < REFRESH_WAITS_MS) return;
      isRefresh.current = true;
      setRound((before) => before + 1);
    }, refreshMs);
    return () => clearInterval(timer);
  }, [refreshMs, enabled]);

  const reload = useCallback(() => setRound((before) => before + 1), []);
  const cancel = useCallback(() => {
    running.current?.abort();
    begun.current = undefined;
    setState((before) => ({ ...before, isLoading: false }));
  }, []);
  // Until the effect has run, the state is that of the path before.
  const isOfBefore = state.of !== keepWhile;
  return {
    data: isOfBefore ? undefined : state.received?.data,
    readAt: isOfBefore ? undefined : state.received?.readAt,
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
