import { sendChange } from '../../api/send-change.ts';
import { formatCount } from '../../format/numbers.ts';
import { ConfirmDialog } from '../../ui/confirm-dialog.tsx';
import type { LimitRow } from './budget-row.ts';
import { limitBasis } from './current-limit.ts';
import { periodTitle } from './periods.ts';
import { rowKey } from './rule-name.ts';

interface OneProps {
  readonly row: LimitRow;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

const titleOf = (row: LimitRow) =>
  `rate limit of ${row.subject} per ${periodTitle(row.period_seconds, row.period_label)}`;

/** What the limit has counted, in words. */
function countsOf({ requests_used: requests, tokens_used: tokens, max_tokens: mostTokens, period_seconds }: LimitRow) {
  const running = period_seconds === 0 ? ' under way' : '';
  const ofTokens = mostTokens === undefined ? '' : ` and ${formatCount(tokens ?? 0)} tokens`;
  return `${formatCount(requests ?? 0)} requests${running}${ofTokens}`;
}

function limitsOf({ max_requests: requests, max_tokens: tokens }: LimitRow): string {
  const parts = [
    ...(requests === undefined ? [] : [`${formatCount(requests)} requests`]),
    ...(tokens === undefined ? [] : [`${formatCount(tokens)} tokens`]),
  ];
  return parts.join(' and ');
}

export function RemoveRateLimit({ row, onClose, onDone }: OneProps) {
  const { scope, subject, period_seconds } = row;
  return (
    <ConfirmDialog
      title={`Remove the ${titleOf(row)}?`}
      effect={<p>Its limit of {limitsOf(row)} no longer applies. Other rate limits stay.</p>}
      confirmLabel="Remove the rate limit"
      basis={limitBasis(row)}
      run={(ifMatch) =>
        sendChange({
          ...{ method: 'DELETE', of: '/admin/rate-limits', ifMatch },
          json: { scope, subject, limit_key: { period_seconds } },
        })
      }
      onClose={onClose}
      onDone={onDone}
    />
  );
}

export function ResetRateLimit({ row, onClose, onDone }: OneProps) {
  const { scope, subject, period_seconds } = row;
  return (
    <ConfirmDialog
      title={`Reset the ${titleOf(row)}?`}
      effect={<p>Its counts are set to 0. They are {countsOf(row)} now.</p>}
      confirmLabel="Set the counts to 0"
      basis={limitBasis(row)}
      run={(ifMatch) =>
        sendChange({
          ...{ method: 'POST', of: '/admin/rate-limits/reset-one', ifMatch },
          json: { scope, subject, period_seconds },
        })
      }
      onClose={onClose}
      onDone={onDone}
    />
  );
}

interface AllProps {
  readonly rows: readonly LimitRow[];
  readonly onClose: () => void;
  readonly onDone: () => void;
}

export function ResetAllRateLimits({ rows, onClose, onDone }: AllProps) {
  return (
    <ConfirmDialog
      title={`Reset ${rows.length === 1 ? 'the only rate limit' : `all ${rows.length} rate limits`}?`}
      effect={
        <>
          <p>The counts of each rate limit are set to 0:</p>
          <ul class="limit-list" tabIndex={0} aria-label="Rate limits that are reset">
            {rows.map((row) => (
              <li key={rowKey(row)}>
                {titleOf(row)}: {countsOf(row)}
              </li>
            ))}
          </ul>
        </>
      }
      confirmLabel="Set all counts to 0"
      run={() => sendChange({ method: 'POST', of: '/admin/rate-limits/reset', json: { confirmation: 'reset' } })}
      onClose={onClose}
      onDone={onDone}
    />
  );
}
