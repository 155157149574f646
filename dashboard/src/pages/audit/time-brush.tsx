import './time-brush.css';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Answer } from '../../api/client.ts';
import type { Loaded } from '../../api/use-answer.ts';
import { formatCount } from '../../format/numbers.ts';
import { formatTime } from '../../format/times.ts';
import { Button } from '../../ui/button.tsx';
import { chooseInstants } from '../../ui/range.ts';
import { ErrorPanel } from '../../ui/states.tsx';
import { type BrushBucket, type Brushed, bucketAt, bucketsBetween, movedBy, timesOf } from './brush.ts';
import { Waiting } from './waiting.tsx';

type Histogram = Answer<'/admin/audit/histogram'>;
type Bucket = Histogram['buckets'][number];

/** Bottom to top. */
const series = [
  { of: 'status_2xx', title: '2xx', class: 'brush-ok' },
  { of: 'status_4xx', title: '4xx', class: 'brush-warn' },
  { of: 'status_5xx', title: '5xx', class: 'brush-bad' },
  { of: 'status_other', title: 'other', class: 'brush-other' },
] as const;

const WIDTH = 1200;
const HEIGHT = 72;

/** Requests over time. Dragging, or the arrow keys with Shift and Enter, choose a time range. */
export function TimeBrush({ answer }: { readonly answer: Loaded<Histogram> }) {
  const { data, error, isLoading, since, cancel, reload } = answer;
  return (
    <section class="brush" aria-label="Requests over time">
      {error !== undefined && <ErrorPanel error={error} onRetry={reload} />}
      {data === undefined ? (
        <Waiting isLoading={isLoading} isFailed={error !== undefined} since={since} onCancel={cancel} onLoad={reload} />
      ) : (
        // Another range is another choice.
        <Brush key={`${data.from} ${data.to}`} data={data} />
      )}
    </section>
  );
}

function Brush({ data }: { readonly data: Histogram }) {
  const [brushed, setBrushed] = useState<Brushed | undefined>(undefined);
  const [isDragging, setDragging] = useState(false);
  const chart = useRef<HTMLDivElement>(null);
  const { buckets } = data;
  const spans = bucketsBetween(
    buckets.map(({ start }) => Date.parse(start)),
    Math.min(Date.parse(data.to), Date.now()),
  );
  const chosen = brushed === undefined ? undefined : timesOf(spans, brushed);
  const apply = () => {
    if (chosen !== undefined) chooseInstants(new Date(chosen.from).toISOString(), new Date(chosen.to).toISOString());
  };
  const bucketOf = ({ clientX }: PointerEvent) => {
    const { left, width } = chart.current?.getBoundingClientRect() ?? { left: 0, width: 1 };
    return bucketAt((clientX - left) / width, buckets.length);
  };
  // A drag may end outside of the chart.
  useEffect(() => {
    if (!isDragging) return undefined;
    const end = () => setDragging(false);
    addEventListener('pointerup', end);
    return () => removeEventListener('pointerup', end);
  }, [isDragging]);

  return (
    <>
      <div
        ref={chart}
        class="brush-chart"
        tabIndex={0}
        role="group"
        aria-label="Chart of requests over time. Arrow keys move, Shift extends, Enter shows the chosen time."
        onPointerDown={(event) => {
          if (event.button !== 0 || buckets.length === 0) return;
          event.currentTarget.setPointerCapture(event.pointerId);
          const at = bucketOf(event);
          setBrushed({ anchor: at, cursor: at });
          setDragging(true);
        }}
        onPointerMove={(event) => {
          if (isDragging) setBrushed((before) => before && { ...before, cursor: bucketOf(event) });
        }}
        onPointerUp={() => {
          setDragging(false);
          if (brushed !== undefined && brushed.anchor !== brushed.cursor) apply();
        }}
        onKeyDown={(event) => {
          if (event.key === 'Enter' && chosen !== undefined) apply();
          else if (event.key === 'Escape' && brushed !== undefined) setBrushed(undefined);
          else {
            const moved = movedBy(event.key, event.shiftKey, brushed, buckets.length);
            if (moved === undefined) return;
            setBrushed(moved);
          }
          event.preventDefault();
        }}
      >
        <Bars buckets={buckets} brushed={brushed} />
      </div>
      <div class="brush-foot">
        <p role="status">
          {chosen === undefined || brushed === undefined ? totalText(buckets) : readout(buckets, spans, brushed)}
        </p>
        {chosen !== undefined && (
          <span class="brush-actions">
            <Button onClick={apply}>Show this time</Button>
            <Button look="quiet" onClick={() => setBrushed(undefined)}>
              Clear
            </Button>
          </span>
        )}
        <Legend />
      </div>
      <BucketTable buckets={buckets} />
    </>
  );
}

