/** A year of days as squares: the more, the larger and the darker. */
import { useRef, useState } from 'preact/hooks';
import { calendarWeeks, monthStarts } from './calendar-days.ts';
import { ChartFrame } from './chart-frame.tsx';
import { heatLevels } from './scale.ts';
import { useWidth } from './use-width.ts';

export interface CalendarDay {
  /** `YYYY-MM-DD`. */
  readonly day: string;
  readonly value: number | null;
  /** Its values in words. */
  readonly text: string;
}

interface CalendarProps {
  readonly label: string;
  /** The last day. */
  readonly today: string;
  readonly days: readonly CalendarDay[];
  /** The words of a day without a row. */
  readonly empty: string;
  readonly hrefOf: (day: string) => string | undefined;
  readonly titleOf: (day: string) => string;
}

const LEFT = 34;
const TOP = 18;
const MOST_WEEKS = 53;
const LARGEST = 21;
const SMALLEST = 12;
const weekdays = ['Mon', '', 'Wed', '', 'Fri', '', 'Sun'];
/** Of a square, by level. */
const sizes = [0.3, 0.5, 0.65, 0.8, 0.95];

export function Calendar({ label, today, days, empty, hrefOf, titleOf }: CalendarProps) {
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box);
  const room = Math.max(SMALLEST * 4, width - LEFT);
  const weekCount = Math.min(MOST_WEEKS, Math.floor(room / SMALLEST));
  const cell = Math.min(LARGEST, Math.floor(room / weekCount));
  const weeks = calendarWeeks(today, width === 0 ? MOST_WEEKS : weekCount);
  const shown = weeks.flat();
  const byDay = new Map(days.map((day) => [day.day, day]));
  const levels = heatLevels(shown.map((day) => byDay.get(day)?.value ?? 0));
  const [focused, setFocused] = useState(shown.at(-1) ?? today);
  const [pointed, setPointed] = useState<string | undefined>(undefined);
  const stop = shown.includes(focused) ? focused : shown.at(-1);
  const height = TOP + 7 * cell + 4;
  const textOf = (day: string) => byDay.get(day)?.text ?? empty;

  const move = (event: KeyboardEvent) => {
    const by = { ArrowLeft: -7, ArrowRight: 7, ArrowUp: -1, ArrowDown: 1 }[event.key];
    const at = shown.indexOf(stop ?? '');
    const to =
      event.key === 'Home' ? 0 : event.key === 'End' ? shown.length - 1 : by === undefined ? undefined : at + by;
    if (to === undefined) return;
    event.preventDefault();
    const next = Math.min(shown.length - 1, Math.max(0, to));
    setFocused(shown[next] ?? today);
    box.current?.querySelectorAll<SVGElement>('.chart-column')[next]?.focus();
  };
  let place = -1;
  return (
    <ChartFrame
      label={label}
      height={height + 28}
      legend={
        <span class="chart-legend-entry">
          none to most{' '}
          <svg width={5 * 16} height="16" aria-hidden="true">
            {sizes.map((size, level) => (
              <Square key={size} x={level * 16} y={0} cell={16} level={level} />
            ))}
          </svg>
        </span>
      }
      table={() => ({
        columns: ['Day', 'Figures'],
        rows: shown
          .filter((day) => byDay.has(day))
          .reverse()
          .map((day) => ({ key: day, cells: [<a href={hrefOf(day)}>{titleOf(day)}</a>, textOf(day)] })),
      })}
    >
      <div ref={box} class="chart-box">
        <svg
          role="group"
          aria-label={`${label}. The arrow keys move between days and weeks.`}
          width={width}
          height={height}
          onKeyDown={move}
          onPointerLeave={() => setPointed(undefined)}
        >
          {monthStarts(weeks).map(({ week, month }) => (
            <text key={month} class="chart-text" x={LEFT + week * cell} y={12} aria-hidden="true">
              {monthName(month)}
            </text>
          ))}
          {weekdays.map((name, at) => (
            <text key={`${name}${at}`} class="chart-text" x={0} y={TOP + (at + 0.75) * cell} aria-hidden="true">
              {name}
            </text>
          ))}
          {weeks.map((week, column) =>
            week.map((day, row) => {
              place += 1;
              const level = levels[place] ?? 0;
              const [x, y] = [LEFT + column * cell, TOP + row * cell];
              return (
                <a
                  key={day}
                  class="chart-column"
                  href={hrefOf(day)}
                  aria-label={`${titleOf(day)}: ${textOf(day)}`}
                  tabindex={day === stop ? 0 : -1}
                  onPointerMove={() => setPointed(day)}
                  onFocus={() => {
                    setFocused(day);
                    setPointed(day);
                  }}
                  onBlur={() => setPointed(undefined)}
                >
                  <rect x={x} y={y} width={cell} height={cell} />
                  <Square x={x} y={y} cell={cell} level={level} />
                </a>
              );
            }),
          )}
        </svg>
        <p class="chart-readout" aria-hidden="true">
          {pointed === undefined ? (
            <span class="chart-hint">
              {weekCount < MOST_WEEKS && width > 0 ? `The last ${weekCount} weeks. ` : ''}Point at a day, or use the
              arrow keys, to read its values.
            </span>
          ) : (
            <>
              <strong>{titleOf(pointed)}</strong> {textOf(pointed)}
            </>
          )}
        </p>
      </div>
    </ChartFrame>
  );
}

function Square({ x, y, cell, level }: { x: number; y: number; cell: number; level: number }) {
  const size = (cell - 1) * (sizes[level] ?? 0.3);
  const inset = (cell - size) / 2;
  return (
    <rect
      class="calendar-square"
      x={x + inset}
      y={y + inset}
      width={size}
      height={size}
      rx={2}
      style={{ fill: `var(--heat-${level})` }}
    />
  );
}

const months = new Intl.DateTimeFormat(navigator.languages, { month: 'short', timeZone: 'UTC' });

function monthName(month: string): string {
  return months.format(new Date(`${month}-01T00:00:00Z`));
}
