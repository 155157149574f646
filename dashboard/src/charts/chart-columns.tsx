/**
 * The frame of charts over time: axes, and a column for each bucket. A column is a link; the arrow keys move from one to
 * the next, and the values of the one that has the pointer or the focus are shown in words.
 */
import type { ComponentChildren } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { shownLabels } from './scale.ts';
import { useWidth } from './use-width.ts';

export interface Bucket {
  readonly key: string;
  /** Its time in words. */
  readonly title: string;
  /** Below the axis. */
  readonly tick: string;
  /** Where a day begins, among hours. When several buckets are so, only they have labels. */
  readonly isMajor?: boolean;
  /** Where it leads; undefined: it has no page of its own. */
  readonly href?: string | undefined;
}

/** Where things are in the chart, in pixels. */
export interface Plot {
  /** The middle of a column. */
  x(place: number): number;
  y(value: number): number;
  readonly columnWidth: number;
  /** Of the value 0. */
  readonly bottom: number;
}

interface ChartColumnsProps {
  readonly label: string;
  readonly buckets: readonly Bucket[];
  /** Of the grid lines, ascending from 0. */
  readonly steps: readonly number[];
  readonly formatStep: (value: number) => string;
  /** The values of a bucket in words. */
  readonly describe: (place: number) => string;
  readonly height: number;
  /** What a bucket is; default: a time. */
  readonly what?: string | undefined;
  /** Draws the marks; they are above the columns. */
  readonly marks: (plot: Plot) => ComponentChildren;
  /** Draws what marks the current column. */
  readonly current?: (plot: Plot, place: number) => ComponentChildren;
}

const TOP = 8;
const BELOW = 24;
const TICK_ROOM = 64;
const LETTER = 7;

export function ChartColumns(props: ChartColumnsProps) {
  const { label, buckets, steps, formatStep, describe, height, what = 'time' } = props;
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box);
  const [pointed, setPointed] = useState<number | undefined>(undefined);
  const [focused, setFocused] = useState(buckets.length - 1);
  const stop = Math.min(Math.max(0, focused), buckets.length - 1);

  const texts = steps.map(formatStep);
  const left = 8 + LETTER * Math.max(...texts.map(({ length }) => length));
  const plotWidth = Math.max(1, width - left - 4);
  const bottom = height - BELOW;
  const max = steps.at(-1) ?? 1;
  const columnWidth = plotWidth / Math.max(1, buckets.length);
  const plot: Plot = {
    x: (place) => left + (place + 0.5) * columnWidth,
    y: (value) => bottom - (Math.max(0, value) / max) * (bottom - TOP),
    columnWidth,
    bottom,
  };
  const majors = buckets.flatMap(({ isMajor }, place) => (isMajor ? [place] : []));
  const places = majors.length > 1 ? majors : buckets.map((_, place) => place);
  const labelled = shownLabels(places.length, plotWidth, TICK_ROOM).map((place) => places[place] ?? 0);
  const move = (event: KeyboardEvent) => {
    const last = buckets.length - 1;
    const to = { ArrowLeft: stop - 1, ArrowRight: stop + 1, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = Math.min(last, Math.max(0, to));
    setFocused(next);
    box.current?.querySelectorAll<SVGElement>('.chart-column')[next]?.focus();
  };
  const shown = pointed !== undefined && pointed < buckets.length ? pointed : undefined;
  return (
    <div ref={box} class="chart-box">
      <svg
        role="group"
        aria-label={`${label}. The arrow keys move between ${what}s.`}
        width={width}
        height={height}
        onKeyDown={move}
        onPointerLeave={() => setPointed(undefined)}
      >
        {steps.map((step, place) => (
          <g key={step} aria-hidden="true">
            <line class="chart-grid" x1={left} x2={left + plotWidth} y1={plot.y(step)} y2={plot.y(step)} />
            <text class="chart-text" x={left - 6} y={plot.y(step) + 4} text-anchor="end">
              {texts[place]}
            </text>
          </g>
        ))}
        {labelled.map((place) => (
          <text
            key={buckets[place]?.key}
            class="chart-text"
            x={Math.min(Math.max(plot.x(place), left + TICK_ROOM / 3), left + plotWidth - TICK_ROOM / 3)}
            y={height - 6}
            text-anchor="middle"
            aria-hidden="true"
          >
            {buckets[place]?.tick}
          </text>
        ))}
        {buckets.map((bucket, place) => (
          <Column
            key={bucket.key}
            bucket={bucket}
            text={describe(place)}
            isStop={place === stop}
            onShow={() => setPointed(place)}
            onFocus={() => {
              setFocused(place);
              setPointed(place);
            }}
            onBlur={() => setPointed(undefined)}
          >
            <rect x={left + place * columnWidth} y={TOP} width={columnWidth} height={bottom - TOP + BELOW} />
          </Column>
        ))}
        {props.marks(plot)}
        {shown !== undefined && props.current?.(plot, shown)}
      </svg>
      <p class="chart-readout" aria-hidden="true">
        {shown === undefined ? (
          <span class="chart-hint">Point at a {what}, or use the arrow keys, to read its values.</span>
        ) : (
          <>
            <strong>{buckets[shown]?.title}</strong> {describe(shown)}
          </>
        )}
      </p>
    </div>
  );
}

/** The title of a bucket, as a link where it has one. */
export function linked({ href, title }: Bucket) {
  return href === undefined ? title : <a href={href}>{title}</a>;
}

export function capitalised(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

interface ColumnProps {
  readonly bucket: Bucket;
  readonly text: string;
  readonly isStop: boolean;
  readonly onShow: () => void;
  readonly onFocus: () => void;
  readonly onBlur: () => void;
  readonly children: ComponentChildren;
}

function Column({ bucket, text, isStop, onShow, onFocus, onBlur, children }: ColumnProps) {
  const shared = {
    ...{ class: 'chart-column', 'aria-label': `${bucket.title}: ${text}`, tabindex: isStop ? 0 : -1 },
    ...{ onPointerMove: onShow, onFocus, onBlur },
  };
  if (bucket.href !== undefined) {
    return (
      <a {...shared} href={bucket.href}>
        {children}
      </a>
    );
  }
  return (
    // biome-ignore lint/a11y/noInteractiveElementToNoninteractiveRole: it is no control, but the arrow keys reach it
    <g {...shared} role="img">
      {children}
    </g>
  );
}