function Bars({ buckets, brushed }: { readonly buckets: readonly Bucket[]; readonly brushed: Brushed | undefined }) {
  const most = Math.max(1, ...buckets.map(({ requests }) => requests));
  const step = WIDTH / Math.max(1, buckets.length);
  const gap = Math.min(2, step / 5);
  return (
    <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
      {brushed !== undefined && (
        <rect
          class="brush-chosen"
          x={Math.min(brushed.anchor, brushed.cursor) * step}
          y={0}
          width={(Math.abs(brushed.anchor - brushed.cursor) + 1) * step}
          height={HEIGHT}
        />
      )}
      {buckets.map((bucket, place) => {
        let top = HEIGHT;
        return series.map(({ of, class: name }) => {
          const count = bucket[of];
          if (count === 0) return null;
          // The smallest number is still visible.
          const height = Math.max(1.5, (count / most) * (HEIGHT - 4));
          top -= height;
          return (
            <rect
              key={`${bucket.start} ${of}`}
              class={name}
              x={place * step}
              y={top}
              width={step - gap}
              height={height}
            />
          );
        });
      })}
      <line class="brush-axis" x1={0} x2={WIDTH} y1={HEIGHT} y2={HEIGHT} />
    </svg>
  );
}

function Legend() {
  return (
    <ul class="brush-legend">
      {series.map(({ of, title, class: name }) => (
        <li key={of}>
          <svg viewBox="0 0 10 10" width="10" height="10" aria-hidden="true">
            <rect class={name} width="10" height="10" />
          </svg>{' '}
          {title}
        </li>
      ))}
    </ul>
  );
}

/** The same as numbers. */
function BucketTable({ buckets }: { readonly buckets: readonly Bucket[] }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details class="brush-table" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>As a table</summary>
      {isOpen && (
        <div class="brush-scroll" tabIndex={0} role="group" aria-label="Requests over time as a table">
          <table>
            <thead>
              <tr>
                <th scope="col">From</th>
                <th scope="col">Requests</th>
                {series.map(({ of, title }) => (
                  <th key={of} scope="col">
                    {title}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {buckets.map((bucket) => (
                <tr key={bucket.start}>
                  <th scope="row">{formatTime(bucket.start)}</th>
                  <td>{formatCount(bucket.requests)}</td>
                  {series.map(({ of }) => (
                    <td key={of}>{formatCount(bucket[of])}</td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </details>
  );
}

export function requestsIn(buckets: readonly Bucket[]): number {
  return buckets.reduce((sum, { requests }) => sum + requests, 0);
}

function totalText(buckets: readonly Bucket[]): string {
  const count = requestsIn(buckets);
  return count === 1 ? '1 request' : `${formatCount(count)} requests`;
}

function readout(buckets: readonly Bucket[], spans: readonly BrushBucket[], brushed: Brushed): string {
  const [first, last] = [Math.min(brushed.anchor, brushed.cursor), Math.max(brushed.anchor, brushed.cursor)];
  const inside = buckets.slice(first, last + 1);
  const times = timesOf(spans, brushed);
  if (times === undefined) return totalText(buckets);
  const counts = series
    .map(({ of, title }) => [title, inside.reduce((sum, bucket) => sum + bucket[of], 0)] as const)
    .filter(([, count]) => count > 0)
    .map(([title, count]) => `${title}: ${formatCount(count)}`);
  const what = counts.length === 0 ? 'no requests' : counts.join(', ');
  return `${formatTime(times.from)} to ${formatTime(times.to)}: ${what}`;
}
