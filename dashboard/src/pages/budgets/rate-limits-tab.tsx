import { useState } from 'preact/hooks';
import { access, isGlobal } from '../../api/access.ts';
import { useAnswer } from '../../api/use-answer.ts';
import { asOfQuery, isPast } from '../../app/as-of.ts';
import { formatCount } from '../../format/numbers.ts';
import { Button } from '../../ui/button.tsx';
import { type Column, DataTable } from '../../ui/data-table.tsx';
import { EmptyState, ErrorPanel, Pending } from '../../ui/states.tsx';
import type { LimitRow } from './budget-row.ts';
import { LimitTools, searchedText } from './limit-tools.tsx';
import { periodTitle } from './periods.ts';
import { RateLimitDialog } from './rate-limit-dialog.tsx';
import { RemoveRateLimit, ResetAllRateLimits, ResetRateLimit } from './reset-rate-limits.tsx';
import { RuleActions } from './rule-actions.tsx';
import { rowKey } from './rule-name.ts';
import { UsageBar } from './usage-bar.tsx';

const REFRESH_MS = 5_000;

type LimitAction =
  | { readonly do: 'create' | 'reset-all' }
  | { readonly do: 'edit' | 'remove' | 'reset'; readonly row: LimitRow };

export function RateLimitsTab() {
  return access.value?.features['RATE_LIMITS_ENABLED'] === 'off' ? <RateLimitsOff /> : <RateLimitList />;
}

function RateLimitsOff() {
  return (
    <EmptyState title="Rate limits are switched off.">
      <p>
        Start the gateway with <code>RATE_LIMITS_ENABLED=true</code>, or set <code>rate_limits.enabled: true</code> in
        its configuration file.
      </p>
    </EmptyState>
  );
}

function RateLimitList() {
  const past = isPast.value;
  const { data, error, since, reload } = useAnswer(
    '/admin/rate-limits',
    asOfQuery(),
    past ? {} : { refreshMs: REFRESH_MS },
  );
  const [action, setAction] = useState<LimitAction | undefined>(undefined);
  const close = () => setAction(undefined);
  const done = () => {
    close();
    reload();
  };
  const searched = searchedText();
  const rows = data?.rate_limits.filter(({ subject }) => subject.toLowerCase().includes(searched));
  return (
    <>
      <LimitTools>
        {!past && <Button onClick={() => setAction({ do: 'create' })}>Create a rate limit</Button>}
        {!past && isGlobal.value && (
          <Button disabled={!data?.rate_limits.length} onClick={() => setAction({ do: 'reset-all' })}>
            Reset all
          </Button>
        )}
      </LimitTools>
      {past && <p class="limit-past">These are the limits of that time. Their counts are not recorded.</p>}
      {error !== undefined && <ErrorPanel error={error} onRetry={reload} />}
      {data === undefined && error === undefined && <Pending since={since} />}
      {rows !== undefined && rows.length > 0 && (
        <DataTable label="Rate limits" rows={rows} rowKey={rowKey} columns={columnsOf(past, setAction)} />
      )}
      {rows?.length === 0 && <NoRateLimits isPast={past} isSearched={searched !== ''} />}
      {!past && (
        <p class="limit-note">
          Windows slide: the counts are those of the last minute, hour or day. Tokens count when an answer is complete.
        </p>
      )}
      {action?.do === 'create' && <RateLimitDialog onClose={close} onDone={done} />}
      {action?.do === 'edit' && <RateLimitDialog row={action.row} onClose={close} onDone={done} />}
      {action?.do === 'remove' && <RemoveRateLimit row={action.row} onClose={close} onDone={done} />}
      {action?.do === 'reset' && <ResetRateLimit row={action.row} onClose={close} onDone={done} />}
      {action?.do === 'reset-all' && data !== undefined && (
        <ResetAllRateLimits rows={data.rate_limits} onClose={close} onDone={done} />
      )}
    </>
  );
}

function columnsOf(past: boolean, onAction: (action: LimitAction) => void): Column<LimitRow>[] {
  const columns: Column<LimitRow>[] = [
    {
      ...{ name: 'subject', title: 'User path, provider or model', width: 14 },
      cell: ({ scope, subject }) => (
        <span title={subject}>
          {subject}
          {scope !== 'user_path' && ` (${scope})`}
        </span>
      ),
    },
    {
      ...{ name: 'period', title: 'Per', width: 6.5 },
      cell: (row) => periodTitle(row.period_seconds, row.period_label),
    },
    {
      ...{ name: 'requests', title: 'Requests', width: 14 },
      cell: ({ requests_used: used, max_requests: most }) => <Counted {...{ used, most }} />,
    },
    {
      ...{ name: 'tokens', title: 'Tokens', width: 14 },
      cell: ({ tokens_used: used, max_tokens: most }) => <Counted {...{ used, most }} />,
    },
    {
      ...{ name: 'running', title: 'Running', width: 5, align: 'end' },
      cell: ({ in_flight: running }) => (running === null ? '–' : formatCount(running)),
    },
  ];
  if (past) return columns;
  return [
    ...columns,
    {
      ...{ name: 'actions', title: 'Change', width: 12.2 },
      cell: (row) => (
        <RuleActions
          of={`the rate limit of ${row.subject} per ${periodTitle(row.period_seconds, row.period_label)}`}
          isDeclared={row.source === 'config'}
          onAction={(name) => onAction({ do: name, row })}
        />
      ),
    },
  ];
}

function Counted({ used, most }: { readonly used: number | null; readonly most: number | undefined }) {
  if (most === undefined) return <span class="limit-unknown">no limit</span>;
  if (used === null) return <>at most {formatCount(most)}</>;
  return <UsageBar used={used} most={most} text={`${formatCount(used)} of ${formatCount(most)}`} />;
}

function NoRateLimits({ isPast, isSearched }: { readonly isPast: boolean; readonly isSearched: boolean }) {
  if (isSearched) return <EmptyState title="No rate limit of such a path, provider or model." />;
  if (isPast) return <EmptyState title="There was no rate limit at this time." />;
  return (
    <EmptyState title="There is no rate limit.">
      <p>
        A rate limit bounds the requests or tokens of a user path and all paths below it, of a provider, or of a model.
      </p>
    </EmptyState>
  );
}
