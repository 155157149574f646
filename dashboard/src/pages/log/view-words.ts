/** The words of the page for the state of a read model. */
import { formatCount, formatDuration } from '../../format/numbers.ts';

/** What the words depend on. */
export interface ViewState {
  readonly state: 'catching_up' | 'live' | 'stopped' | 'unknown';
  readonly lag_events: number | null;
  readonly lag_seconds: number | null;
}

export const states = {
  live: { text: 'live', tone: 'ok' },
  catching_up: { text: 'catching up', tone: 'warn' },
  stopped: { text: 'stopped', tone: 'bad' },
  unknown: { text: 'not known', tone: 'plain' },
} as const;

/** A read model that is live gets events within milliseconds: what is on its way is no lag. */
export function lagText({ state, lag_events: events, lag_seconds: seconds }: ViewState): string {
  if (state === 'live' && (seconds ?? 0) < 1) return 'no lag';
  const parts = [
    events === null ? undefined : `${formatCount(events)} ${events === 1 ? 'event' : 'events'} behind`,
    seconds === null ? undefined : `for ${formatDuration(Math.round(seconds) * 1000)}`,
  ].filter((part) => part !== undefined);
  return parts.length === 0 ? 'lag not known' : parts.join(', ');
}

/** Those that need attention first; the others in their order. */
export function urgentFirst<View extends ViewState>(views: readonly View[]): readonly View[] {
  const urgency = { stopped: 0, catching_up: 1, unknown: 2, live: 2 } as const;
  return views.toSorted((a, b) => urgency[a.state] - urgency[b.state]);
}
