import { type Answer, getAnswer } from '../../api/client.ts';
import { hrefOf, type QueryValue } from '../../app/router.ts';
import { Recorded } from '../../content/text/recorded.tsx';
import { formatCount, formatDuration } from '../../format/numbers.ts';
import { type Column, DataTable } from '../../ui/data-table.tsx';
import { Count, Money, Time } from '../../ui/facts.tsx';
import { Badge, StatusBadge } from '../../ui/status-badge.tsx';
import { ListState } from '../audit/list-state.tsx';
import { usePages } from '../audit/use-pages.ts';

type Session = Answer<'/admin/audit/sessions'>['sessions'][number];

const PAGE_ROWS = 100;

function sessionHref({ latest }: Session): string | undefined {
  return latest.requests === undefined ? hrefOf(`/sessions/${encodeURIComponent(latest.id)}`) : undefined;
}

const columns: readonly Column<Session>[] = [
  {
    ...{ name: 'session', title: 'Session', width: 14 },
    cell(session) {
      const { session_id: id } = session.latest;
      const href = sessionHref(session);
      const name = id === undefined ? 'without a session' : <Recorded text={id} />;
      return href === undefined ? name : <a href={href}>{name}</a>;
    },
  },
  {
    ...{ name: 'user_path', title: 'User path', width: 12 },
    cell: ({ latest }) => <Recorded text={latest.user_path} />,
  },
  {
    ...{ name: 'requests', title: 'Requests', width: 6, align: 'end' },
    cell: ({ request_count: count }) => <Count count={count} />,
  },
  {
    ...{ name: 'failed', title: 'Failed', width: 5.5, align: 'end' },
    cell: ({ failed_count: count }) => (count === 0 ? '–' : <Badge tone="warn">{formatCount(count)}</Badge>),
  },
  {
    ...{ name: 'tokens', title: 'Tokens', width: 6, align: 'end' },
    cell: ({ total_tokens: count }) => <Count count={count} />,
  },
  {
    ...{ name: 'cost', title: 'Cost', width: 6.5, align: 'end' },
    cell: ({ total_cost: dollars }) => <Money dollars={dollars} />,
  },
  {
    ...{ name: 'duration', title: 'Duration', width: 7, align: 'end' },
    cell: ({ duration_ms: ms }) => (
      <span title="From the first request to the end of the last">{formatDuration(ms)}</span>
    ),
  },
  {
    ...{ name: 'client', title: 'Client', width: 11 },
    cell: ({ latest }) => <Recorded text={latest.data.user_agent ?? '–'} />,
  },
  { ...{ name: 'first', title: 'First request', width: 12 }, cell: ({ first_at: at }) => <Time at={at} /> },
  { ...{ name: 'newest', title: 'Newest request', width: 12 }, cell: ({ latest }) => <Time at={latest.timestamp} /> },
  {
    ...{ name: 'outcome', title: 'Its outcome', width: 11.5 },
    cell: ({ latest }) => <StatusBadge status={latest.status_code} outcome={latest.outcome} />,
  },
  {
    ...{ name: 'model', title: 'Its model', width: 13 },
    cell: ({ latest }) => <Recorded text={latest.requested_model ?? '–'} />,
  },
];

interface SessionListProps {
  /** Filter and time range as the gateway reads them. */
  readonly query: Readonly<Record<string, QueryValue>>;
  readonly isFiltered: boolean;
}

/** Sessions by their newest request, the newest first. */
export function SessionList({ query, isFiltered }: SessionListProps) {
  const pages = usePages<Session, number>(async (offset = 0, signal) => {
    const page = { limit: PAGE_ROWS, total: false, offset };
    const { sessions } = await getAnswer('/admin/audit/sessions', { query: { ...query, ...page }, signal });
    return { rows: sessions, next: sessions.length < PAGE_ROWS ? undefined : offset + PAGE_ROWS };
  }, JSON.stringify(query));
  const { rows, more } = pages;
  return (
    <>
      {rows.length > 0 && (
        <DataTable
          label="Sessions"
          columns={columns}
          rows={rows}
          rowKey={({ latest }) => latest.id}
          rowHref={sessionHref}
          onEndNear={more}
        />
      )}
      <ListState pages={pages} isFiltered={isFiltered} />
    </>
  );
}
