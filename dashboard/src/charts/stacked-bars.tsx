/** Bars over time, each a stack of kinds. Kinds differ in pattern as well as in colour. */
import { formatCompact } from '../format/numbers.ts';
import { type Bucket, ChartColumns, capitalised, linked } from './chart-columns.tsx';
import { ChartFrame } from './chart-frame.tsx';
import { type Pattern, Patterns, Swatch, usePatterns } from './patterns.tsx';
import { stacked, wholeSteps } from './scale.ts';

export interface BarKind {
  readonly name: string;
  readonly title: string;
  /** A CSS colour. */
  readonly color: string;
  readonly pattern: Pattern;
  /** One for each bucket; null is unknown. */
  readonly values: readonly (number | null)[];
  /** Where the part of a bar leads. */
  readonly href?: (place: number) => string | undefined;
}

interface StackedBarsProps {
  readonly label: string;
  readonly buckets: readonly Bucket[];
  readonly kinds: readonly BarKind[];
  readonly format: (value: number) => string;
  readonly formatStep?: (value: number) => string;
  readonly steps?: (max: number) => readonly number[];
  readonly height?: number;
  /** What a bucket is; default: a time. */
  readonly what?: string;
  /** Drawn as a line across each bar: such as the sum of another time. */
  readonly compare?: { readonly title: string; readonly values: readonly (number | null)[] };
}

export function StackedBars(props: StackedBarsProps) {
  const {
    label,
    buckets,
    kinds,
    format,
    formatStep = formatCompact,
    steps = wholeSteps,
    height = 220,
    compare,
    what = 'time',
  } = props;
  const patterns = usePatterns();
  const stacks = buckets.map((_, place) => stacked(kinds.map(({ values }) => values[place] ?? null)));
  const max = Math.max(0, ...stacks.map((stack) => stack.at(-1)?.to ?? 0), ...(compare?.values ?? []).map(Number));
  const text = (value: number | null | undefined) =>
    value === null || value === undefined ? 'unknown' : format(value);
  const series = [...kinds, ...(compare === undefined ? [] : [compare])];
  const describe = (place: number) => series.map(({ title, values }) => `${title} ${text(values[place])}`).join(', ');
  return (
    <ChartFrame
      label={label}
      height={height + 28}
      legend={
        <>
          <svg width="0" height="0" aria-hidden="true" class="chart-definitions">
            <Patterns of={patterns} />
          </svg>
          {kinds.map(({ name, title, color, pattern }) => (
            <span key={name} class="chart-legend-entry">
              <Swatch color={color} pattern={pattern} patterns={patterns} /> {title}
            </span>
          ))}
          {compare !== undefined && (
            <span class="chart-legend-entry">
              <svg width="18" height="12" aria-hidden="true">
                <path d="M1 6H17" class="chart-compare" />
              </svg>{' '}
              {compare.title}
            </span>
          )}
        </>
      }
      table={() => ({
        columns: [capitalised(what), ...series.map(({ title }) => title)],
        rows: buckets.map((bucket, place) => ({
          key: bucket.key,
          cells: [
            linked(bucket),
            ...kinds.map(({ values, href }) => {
              const to = href?.(place);
              const value = text(values[place]);
              return to === undefined || !values[place] ? value : <a href={to}>{value}</a>;
            }),
            ...(compare === undefined ? [] : [text(compare.values[place])]),
          ],
        })),
      })}
    >
      <ChartColumns
        label={label}
        buckets={buckets}
        steps={steps(max)}
        formatStep={formatStep}
        describe={describe}
        height={height}
        what={what}
        current={(plot, place) => (
          <rect
            class="chart-current"
            x={plot.x(place) - plot.columnWidth / 2}
            y={8}
            width={plot.columnWidth}
            height={plot.bottom - 8}
          />
        )}
        marks={(plot) => {
          const width = Math.max(1, plot.columnWidth - (plot.columnWidth > 6 ? 2 : plot.columnWidth > 3 ? 1 : 0));
          return stacks.map((stack, place) => (
            <g key={buckets[place]?.key} aria-hidden="true">
              {kinds.map((kind, at) => {
                const { from = 0, to = 0 } = stack[at] ?? {};
                if (to <= from) return null;
                const box = {
                  x: plot.x(place) - width / 2,
                  y: plot.y(to),
                  width,
                  // A single failure among thousands of requests stays visible.
                  height: Math.max(1.5, plot.y(from) - plot.y(to)),
                };
                return <Part key={kind.name} kind={kind} place={place} box={box} patterns={patterns} />;
              })}
              {typeof compare?.values[place] === 'number' && (
                <path
                  class="chart-compare"
                  d={`M${plot.x(place) - plot.columnWidth / 2} ${plot.y(compare.values[place])}h${plot.columnWidth}`}
                />
              )}
            </g>
          ));
        }}
      />
    </ChartFrame>
  );
}

interface PartProps {
  readonly kind: BarKind;
  readonly place: number;
  readonly box: { readonly x: number; readonly y: number; readonly width: number; readonly height: number };
  readonly patterns: string;
}

/** For pointers alone: by keyboard, the column and the table have the same links. In SVG, attributes are in lower case. */
function Part({ kind, place, box, patterns }: PartProps) {
  const href = kind.href?.(place);
  const rects = (
    <>
      <rect {...box} style={{ fill: kind.color }} />
      {kind.pattern !== 'plain' && <rect {...box} fill={`url(#${patterns}-${kind.pattern})`} />}
    </>
  );
  if (href === undefined) return <g class="chart-mark">{rects}</g>;
  return (
    <a href={href} tabindex={-1} class="chart-mark-link">
      {rects}
    </a>
  );
}
