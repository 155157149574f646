import './timeline.css';
import { useEffect, useState } from 'preact/hooks';
import { hrefOf } from '../../../app/router.ts';
import { Pieces } from '../../../content/text/pieces.tsx';
import { formatDuration } from '../../../format/numbers.ts';
import { Badge } from '../../../ui/status-badge.tsx';
import type { ExchangeFacts } from '../record/exchange-facts.ts';
import type { RecordedEvent, RelatedLink } from '../record/recorded-event.ts';
import { type TimelineStep, timelineOf } from './timeline.ts';

interface TimelineTabProps {
  readonly id: string;
  readonly events: readonly RecordedEvent[];
  readonly facts: ExchangeFacts;
  readonly related: readonly RelatedLink[];
}

/** The steps as a table whose last column draws them on a common axis. */
export function TimelineTab({ id, events, facts, related }: TimelineTabProps) {
  const now = useClock(facts.end === undefined);
  const { steps, totalMs } = timelineOf(events, facts, related, now);
  return (
    // A region that scrolls must be reachable by keyboard.
    <div class="timeline" tabIndex={0} role="group" aria-label="Timeline">
      <table>
        <caption class="visually-hidden">
          Steps of the request, in the order of their begin, over {formatDuration(totalMs)}
        </caption>
        <thead>
          <tr>
            <th scope="col">Step</th>
            <th scope="col" data-align="end">
              Begin
            </th>
            <th scope="col" data-align="end">
              Duration
            </th>
            <th scope="col" class="timeline-axis">
              <span class="visually-hidden">Position in time</span>
              <Axis totalMs={totalMs} />
            </th>
          </tr>
        </thead>
        <tbody>
          {steps.map((step) => (
            <Row key={step.key} id={id} step={step} totalMs={totalMs} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Axis({ totalMs }: { readonly totalMs: number }) {
  return (
    <span class="timeline-scale" aria-hidden="true">
      {[0, 0.25, 0.5, 0.75, 1].map((part) => (
        <span key={part} style={{ insetInlineStart: `${part * 100}%` }}>
          {formatDuration(totalMs * part)}
        </span>
      ))}
    </span>
  );
}

interface RowProps {
  readonly id: string;
  readonly step: TimelineStep;
  readonly totalMs: number;
}

function Row({ id, step, totalMs }: RowProps) {
  const { title, details, startMs, endMs, tone, depth, revision, exchange, word = toneWords[tone] } = step;
  const end = endMs ?? totalMs;
  const scale = totalMs === 0 ? 0 : 100 / totalMs;
  const isMoment = end <= startMs;
  return (
    <tr data-depth={depth}>
      <th scope="row">
        {revision === undefined ? (
          <Pieces text={title} />
        ) : (
          <a href={hrefOf(`/exchange/${encodeURIComponent(id)}`, { tab: 'events', revision })}>
            <Pieces text={title} />
          </a>
        )}
        {tone !== 'plain' && <Badge tone={tone}>{word}</Badge>}
        {(details.length > 0 || exchange !== undefined) && (
          <span class="timeline-details">
            <Pieces text={details.join(' · ')} />
            {exchange !== undefined && <a href={hrefOf(`/exchange/${encodeURIComponent(exchange)}`)}>{exchange}</a>}
          </span>
        )}
      </th>
      <td data-align="end">{formatDuration(startMs)}</td>
      <td data-align="end">{endMs === undefined ? 'running' : isMoment ? '–' : formatDuration(end - startMs)}</td>
      <td class="timeline-bar">
        <span class="timeline-track">
          <span
            class={isMoment ? 'timeline-moment' : 'timeline-span'}
            data-tone={tone}
            style={{
              insetInlineStart: `${Math.min(100, startMs * scale)}%`,
              width: isMoment ? undefined : `${(end - startMs) * scale}%`,
            }}
          />
        </span>
      </td>
    </tr>
  );
}

const toneWords = { ok: 'ok', warn: 'warning', bad: 'failed', info: 'running', plain: '' } as const;

/** The present, twice a second while it is needed. */
function useClock(isRunning: boolean): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (!isRunning) return undefined;
    const timer = setInterval(() => setNow(Date.now()), 500);
    return () => clearInterval(timer);
  }, [isRunning]);
  return now;
}
