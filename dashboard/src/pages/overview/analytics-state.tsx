import { formatCount, formatDuration } from '../../format/numbers.ts';
import { Badge } from '../../ui/status-badge.tsx';
import type { Overview } from './overview-links.ts';

/** How current the figures are. */
export function AnalyticsState({ analytics }: { readonly analytics: Overview['analytics'] }) {
  const { state, lag_events: events, lag_seconds: seconds } = analytics;
  if (state === 'off') return <Badge tone="bad">Analytics is off</Badge>;
  if (state === 'down') return <Badge tone="bad">Analytics does not follow the log</Badge>;
  const text =
    events === null
      ? 'Analytics starts'
      : events === 0
        ? 'Figures are current'
        : `${formatCount(events)} ${events === 1 ? 'event' : 'events'} behind${seconds === null ? '' : `, ${formatDuration(seconds * 1000)}`}`;
  return <Badge tone={state === 'behind' ? 'warn' : 'ok'}>{text}</Badge>;
}
