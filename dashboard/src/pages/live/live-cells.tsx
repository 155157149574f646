/** One row of the live list. All texts come from requests: they are shown as text, with hidden characters as marks. */
import { useMemo } from 'preact/hooks';
import { hrefOf } from '../../app/router.ts';
import { visibleText } from '../../content/text/hidden-characters.ts';
import { formatCompact, formatDuration, formatMoney } from '../../format/numbers.ts';
import { formatClock, formatExact } from '../../format/times.ts';
import { isOpen, type LiveRow, type RowState, usageOfRow } from '../../live/live-row.ts';
import { timeZone } from '../../settings/time-zone.ts';
import { Badge, StatusBadge } from '../../ui/status-badge.tsx';

/** Characters of an answer that a row has room for. */
const SHOWN_OF_ANSWER = 160;

interface LiveCellsProps {
  readonly row: LiveRow;
  /** The gateway's time, in milliseconds since the epoch. */
  readonly now: number;
}

export const columns = [
  { name: 'time', title: 'Time', align: undefined },
  { name: 'state', title: 'Status', align: undefined },
  { name: 'duration', title: 'Duration', align: 'end' },
  { name: 'request', title: 'Request', align: undefined },
  { name: 'model', title: 'Model', align: undefined },
  { name: 'caller', title: 'Caller', align: undefined },
  { name: 'tokens', title: 'Tokens', align: 'end' },
  { name: 'cost', title: 'Cost', align: 'end' },
  { name: 'answer', title: 'Answer', align: undefined },
] as const;

export function LiveCells({ row, now }: LiveCellsProps) {
  const elapsed = isOpen(row) ? Math.max(0, now - row.startedAt) : row.durationMs;
  const zone = timeZone.value;
  const cells = useMemo(() => <OtherCells row={row} />, [row, zone]);
  return (
    <>
      <td data-column="time">
        <a href={hrefOf(`/exchange/${encodeURIComponent(row.id)}`)} title={formatExact(row.startedAt)}>
          {formatClock(row.startedAt)}
        </a>
      </td>
      <td data-column="state">
        <State row={row} />
      </td>
      <td data-column="duration" data-align="end" data-running={isOpen(row)}>
        {elapsed === undefined ? '–' : formatDuration(isOpen(row) ? Math.floor(elapsed / 100) * 100 : elapsed)}
      </td>
      {cells}
    </>
  );
}

function OtherCells({ row }: { readonly row: LiveRow }) {
  const usage = usageOfRow(row);
  return (
    <>
      <td data-column="request">
        <div class="cell">
          <Text text={row.method === 'POST' ? (row.path ?? '') : `${row.method ?? ''} ${row.path ?? ''}`.trim()} />
        </div>
      </td>
      <td data-column="model">
        <div class="cell">
          <Text text={row.resolvedModel ?? row.requestedModel ?? '–'} />
        </div>
      </td>
      <td data-column="caller">
        <div class="cell">
          <Text text={callerOf(row)} />
        </div>
      </td>
      <td data-column="tokens" data-align="end" title="Input and output tokens">
        {usage === undefined ? '–' : `${tokens(usage.inputTokens)} → ${tokens(usage.outputTokens)}`}
      </td>
      <td data-column="cost" data-align="end">
        <div class="cell">{usage === undefined ? '–' : usage.cost === null ? 'unknown' : formatMoney(usage.cost)}</div>
      </td>
      <td data-column="answer">
        {row.errorMessage === undefined ? (
          <span class="live-tail">
            <Text text={endOf(row.answerTail ?? '')} />
          </span>
        ) : (
          <Text text={row.errorMessage} />
        )}
      </td>
    </>
  );
}

function tokens(count: number | null): string {
  return count === null ? '?' : formatCompact(count);
}

function callerOf({ userPath = '/', keyId, authMethod }: LiveRow): string {
  if (keyId !== undefined) return `${userPath} · key ${keyId}`;
  return authMethod === 'master_key' ? `${userPath} · master key` : userPath;
}

/** The last characters, on one line. */
function endOf(text: string): string {
  const line = text.replace(/\s+/g, ' ');
  return line.length <= SHOWN_OF_ANSWER ? line : `…${line.slice(-SHOWN_OF_ANSWER).replace(/^[\udc00-\udfff]/, '')}`;
}

/** Isolated, so that its direction does not change the order of what follows. */
export function Text({ text }: { readonly text: string }) {
  const visible = visibleText(text);
  return <bdi title={visible.length > 20 ? visible.slice(0, 500) : undefined}>{visible}</bdi>;
}

function State({ row }: { readonly row: LiveRow }) {
  const title = openTitles[row.state];
  if (row.state === 'missed') {
    return (
      <Badge tone="plain" title="It ended while the connection was interrupted. Open it for its end.">
        ended
      </Badge>
    );
  }
  if (title !== undefined) return <Badge tone="info">{title}</Badge>;
  return <StatusBadge status={row.status ?? 0} outcome={row.state} />;
}

const openTitles: Partial<Record<RowState, string>> = { in_flight: 'in flight', streaming: 'streaming' };
