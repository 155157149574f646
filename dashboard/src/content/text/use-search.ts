/** A query, its matches in some content, and the current one. */
import { useState } from 'preact/hooks';
import type { Sliced } from '../sliced.ts';
import { useSliced } from '../use-sliced.ts';

interface Found<Match> {
  readonly matches: readonly Match[];
  readonly more: boolean;
}

export interface Search<Match> {
  readonly query: string;
  readonly onQuery: (query: string) => void;
  readonly matches: readonly Match[];
  readonly count: number | undefined;
  readonly more: boolean;
  readonly at: number;
  readonly onMove: (by: 1 | -1) => void;
}

export function useSearch<Match>(
  content: unknown,
  search: (query: string) => Sliced<Found<Match>>,
  onShow: (match: Match) => void,
): Search<Match> {
  const [query, setQuery] = useState('');
  const [at, setAt] = useState(-1);
  const work = useSliced(() => search(query), [content, query]);
  const found = work.state === 'done' ? work.value : undefined;
  const matches = found?.matches ?? [];
  return {
    query,
    onQuery: (next) => {
      setQuery(next);
      setAt(-1);
    },
    matches,
    count: found?.matches.length,
    more: found?.more ?? false,
    at,
    onMove: (by) => {
      if (matches.length === 0) return;
      const next = at < 0 ? (by === 1 ? 0 : matches.length - 1) : (at + by + matches.length) % matches.length;
      setAt(next);
      const match = matches[next];
      if (match !== undefined) onShow(match);
    },
  };
}
