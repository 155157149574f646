/**
 * Which rows are shown: all of them while following; those of a moment while paused, or while the user looks at older
 * ones. Then new rows are counted.
 */
import { useCallback, useRef, useState } from 'preact/hooks';
import { countAfter, isGap, itemsOf, type LiveItem } from '../../live/live-items.ts';
import { isOpen, type RowPlace } from '../../live/live-row.ts';
import type { LiveState } from '../../live/live-state.ts';

/** `browsing`: the rows stay in place and go on changing. `paused`: nothing changes but running requests that end. */
export type ViewMode = 'following' | 'browsing' | 'paused';

export interface LiveView {
  readonly mode: ViewMode;
  /** Newest first. */
  readonly items: readonly LiveItem[];
  /** Rows that are not shown because the list is held. */
  readonly newRows: number;
  /** The item as it is now; as it was at the pause, unless it was running then and has ended. */
  current(item: LiveItem): LiveItem;
  follow(): void;
  browse(): void;
  pause(): void;
  /** Hides everything that is there now. */
  clear(): void;
}

interface Held {
  readonly items: readonly LiveItem[];
  readonly newest: RowPlace | undefined;
}

export function useLiveView(state: LiveState | undefined): LiveView {
  const [mode, setMode] = useState<ViewMode>('following');
  const held = useRef<Held>({ items: [], newest: undefined });
  const cleared = useRef<{ readonly state: LiveState; readonly at: RowPlace | undefined } | undefined>(undefined);

  const after = cleared.current !== undefined && cleared.current.state === state ? cleared.current.at : undefined;
  const rows = state?.rows ?? [];
  const following = mode === 'following' && state !== undefined ? itemsOf(rows, state.gaps, after) : [];
  const latest = useRef(following);
  if (mode === 'following') latest.current = following;

  const hold = useCallback(
    (next: ViewMode) => {
      const newest = state?.rows.at(-1);
      setMode((before) => {
        if (before === 'following') held.current = { items: latest.current, newest };
        else if (next === 'paused' && state !== undefined) {
          // What is shown at this moment stays.
          held.current = { ...held.current, items: held.current.items.map((item) => currentItem(state, item)) };
        }
        return next;
      });
    },
    [state],
  );

  return {
    mode,
    items: mode === 'following' ? following : held.current.items,
    newRows: mode === 'following' ? 0 : countAfter(rows, held.current.newest),
    current(item) {
      if (mode === 'following' || state === undefined) return item;
      const now = currentItem(state, item);
      return mode === 'browsing' || hasEndedSince(item, now) ? now : item;
    },
    follow: useCallback(() => setMode('following'), []),
    browse: useCallback(() => hold('browsing'), [hold]),
    pause: useCallback(() => hold('paused'), [hold]),
    clear: useCallback(() => {
      if (state !== undefined) cleared.current = { state, at: state.rows.at(-1) };
      held.current = { items: [], newest: state?.rows.at(-1) };
      setMode('following');
    }, [state]),
  };
}

/** A clock that runs on beside a request that has ended would be wrong. */
function hasEndedSince(before: LiveItem, now: LiveItem): boolean {
  return !isGap(before) && !isGap(now) && isOpen(before) && !isOpen(now);
}

/** A row that is not kept any more stays as it was. */
function currentItem(state: LiveState, item: LiveItem): LiveItem {
  if (isGap(item)) return state.gaps.find(({ id }) => id === item.id) ?? item;
  return state.get(item.id) ?? item;
}
