/** Rows of a list that is read page after page. */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { ApiError } from '../../api/client.ts';

export interface Page<Row, Next> {
  readonly rows: readonly Row[];
  /** What the next page is read with; undefined after the last one. */
  readonly next: Next | undefined;
}

export interface Pages<Row> {
  readonly rows: readonly Row[];
  /** Whether every row is loaded. */
  readonly isComplete: boolean;
  readonly isLoading: boolean;
  /** Of the page that was requested last. */
  readonly error: ApiError | undefined;
  /** When loading began, in milliseconds of `performance.now()`. */
  readonly since: number;
  /** Loads the next page, unless one is loading. */
  more(): void;
  /** From the first page on. */
  reload(): void;
  /** Stops loading; the loaded rows stay. */
  cancel(): void;
}

interface State<Row, Next> {
  readonly rows: readonly Row[];
  readonly next: Next | undefined;
  readonly isLoading: boolean;
  readonly error: ApiError | undefined;
  readonly since: number;
  /** Whether the first page is loaded. */
  readonly hasBegun: boolean;
}

/**
 * Begins again when `identity` changes: the rows before stay until the first page is there.
 * @param load reads a page; the first one without `next`
 */
export function usePages<Row, Next>(
  load: (next: Next | undefined, signal: AbortSignal) => Promise<Page<Row, Next>>,
  identity: string,
): Pages<Row> {
  const [state, setState] = useState<State<Row, Next>>(() => ({
    ...{ rows: [], next: undefined, isLoading: true, error: undefined, since: performance.now(), hasBegun: false },
  }));
  const [round, setRound] = useState(0);
  const running = useRef<AbortController | undefined>(undefined);
  const newest = useRef({ load, state });
  newest.current = { load, state };

  const read = useCallback((next: Next | undefined, isFirst: boolean) => {
    running.current?.abort();
    const leaving = new AbortController();
    running.current = leaving;
    setState((before) => ({ ...before, isLoading: true, error: undefined, since: performance.now() }));
    newest.current.load(next, leaving.signal).then(
      (page) => {
        if (leaving.signal.aborted) return;
        setState((before) => ({
          ...before,
          rows: isFirst ? page.rows : [...before.rows, ...page.rows],
          next: page.next,
          isLoading: false,
          hasBegun: true,
        }));
      },
      (error: unknown) => {
        if (leaving.signal.aborted) return;
        setState((before) => ({
          ...before,
          ...(isFirst ? { rows: [] } : {}),
          isLoading: false,
          error: asError(error),
        }));
      },
    );
  }, []);

  // `identity` and `round` say when to begin again.
  useEffect(() => {
    read(undefined, true);
    return () => running.current?.abort();
  }, [identity, round]);

  return {
    rows: state.rows,
    isComplete: state.hasBegun && state.next === undefined && !state.isLoading,
    isLoading: state.isLoading,
    error: state.error,
    since: state.since,
    more: useCallback(() => {
      const { next, isLoading, error } = newest.current.state;
      if (next !== undefined && !isLoading && error === undefined) read(next, false);
    }, []),
    reload: useCallback(() => setRound((before) => before + 1), []),
    cancel: useCallback(() => {
      running.current?.abort();
      setState((before) => ({ ...before, isLoading: false }));
    }, []),
  };
}

function asError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new ApiError(`The page could not use the answer: ${message}`, { status: 0, code: 'unexpected' });
}
