/** The columns of the table of requests. The first one is always shown: it has the link to the exchange. */
import type { Answer } from '../../api/client.ts';
import { hrefOf } from '../../app/router.ts';
import { Recorded } from '../../content/text/recorded.tsx';
import { formatDuration } from '../../format/numbers.ts';
import { storedSignal } from '../../settings/stored.ts';
import type { Column } from '../../ui/data-table.tsx';
import { Count, Money, Time } from '../../ui/facts.tsx';
import { Badge, StatusBadge, type Tone } from '../../ui/status-badge.tsx';

export type AuditEntry = Answer<'/admin/audit/log'>['entries'][number];

const NANOSECONDS = 1e6;

/** Requests that were counted together have no exchange. */
export function exchangeHref({ id, requests }: AuditEntry): string | undefined {
  return requests === undefined ? hrefOf(`/exchange/${encodeURIComponent(id)}`) : undefined;
}

const timeColumn: Column<AuditEntry> = {
  ...{ name: 'time', title: 'Time', width: 13 },
  cell(entry) {
    const href = exchangeHref(entry);
    if (href !== undefined) {
      return (
        <a href={href}>
          <Time at={entry.timestamp} />
        </a>
      );
    }
    return (
      <span title="Refused requests that were counted together">
        <Time at={entry.timestamp} /> ×{entry.requests}
      </span>
    );
  },
};

/** @param names of keys by id, as far as they are known */
function keyColumn(names: ReadonlyMap<string, string>): Column<AuditEntry> {
  return {
    ...{ name: 'key', title: 'Key', width: 10 },
    cell({ auth_key_id: id, auth_method: method }) {
      if (id === undefined) return <span>{method === 'master_key' ? 'master key' : 'no key'}</span>;
      const name = names.get(id);
      if (name === undefined) return <code title={id}>{id.slice(0, 8)}</code>;
      return (
        <span title={id}>
          <Recorded text={name} />
        </span>
      );
    },
  };
}

const verdictTones: Readonly<Record<string, Tone>> = {
  ...{ allow: 'ok', warn: 'warn', respond: 'warn', failure: 'bad', block: 'bad' },
};

const text = (value: string | undefined) => (value === undefined ? <Nothing /> : <Recorded text={value} />);

function Nothing() {
  return <span aria-hidden="true">–</span>;
}

const otherColumns: readonly Column<AuditEntry>[] = [
  {
    ...{ name: 'outcome', title: 'Outcome', width: 10.5 },
    cell: ({ status_code, outcome }) => <StatusBadge status={status_code} outcome={outcome} />,
  },
  { ...{ name: 'requested_model', title: 'Requested model', width: 13 }, cell: (entry) => text(entry.requested_model) },
  {
    ...{ name: 'resolved_model', title: 'Provider and model', width: 14 },
    cell: (entry) => text(entry.resolved_model),
  },
  { ...{ name: 'user_path', title: 'User path', width: 12 }, cell: (entry) => text(entry.user_path) },
  keyColumn(new Map()),
  {
    ...{ name: 'duration', title: 'Duration', width: 7, align: 'end' },
    cell: ({ duration_ns }) => formatDuration(duration_ns / NANOSECONDS),
  },
  {
    ...{ name: 'tokens', title: 'Tokens', width: 6, align: 'end' },
    cell: ({ usage }) => <Count count={usage?.total_tokens} />,
  },
  {
    ...{ name: 'cost', title: 'Cost', width: 6.5, align: 'end' },
    cell: ({ usage }) => (usage === undefined ? <Nothing /> : <Money dollars={usage.total_cost} />),
  },
  {
    ...{ name: 'error', title: 'Error', width: 15 },
    cell: ({ error_type, data }) => text(data.error_code ?? data.error_message ?? error_type),
  },
  {
    ...{ name: 'guardrails', title: 'Guardrails', width: 10 },
    cell: ({ data: { guardrail_verdict: verdict, guardrails_edited: edited } }) => {
      if (verdict === undefined) return <Nothing />;
      return (
        <Badge tone={edited === true && verdict === 'allow' ? 'info' : (verdictTones[verdict] ?? 'plain')}>
          {edited === true ? `${verdict}, changed` : verdict}
        </Badge>
      );
    },
  },
  { ...{ name: 'cache', title: 'Cache', width: 6 }, cell: ({ cache_type }) => text(cache_type) },
  {
    ...{ name: 'session', title: 'Session', width: 11 },
    cell({ session_id, id }) {
      if (session_id === undefined) return <Nothing />;
      return (
        <a href={hrefOf(`/sessions/${encodeURIComponent(id)}`)}>
          <Recorded text={session_id} />
        </a>
      );
    },
  },
  { ...{ name: 'labels', title: 'Labels', width: 11 }, cell: ({ data }) => text(data.labels?.join(', ')) },
  { ...{ name: 'stream', title: 'Stream', width: 5 }, cell: ({ stream }) => (stream ? 'yes' : 'no') },
  {
    ...{ name: 'first_byte', title: 'First byte', width: 7, align: 'end' },
    cell: ({ data: { first_byte_ms: ms } }) => (ms === undefined ? <Nothing /> : formatDuration(ms)),
  },
  {
    ...{ name: 'attempts', title: 'Attempts', width: 6, align: 'end' },
    cell: ({ data }) => <Count count={data.attempts?.length ?? 0} />,
  },
  { ...{ name: 'method', title: 'Method', width: 6 }, cell: ({ method }) => text(method) },
  { ...{ name: 'path', title: 'Path', width: 14 }, cell: ({ path }) => text(path) },
  { ...{ name: 'user_agent', title: 'User agent', width: 14 }, cell: ({ data }) => text(data.user_agent) },
  { ...{ name: 'client_ip', title: 'Client address', width: 9 }, cell: ({ client_ip }) => text(client_ip) },
  { ...{ name: 'workflow', title: 'Workflow', width: 11 }, cell: ({ data }) => text(data.workflow_scope) },
  { ...{ name: 'request_id', title: 'Request id', width: 14 }, cell: ({ request_id }) => text(request_id) },
  { ...{ name: 'id', title: 'Exchange id', width: 19 }, cell: ({ id }) => <code>{id}</code> },
];

export const columnChoices = otherColumns.map(({ name, title }) => ({ name, title }));

const usual = [
  'outcome',
  'requested_model',
  'resolved_model',
  'user_path',
  'key',
  'duration',
  'tokens',
  'cost',
  'error',
];

export const chosenColumns = storedSignal<readonly string[]>('audit-columns', usual, (stored) =>
  Array.isArray(stored) && stored.every((name) => typeof name === 'string') ? stored : undefined,
);

export function chooseUsualColumns(): void {
  chosenColumns.value = usual;
}

/** In the order of the choices. @param keyNames by id, as far as they are known */
export function shownColumns(keyNames: ReadonlyMap<string, string>): readonly Column<AuditEntry>[] {
  const chosen = new Set(chosenColumns.value);
  const others = otherColumns.filter(({ name }) => chosen.has(name));
  return [timeColumn, ...others.map((column) => (column.name === 'key' ? keyColumn(keyNames) : column))];
}
