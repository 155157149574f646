import type { ComponentChildren } from 'preact';
import type { Answer } from '../../api/client.ts';
import { useAnswer } from '../../api/use-answer.ts';
import { hrefOf, route, setQuery } from '../../app/router.ts';
import { visibleText } from '../../content/text/hidden-characters.ts';
import { Recorded } from '../../content/text/recorded.tsx';
import { formatCount, formatDuration } from '../../format/numbers.ts';
import { type Column, DataTable } from '../../ui/data-table.tsx';
import { Count, Money, Time } from '../../ui/facts.tsx';
import { PageHeader } from '../../ui/page-header.tsx';
import { ErrorPanel, Pending } from '../../ui/states.tsx';
import { StatusBadge } from '../../ui/status-badge.tsx';
import { Tabs } from '../../ui/tabs.tsx';
import { ChainGraph } from './chain-graph.tsx';

export type Chain = Answer<'/admin/audit/chain'>;
export type ChainRequest = Chain['nodes'][number];

const tabs = [
  { name: 'graph', title: 'Graph' },
  { name: 'list', title: 'List' },
];

/** The requests that belong together with one request. @param id of its exchange */
export function ChainView({ id }: { readonly id: string }) {
  const { data, error, isLoading, since, cancel, reload } = useAnswer('/admin/audit/chain', { log_id: id });
  const shown = route.value.query.get('tab') === 'list' ? 'list' : 'graph';
  const session = data?.nodes.find((node) => node.id === id)?.session_id;
  return (
    <>
      <PageHeader title="Session" tabTitle={session === undefined ? 'Session' : `Session ${visibleText(session)}`}>
        <a href={hrefOf('/sessions')}>All sessions</a>
      </PageHeader>
      {isLoading && data === undefined && <Pending since={since} onCancel={cancel} />}
      {error !== undefined && <ErrorPanel error={error} onRetry={reload} />}
      {data !== undefined && (
        <>
          <ChainFacts chain={data} session={session} />
          <Tabs
            label="Form"
            tabs={tabs}
            shown={shown}
            onShow={(tab) => setQuery({ tab: tab === 'graph' ? undefined : tab })}
          >
            {shown === 'graph' ? <ChainGraph chain={data} /> : <ChainList chain={data} />}
          </Tabs>
        </>
      )}
    </>
  );
}

function ChainFacts({ chain, session }: { readonly chain: Chain; readonly session: string | undefined }) {
  const { nodes, truncated } = chain;
  const [first, last] = [nodes[0], nodes.at(-1)];
  if (first === undefined || last === undefined) return null;
  const tokens = sumOf(nodes.map(({ total_tokens }) => total_tokens));
  const dollars = sumOf(nodes.map(({ total_cost }) => total_cost));
  return (
    <>
      <dl class="chain-facts">
        {session !== undefined && (
          <Fact title="Session id">
            <code>
              <Recorded text={session} />
            </code>
          </Fact>
        )}
        <Fact title="User path">
          <Recorded text={last.user_path} />
        </Fact>
        <Fact title="Requests">{formatCount(nodes.length)}</Fact>
        <Fact title="First">
          <Time at={first.at} />
        </Fact>
        <Fact title="Newest">
          <Time at={last.at} />
        </Fact>
        <Fact title="Tokens">
          <Count count={tokens} />
        </Fact>
        <Fact title="Cost">
          <Money dollars={dollars} />
        </Fact>
      </dl>
      <p class="chain-links">
        <a href={hrefOf(`/exchange/${encodeURIComponent(last.id)}`, { tab: 'conversation' })}>Read the conversation</a>
        {session !== undefined && <a href={hrefOf('/audit', { id: session })}>Show the session in Audit</a>}
      </p>
      {truncated && <p>The graph has the {formatCount(nodes.length)} requests nearest to the chosen one.</p>}
    </>
  );
}

function Fact({ title, children }: { readonly title: string; readonly children: ComponentChildren }) {
  return (
    <div>
      <dt>{title}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** Null when none is known. */
function sumOf(values: readonly (number | null)[]): number | null {
  const known = values.filter((value) => value !== null);
  return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0);
}

const columns: readonly Column<ChainRequest>[] = [
  {
    ...{ name: 'time', title: 'Time', width: 12 },
    cell: ({ id, at }) => (
      <a href={exchangeOf(id)}>
        <Time at={at} />
      </a>
    ),
  },
  {
    ...{ name: 'outcome', title: 'Outcome', width: 9.5 },
    cell: ({ status_code, outcome }) => <StatusBadge status={status_code} outcome={outcome} />,
  },
  {
    ...{ name: 'model', title: 'Model', width: 14 },
    cell: ({ requested_model, model }) => <Recorded text={requested_model ?? model ?? '–'} />,
  },
  { ...{ name: 'path', title: 'Path', width: 13 }, cell: ({ path }) => <Recorded text={path} /> },
  {
    ...{ name: 'duration', title: 'Duration', width: 7, align: 'end' },
    cell: ({ duration_ms: ms }) => formatDuration(ms),
  },
  {
    ...{ name: 'tokens', title: 'Tokens', width: 6, align: 'end' },
    cell: ({ total_tokens: count }) => <Count count={count} />,
  },
  {
    ...{ name: 'cost', title: 'Cost', width: 6.5, align: 'end' },
    cell: ({ total_cost: dollars }) => <Money dollars={dollars} />,
  },
  { ...{ name: 'error', title: 'Error', width: 12 }, cell: ({ error_code: code }) => <Recorded text={code ?? '–'} /> },
];

export function exchangeOf(id: string): string {
  return hrefOf(`/exchange/${encodeURIComponent(id)}`);
}

function ChainList({ chain: { nodes } }: { readonly chain: Chain }) {
  return (
    <DataTable
      label="Requests of the session"
      columns={columns}
      rows={nodes}
      rowKey={({ id }) => id}
      rowHref={({ id }) => exchangeOf(id)}
    />
  );
}
