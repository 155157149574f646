import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError } from '../../api/client.ts';
import { ranQueries } from './draft.ts';
import { withQuery } from './query-list.ts';
import { withLimit } from './query-text.ts';
import { runSql, type SqlAnswer } from './run-sql.ts';

export interface QueryState {
  /** The query of the answer or the error; '' before the first one. */
  readonly query: string;
  readonly answer: SqlAnswer | undefined;
  readonly error: ApiError | undefined;
  /** When the running query began, in milliseconds of `performance.now()`; undefined when none runs. */
  readonly since: number | undefined;
  /** The most rows of the answer. */
  readonly limit: number;
}

export interface RunningQuery extends QueryState {
  run(query: string, limit: number): void;
  cancel(): void;
}

const idle: QueryState = { query: '', answer: undefined, error: undefined, since: undefined, limit: 0 };

/** Runs one query at a time: the next one ends the one before. */
export function useQuery(): RunningQuery {
  const [state, setState] = useState(idle);
  const running = useRef<AbortController | undefined>(undefined);
  useEffect(() => () => running.current?.abort(), []);
  const remember = (query: string, answer?: SqlAnswer) => {
    const rows = answer?.kind === 'table' ? { rows: answer.table.rows.length } : {};
    ranQueries.value = withQuery(ranQueries.value, { query, at: new Date().toISOString(), ...rows });
  };
  const run = async (query: string, limit: number) => {
    running.current?.abort();
    const leaving = new AbortController();
    running.current = leaving;
    setState((before) => ({ ...before, since: performance.now() }));
    try {
      const answer = await runSql(withLimit(query, limit), leaving.signal);
      if (leaving.signal.aborted) return;
      remember(query, answer);
      setState({ ...idle, query, answer, limit });
    } catch (error) {
      if (leaving.signal.aborted) return;
      remember(query);
      setState({ ...idle, query, error: asApiError(error) });
    }
  };
  return {
    ...state,
    run: (query, limit) => void run(query, limit),
    cancel() {
      running.current?.abort();
      setState((before) => ({ ...before, since: undefined }));
    },
  };
}

function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  return new ApiError(`The page could not use the answer: ${String(error)}`, { status: 0, code: 'unexpected' });
}
