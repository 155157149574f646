/** Lines over time, with gaps where there is no value. Lines differ in dashes and points as well as in colour. */
import { type Bucket, ChartColumns, capitalised, linked } from './chart-columns.tsx';
import { ChartFrame } from './chart-frame.tsx';
import { lineParts, linePath, roundSteps } from './scale.ts';

export interface Line {
  readonly name: string;
  readonly title: string;
  /** One for each bucket; null is a gap. */
  readonly values: readonly (number | null)[];
}

interface LinesProps {
  readonly label: string;
  readonly buckets: readonly Bucket[];
  readonly lines: readonly Line[];
  readonly format: (value: number) => string;
  readonly height?: number;
  /** What a bucket is; default: a time. */
  readonly what?: string;
}

const dashes = [undefined, '6 3', '2 3', '8 3 2 3', '4 2', '1 3', '10 4', '3 3'];
export const seriesColor = (place: number) => `var(--series-${(place % 8) + 1})`;

export function Lines({ label, buckets, lines, format, height = 220, what = 'time' }: LinesProps) {
  const max = Math.max(0, ...lines.flatMap(({ values }) => values.map((value) => value ?? 0)));
  const text = (value: number | null | undefined) => (value === null || value === undefined ? '–' : format(value));
  const describe = (place: number) => lines.map(({ title, values }) => `${title} ${text(values[place])}`).join(', ');
  return (
    <ChartFrame
      label={label}
      height={height + 28}
      legend={lines.map(({ name, title }, place) => (
        <span key={name} class="chart-legend-entry">
          <svg width="26" height="12" aria-hidden="true">
            <path d="M1 6H25" class="chart-line" style={styleOf(place)} />
            <PointMark x={13} y={6} place={place} />
          </svg>{' '}
          {title}
        </span>
      ))}
      table={() => ({
        columns: [capitalised(what), ...lines.map(({ title }) => title)],
        rows: buckets.map((bucket, place) => ({
          key: bucket.key,
          cells: [linked(bucket), ...lines.map(({ values }) => text(values[place]))],
        })),
      })}
    >
      <ChartColumns
        label={label}
        buckets={buckets}
        steps={roundSteps(max)}
        formatStep={format}
        describe={describe}
        height={height}
        what={what}
        current={(plot, place) => (
          <g>
            <line class="chart-cursor" x1={plot.x(place)} x2={plot.x(place)} y1={8} y2={plot.bottom} />
            {lines.map(({ name, values }, at) => {
              const value = values[place];
              if (value === null || value === undefined) return null;
              return <PointMark key={name} x={plot.x(place)} y={plot.y(value)} place={at} />;
            })}
          </g>
        )}
        marks={(plot) =>
          lines.map(({ name, values }, at) => {
            const points = values.map((value, place) =>
              value === null ? null : { x: plot.x(place), y: plot.y(value) },
            );
            return (
              <g key={name} class="chart-mark">
                <path d={linePath(points)} class="chart-line" style={styleOf(at)} />
                {lineParts(points)
                  .filter((part) => part.length === 1)
                  .map(([point]) => point && <PointMark key={point.x} x={point.x} y={point.y} place={at} />)}
              </g>
            );
          })
        }
      />
    </ChartFrame>
  );
}

function styleOf(place: number) {
  const dash = dashes[place % dashes.length];
  return { stroke: seriesColor(place), ...(dash === undefined ? {} : { strokeDasharray: dash }) };
}

/** A circle, a square, a triangle or a diamond. */
function PointMark({ x, y, place }: { readonly x: number; readonly y: number; readonly place: number }) {
  const shapes = [
    `M${x - 3.5} ${y}a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0`,
    `M${x - 3} ${y - 3}h6v6h-6z`,
    `M${x} ${y - 4}l4 7h-8z`,
    `M${x} ${y - 4.5}l4.5 4.5l-4.5 4.5l-4.5 -4.5z`,
  ];
  return <path d={shapes[place % shapes.length]} style={{ fill: seriesColor(place) }} class="chart-point" />;
}
