/** The recorded stream, replayed at its own pace. */
import { useMemo } from 'preact/hooks';
import { StreamPlayer } from '../../content/stream/stream-player-view.tsx';
import { EmptyState } from '../../ui/states.tsx';
import { dialectOf } from './record/dialect.ts';
import type { ExchangeFacts } from './record/exchange-facts.ts';
import { recordedStream } from './record/recorded-bodies.ts';
import type { RecordedEvent } from './record/recorded-event.ts';

interface ReplayTabProps {
  readonly events: readonly RecordedEvent[];
  readonly facts: ExchangeFacts;
}

export function ReplayTab({ events, facts }: ReplayTabProps) {
  const stream = useMemo(() => recordedStream(events), [events]);
  if (stream === undefined) return <EmptyState title="No stream is recorded for this request." />;
  const recorded = stream.side === 'delivered' ? facts.dialect : (facts.attempts.at(-1)?.dialect ?? facts.dialect);
  return (
    <div class="exchange-stack">
      <p class="exchange-muted">
        {stream.side === 'delivered'
          ? 'As the client received it, after its guardrails.'
          : 'As the provider sent it. Times are those at which the gateway recorded each piece.'}
      </p>
      <StreamPlayer chunks={stream.frames} dialect={dialectOf(recorded, facts.path) ?? 'chat'} />
    </div>
  );
}
