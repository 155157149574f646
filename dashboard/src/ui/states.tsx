/** What is shown instead of data: loading, an error, nothing. */
import './states.css';
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { ApiError } from '../api/client.ts';
import { formatDuration } from '../format/numbers.ts';
import { Button } from './button.tsx';

interface PendingProps {
  /** When loading began, in milliseconds of `performance.now()`. */
  readonly since: number;
  readonly onCancel?: () => void;
  readonly children?: ComponentChildren;
}

/** Shows nothing at first, then that something is loading, and after a second for how long, with a way to stop. */
export function Pending({ since, onCancel, children = 'Loading' }: PendingProps) {
  const [elapsed, setElapsed] = useState(performance.now() - since);
  useEffect(() => {
    const timer = setInterval(() => setElapsed(performance.now() - since), 250);
    return () => clearInterval(timer);
  }, [since]);
  const isSlow = elapsed > 1000;
  return (
    <div class="pending" role="status" data-shown={elapsed > 250}>
      <progress aria-label="Loading" />
      <span>
        {children}
        {isSlow && <span aria-hidden="true"> ({formatDuration(Math.floor(elapsed / 1000) * 1000)})</span>}
      </span>
      {isSlow && onCancel !== undefined && <Button onClick={onCancel}>Cancel</Button>}
    </div>
  );
}

interface ErrorPanelProps {
  readonly error: ApiError;
  readonly onRetry?: () => void;
}

/** The gateway's message, in the place where the data would be. */
export function ErrorPanel({ error, onRetry }: ErrorPanelProps) {
  return (
    <div class="error-panel" role="alert">
      <p>
        <strong>{titleOf(error)}</strong> {error.message}
      </p>
      <p class="error-panel-facts">
        {error.status > 0 && <span>HTTP {error.status}</span>} {!ownCodes.has(error.code) && <code>{error.code}</code>}
        {error.parameter !== undefined && (
          <span>
            {' '}
            parameter <code>{error.parameter}</code>
          </span>
        )}
      </p>
      {onRetry !== undefined && <Button onClick={onRetry}>Try again</Button>}
    </div>
  );
}

/** Codes of the page, not of the gateway. */
const ownCodes: ReadonlySet<string> = new Set(['unreachable', 'unknown', 'unexpected', 'no_json', 'outcome_unknown']);

function titleOf({ status, code }: ApiError): string {
  if (code === 'outcome_unknown') return 'It may have been done.';
  if (status === 0 || ownCodes.has(code)) return 'No answer.';
  if (status === 403) return 'Not allowed.';
  if (status === 404) return 'Not found.';
  if (status >= 500) return 'The gateway could not answer.';
  return 'The gateway refused this.';
}

interface EmptyStateProps {
  readonly title: string;
  /** What to do now. */
  readonly children?: ComponentChildren;
}

export function EmptyState({ title, children }: EmptyStateProps) {
  return (
    <div class="empty-state">
      <p class="empty-state-title">{title}</p>
      {children}
    </div>
  );
}
