/** State of the connection, rate and position. */
import { formatClock } from '../../format/times.ts';
import { rateAt } from '../../live/event-rate.ts';
import type { SharedStream } from '../../live/shared-stream.ts';
import { Button } from '../../ui/button.tsx';
import { Badge, type Tone } from '../../ui/status-badge.tsx';

const oneDigit = new Intl.NumberFormat(navigator.languages, { maximumFractionDigits: 1 });

interface LiveStatusProps {
  readonly stream: SharedStream;
  /** The browser's clock. The stream changes in place: a component that reads signals is drawn again for new props only. */
  readonly now: number;
}

export function LiveStatus({ stream, now }: LiveStatusProps) {
  const { status, state } = stream;
  const rate = rateAt(state.rate, now);
  return (
    <div class="live-status" data-connection={status.state} data-leader={stream.isLeader}>
      <Badge tone={tones[status.state]}>{titles[status.state]}</Badge>
      {status.state === 'waiting' && (
        <>
          <span>
            {status.message} Connects again in {Math.max(0, Math.ceil((status.until - now) / 1000))} s.
          </span>
          <Button onClick={() => stream.retry()}>Connect now</Button>
        </>
      )}
      {status.state === 'stopped' && <Button onClick={() => stream.retry()}>Connect again</Button>}
      <span title="Events per second, smoothed over some seconds">
        <output class="live-rate">{oneDigit.format(rate < 0.05 ? 0 : rate)}</output> events/s
      </span>
      {state.position !== undefined && (
        <span title="Position in the log: everything up to it has been received">
          Position <output class="live-position">{state.position.replace(/^0+(?=\d)/, '')}</output>
        </span>
      )}
      {state.lastAt > 0 && <span>Last event {formatClock(state.lastAt)}</span>}
    </div>
  );
}

const titles = { connecting: 'Connecting', live: 'Live', waiting: 'Disconnected', stopped: 'Stopped' } as const;
const tones: Readonly<Record<keyof typeof titles, Tone>> = {
  ...{ connecting: 'info', live: 'ok', waiting: 'warn', stopped: 'bad' },
};
