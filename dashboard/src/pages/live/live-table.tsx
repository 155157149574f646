/** The rows, newest first: of equal height, only the visible ones in the document. */
import '../../ui/data-table.css';
import './live-table.css';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { followRowKeys } from '../../app/keys.ts';
import { hrefOf, navigate } from '../../app/router.ts';
import { formatCount } from '../../format/numbers.ts';
import { formatClock } from '../../format/times.ts';
import { isGap, type LiveItem } from '../../live/live-items.ts';
import type { LiveRow } from '../../live/live-row.ts';
import type { Gap } from '../../live/live-state.ts';
import { columns, LiveCells } from './live-cells.tsx';
import type { LiveView } from './use-live-view.ts';

interface LiveTableProps {
  readonly view: LiveView;
  /** Id of the selected request. */
  readonly selected: string | undefined;
  readonly onSelect: (id: string | undefined) => void;
  /** The gateway's time, in milliseconds since the epoch. */
  readonly now: number;
}

const OVERSCAN = 6;
const ROW_HEIGHT = 40;

export function LiveTable({ view, selected, onSelect, now }: LiveTableProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const [place, setPlace] = useState({ top: 0, height: 800 });
  const { items, mode } = view;
  const newest = useRef({ view, selected });
  newest.current = { view, selected };

  useLayoutEffect(() => {
    const element = scroller.current;
    if (element === null) return undefined;
    const measure = () => setPlace({ top: element.scrollTop, height: element.clientHeight });
    const scrolled = () => {
      const { view, selected } = newest.current;
      if (element.scrollTop > 1 && view.mode === 'following') view.browse();
      if (element.scrollTop <= 1 && view.mode === 'browsing' && selected === undefined) view.follow();
      measure();
    };
    measure();
    const sizes = new ResizeObserver(measure);
    sizes.observe(element);
    element.addEventListener('scroll', scrolled, { passive: true });
    return () => {
      sizes.disconnect();
      element.removeEventListener('scroll', scrolled);
    };
  }, []);

  // The newest rows are at the top.
  useLayoutEffect(() => {
    if (mode === 'following' && scroller.current !== null) scroller.current.scrollTop = 0;
  }, [mode]);

  useEffect(
    () =>
      followRowKeys({
        move(by) {
          const { view, selected } = newest.current;
          const next = nextRow(view.items, selected, by);
          if (next === undefined) return;
          if (view.mode === 'following') view.browse();
          onSelect(next.id);
          reveal(scroller.current, next.index);
        },
        open() {
          const { selected } = newest.current;
          if (selected !== undefined) navigate(exchangeHref(selected));
        },
      }),
    [],
  );

  const first = Math.max(0, Math.floor(place.top / ROW_HEIGHT) - OVERSCAN);
  const end = Math.min(items.length, Math.ceil((place.top + place.height) / ROW_HEIGHT) + OVERSCAN);
  return (
    // A region that scrolls must be reachable by keyboard.
    <div class="data-table live-table" ref={scroller} tabIndex={0} role="group" aria-label="Live requests">
      <table aria-label="Live requests" aria-rowcount={items.length + 1}>
        <thead>
          <tr aria-rowindex={1}>
            {columns.map(({ name, title, align }) => (
              <th key={name} scope="col" data-column={name} data-align={align}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {first > 0 && <Filler rows={first} />}
          {items.slice(first, end).map((shown, at) => {
            const item = view.current(shown);
            const index = first + at + 2;
            if (isGap(item)) return <GapRow key={item.id} gap={item} index={index} />;
            return (
              <Row
                key={item.id}
                row={item}
                index={index}
                now={now}
                isSelected={item.id === selected}
                onSelect={onSelect}
              />
            );
          })}
          {end < items.length && <Filler rows={items.length - end} />}
        </tbody>
      </table>
    </div>
  );
}

function Filler({ rows }: { readonly rows: number }) {
  return (
    <tr aria-hidden="true" class="live-filler">
      <td colSpan={columns.length} style={{ height: `${rows * ROW_HEIGHT}px` }} />
    </tr>
  );
}

interface RowProps {
  readonly row: LiveRow;
  readonly index: number;
  readonly now: number;
  readonly isSelected: boolean;
  readonly onSelect: (id: string) => void;
}

function Row({ row, index, now, isSelected, onSelect }: RowProps) {
  return (
    <tr
      aria-rowindex={index}
      aria-current={isSelected ? 'true' : undefined}
      data-linked="true"
      data-state={row.state}
      data-exchange={row.id}
      onClick={(event) => {
        const isOfControl = event.target instanceof Element && event.target.closest('a, button');
        if (isOfControl || (getSelection()?.toString() ?? '') !== '') return;
        onSelect(row.id);
      }}
      onDblClick={() => navigate(exchangeHref(row.id))}
    >
      <LiveCells row={row} now={now} />
    </tr>
  );
}

function GapRow({ gap, index }: { readonly gap: Gap; readonly index: number }) {
  return (
    <tr aria-rowindex={index} class="live-gap" data-gap={gap.state}>
      <td colSpan={columns.length}>
        <span>{gapText(gap)}</span> {gap.state === 'partial' && <a href={hrefOf('/audit')}>Open the audit log</a>}
      </td>
    </tr>
  );
}

function gapText({ from, to, state, found, message }: Gap): string {
  const missed = `Events between ${formatClock(from)} and ${formatClock(to)} were not received.`;
  const added = `${formatCount(found)} requests were added from the audit log.`;
  if (state === 'loading') return `${missed} Reading the audit log.`;
  return state === 'loaded' ? `${missed} ${added}` : `${missed} ${added} ${message ?? ''}`;
}

export function exchangeHref(id: string): string {
  return hrefOf(`/exchange/${encodeURIComponent(id)}`);
}

function nextRow(
  items: readonly LiveItem[],
  selected: string | undefined,
  by: number,
): { readonly id: string; readonly index: number } | undefined {
  const from = selected === undefined ? -1 : items.findIndex(({ id }) => id === selected);
  const start = from === -1 ? 0 : from + by;
  const step = by < 0 ? -1 : 1;
  for (let index = start; index >= 0 && index < items.length; index += step) {
    const item = items[index];
    if (item !== undefined && !isGap(item)) return { id: item.id, index };
  }
  return undefined;
}

function reveal(element: HTMLElement | null, index: number): void {
  if (element === null) return;
  const start = index * ROW_HEIGHT;
  const visible = element.clientHeight - ROW_HEIGHT;
  if (start < element.scrollTop) element.scrollTop = start;
  else if (start + ROW_HEIGHT > element.scrollTop + visible) element.scrollTop = start + ROW_HEIGHT - visible;
}
