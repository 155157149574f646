import './data-table.css';
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { followRowKeys } from '../app/keys.ts';
import { navigate } from '../app/router.ts';

export interface Column<Row> {
  readonly name: string;
  readonly title: string;
  /** Width in rem. */
  readonly width: number;
  readonly align?: 'end';
  readonly cell: (row: Row) => ComponentChildren;
}

interface DataTableProps<Row> {
  /** Read out as the name of the table. */
  readonly label: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly rowKey: (row: Row) => string;
  /** Where `Enter` and a click on a row lead. The first cell must contain a link there, for screen readers. */
  readonly rowHref?: (row: Row) => string | undefined;
  /** Number of all rows, when more exist than are loaded; default: the loaded rows. */
  readonly total?: number;
  /** Called when the end of the loaded rows is near. */
  readonly onEndNear?: () => void;
  /** Rows of the height that is visible at once; default: as many as the window has room for. */
  readonly visibleRows?: number;
  readonly rowClass?: (row: Row) => string | undefined;
}

const OVERSCAN = 8;

/**
 * A table of rows of equal height; only the visible ones are in the document. `j`, `k` and the arrow keys move between
 * rows, `Enter` opens one.
 */
export function DataTable<Row>(props: DataTableProps<Row>) {
  const { label, columns, rows, rowKey, rowHref, total = rows.length, onEndNear, visibleRows, rowClass } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 800, rowHeight: 40 });
  const [current, setCurrent] = useState(-1);

  useLayoutEffect(() => {
    const element = scroller.current;
    if (element === null) return undefined;
    const measure = () => {
      const rowHeight = Number.parseFloat(getComputedStyle(element).getPropertyValue('--row-height')) || 40;
      setView({ top: element.scrollTop, height: element.clientHeight, rowHeight });
    };
    measure();
    const sizes = new ResizeObserver(measure);
    sizes.observe(element);
    element.addEventListener('scroll', measure, { passive: true });
    return () => {
      sizes.disconnect();
      element.removeEventListener('scroll', measure);
    };
  }, []);

  const { top, height, rowHeight } = view;
  const first = Math.max(0, Math.floor(top / rowHeight) - OVERSCAN);
  const end = Math.min(rows.length, Math.ceil((top + height) / rowHeight) + OVERSCAN);
  const isEndNear = end >= rows.length - OVERSCAN;
  // Called once for each number of rows.
  useEffect(() => {
    if (isEndNear && rows.length > 0) onEndNear?.();
  }, [isEndNear, rows.length]);

  const newest = useRef({ rows, current, rowHref });
  newest.current = { rows, current, rowHref };
  useEffect(
    () =>
      followRowKeys({
        move(by) {
          const count = newest.current.rows.length;
          if (count === 0) return;
          const next = Math.min(count - 1, Math.max(0, newest.current.current + by));
          setCurrent(next);
          reveal(scroller.current, next);
        },
        open() {
          const row = newest.current.rows[newest.current.current];
          const href = row === undefined ? undefined : newest.current.rowHref?.(row);
          if (href !== undefined) navigate(href);
        },
      }),
    [],
  );

  const width = columns.reduce((sum, column) => sum + column.width, 0);
  const style = visibleRows === undefined ? undefined : { maxHeight: `${(visibleRows + 1) * rowHeight}px` };
  return (
    // A region that scrolls must be reachable by keyboard.
    <div class="data-table" ref={scroller} style={style} tabIndex={0} role="group" aria-label={label}>
      <table aria-label={label} aria-rowcount={total + 1} style={{ minWidth: `${width}rem` }}>
        <colgroup>
          {columns.map((column) => (
            <col key={column.name} style={{ width: `${(100 * column.width) / width}%` }} />
          ))}
        </colgroup>
        <thead>
          <tr aria-rowindex={1}>
            {columns.map((column) => (
              <th key={column.name} scope="col" data-align={column.align}>
                {column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {first > 0 && <tr aria-hidden="true" style={{ height: `${first * rowHeight}px` }} />}
          {rows.slice(first, end).map((row, at) => {
            const index = first + at;
            const href = rowHref?.(row);
            return (
              <tr
                key={rowKey(row)}
                aria-rowindex={index + 2}
                aria-current={index === current ? 'true' : undefined}
                class={rowClass?.(row)}
                data-linked={href !== undefined}
                onClick={(event) => {
                  setCurrent(index);
                  const isOfControl =
                    event.target instanceof Element && event.target.closest('a, button, input, select');
                  if (href === undefined || isOfControl || hasSelection()) return;
                  navigate(href);
                }}
              >
                {columns.map((column) => (
                  <td key={column.name} data-align={column.align}>
                    <div class="cell">{column.cell(row)}</div>
                  </td>
                ))}
              </tr>
            );
          })}
          {end < rows.length && <tr aria-hidden="true" style={{ height: `${(rows.length - end) * rowHeight}px` }} />}
        </tbody>
      </table>
    </div>
  );
}

function reveal(element: HTMLElement | null, index: number): void {
  if (element === null) return;
  const rowHeight = Number.parseFloat(getComputedStyle(element).getPropertyValue('--row-height')) || 40;
  const start = index * rowHeight;
  const visible = element.clientHeight - rowHeight;
  if (start < element.scrollTop) element.scrollTop = start;
  else if (start + rowHeight > element.scrollTop + visible) element.scrollTop = start + rowHeight - visible;
}

/** The user selects text to copy it. */
function hasSelection(): boolean {
  return (getSelection()?.toString() ?? '') !== '';
}
