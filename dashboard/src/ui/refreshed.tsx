/** Figures that are read again by themselves: they are the present state, or marked with the time that they are of. */
import './refreshed.css';
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { Loaded } from '../api/use-answer.ts';
import { formatDuration } from '../format/numbers.ts';
import { ageOf, isOld } from './age.ts';
import { Time } from './facts.tsx';
import { ErrorPanel, Pending } from './states.tsx';

interface RefreshedProps<Data> {
  readonly loaded: Loaded<Data>;
  /** As given to `useAnswer`. */
  readonly refreshMs: number;
  readonly children: (data: Data) => ComponentChildren;
}

/**
 * Shows the newest answer. When reading it again has failed, or the newer answer is overdue, the one before stays, marked
 * as old, with its time and age; the error is above it.
 */
export function Refreshed<Data>({ loaded, refreshMs, children }: RefreshedProps<Data>) {
  const { data, readAt, error, since, cancel, reload } = loaded;
  const now = useSeconds();
  const age = readAt === undefined ? 0 : ageOf(readAt, now);
  const old = data !== undefined && isOld({ age, refreshMs, hasFailed: error !== undefined });
  return (
    <div class="refreshed">
      {error !== undefined && <ErrorPanel error={error} onRetry={reload} />}
      {data === undefined && error === undefined && <Pending since={since} onCancel={cancel} />}
      <div role="status" class="refreshed-age">
        {old && readAt !== undefined && (
          <p>
            <strong>Not the present state.</strong> As of <Time at={readAt} />
            {/* It changes every second, and is not read aloud each time. */}
            <span aria-hidden="true">, {formatDuration(age)} ago</span>.
          </p>
        )}
      </div>
      {data !== undefined && (
        <div class="refreshed-data" data-old={old}>
          {children(data)}
        </div>
      )}
    </div>
  );
}

/** The time, each second. */
function useSeconds(): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  return now;
}
