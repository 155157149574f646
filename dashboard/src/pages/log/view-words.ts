/** The words of the page for the state of a read model. */
import type { Answer } from '../../api/client.ts';
import { formatCount, formatDuration } from '../../format/numbers.ts';
import type { Tone } from '../../ui/status-badge.tsx';

export type ViewRow = Answer<'/admin/views'>['views'][number];

export const states: Readonly<Record<ViewRow['state'], { readonly text: string; readonly tone: Tone }>> = {
  live: { text: 'live', tone: 'ok' },
  catching_up: { text: 'catching up', tone: 'warn' },
  stopped: { text: 'stopped', tone: 'bad' },
  unknown: { text: 'not known', tone: 'plain' },
};

/** A read model that is live gets events within milliseconds: what is on its way is no lag. */
export function lagText({ state, lag_events: events, lag_seconds: seconds }: ViewRow): string {
  if (state === 'live' && (seconds ?? 0) < 1) return 'no lag';
  const parts = [
    events === null ? undefined : `${formatCount(events)} ${events === 1 ? 'event' : 'events'} behind`,
    seconds === null ? undefined : `for ${formatDuration(Math.round(seconds) * 1000)}`,
  ].filter((part) => part !== undefined);
  return parts.length === 0 ? 'lag not known' : parts.join(', ');
}

/** Those that need attention first; the others in their order. */
export function urgentFirst(views: readonly ViewRow[]): readonly ViewRow[] {
  const urgency = { stopped: 0, catching_up: 1, unknown: 2, live: 2 } as const;
  return views.toSorted((a, b) => urgency[a.state] - urgency[b.state]);
}
