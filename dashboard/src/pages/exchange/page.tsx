/** One request: how it was answered or why not, with everything that is on record. */
import './exchange.css';
import { useMemo, useState } from 'preact/hooks';
import type { ApiError } from '../../api/client.ts';
import { useAnswer } from '../../api/use-answer.ts';
import type { PageProps } from '../../app/page-entry.ts';
import { hrefOf, navigate, route, setQuery } from '../../app/router.ts';
import { Recorded } from '../../content/text/recorded.tsx';
import { formatCount } from '../../format/numbers.ts';
import { Button } from '../../ui/button.tsx';
import { Fact, FactList } from '../../ui/fact-list.tsx';
import { Time } from '../../ui/facts.tsx';
import { TextField } from '../../ui/fields.tsx';
import { PageHeader } from '../../ui/page-header.tsx';
import { Panel } from '../../ui/panel.tsx';
import { ErrorPanel, Pending } from '../../ui/states.tsx';
import { StatusBadge } from '../../ui/status-badge.tsx';
import { Tabs } from '../../ui/tabs.tsx';
import { ConversationTab } from './conversation-tab.tsx';
import { CostTab } from './cost/cost-tab.tsx';
import { DiffTab } from './diff/diff-tab.tsx';
import { EndedPanel } from './ended-panel.tsx';
import { EventsTab } from './events/events-tab.tsx';
import { HeaderFacts } from './header-facts.tsx';
import { endedWhy, warningsOf } from './record/ended-why.ts';
import { type ExchangeFacts, factsOf } from './record/exchange-facts.ts';
import type { RecordState } from './record/follow-record.ts';
import { useRecord } from './record/use-record.ts';
import { ReplayTab } from './replay-tab.tsx';
import { RequestTab } from './request-tab.tsx';
import { ResponseTab } from './response-tab.tsx';
import { TimelineTab } from './timeline/timeline-tab.tsx';

export default function ExchangePage({ id }: PageProps) {
  return id === '' ? <EnterId /> : <Exchange key={id} id={id} />;
}

function EnterId() {
  const [id, setId] = useState('');
  const open = () => {
    if (id.trim() !== '') navigate(hrefOf(`/exchange/${encodeURIComponent(id.trim())}`));
  };
  return (
    <>
      <PageHeader title="Exchange" />
      <Panel title="Open a request">
        <TextField
          label="Id of the exchange, from the header x-exchange-id"
          value={id}
          onInput={setId}
          onCommit={open}
        />
        <Button look="main" onClick={open}>
          Open
        </Button>
      </Panel>
    </>
  );
}

function Exchange({ id }: PageProps) {
  const { events, related, error, isLoading, isCut, since, reload, cancel } = useRecord(id);
  const facts = useMemo(() => factsOf(events), [events]);
  const title = facts === undefined ? 'Exchange' : `${facts.method} ${facts.path.split('?')[0] ?? ''}`;
  return (
    <>
      <PageHeader title={title} tabTitle={`Exchange ${id}`}>
        <a class="button button-plain" href={hrefOf('/audit', { id })}>
          Show in Audit
        </a>
        {facts !== undefined && (
          <a class="button button-plain" href={hrefOf(`/sessions/${encodeURIComponent(id)}`)}>
            Show the chain
          </a>
        )}
      </PageHeader>
      {error?.status === 404 ? (
        <NotFound id={id} error={error} onRetry={reload} />
      ) : (
        error !== undefined && <ErrorPanel error={error} onRetry={reload} />
      )}
      {facts === undefined && error === undefined && isLoading && (
        <Pending since={since} onCancel={cancel}>
          Reading the record
        </Pending>
      )}
      {facts !== undefined && <Record id={id} facts={facts} record={{ events, related, error, isLoading, isCut }} />}
    </>
  );
}

interface NotFoundProps {
  readonly id: string;
  readonly error: ApiError;
  readonly onRetry: () => void;
}

/** Refused requests that were counted together have one entry in the audit log, and no events of their own. */
function NotFound({ id, error, onRetry }: NotFoundProps) {
  const { data, isLoading } = useAnswer('/admin/audit/log', { id, limit: 1, total: false });
  const entry = data?.entries[0];
  if (isLoading) return <Pending since={performance.now()}>Looking in the audit log</Pending>;
  if (entry?.requests === undefined) return <ErrorPanel error={error} onRetry={onRetry} />;
  const { timestamp, requests, status_code, outcome, user_path, path, client_ip, data: details } = entry;
  return (
    <Panel title={`${formatCount(requests)} refused requests, counted together`}>
      <p>
        Requests that are refused for the same reason in one minute are recorded as one entry, without their contents.
      </p>
      <FactList>
        <Fact name="First">
          <Time at={timestamp} />
        </Fact>
        <Fact name="Outcome">
          <StatusBadge status={status_code} outcome={outcome} />
        </Fact>
        <Fact name="Reason">
          <Recorded text={details.error_message ?? details.error_code ?? 'not recorded'} />
        </Fact>
        <Fact name="User path">
          <Recorded text={user_path} />
        </Fact>
        {path !== undefined && (
          <Fact name="Path">
            <Recorded text={path} />
          </Fact>
        )}
        {client_ip !== undefined && (
          <Fact name="Client address">
            <Recorded text={client_ip} />
          </Fact>
        )}
      </FactList>
    </Panel>
  );
}

const tabs = [
  { name: 'timeline', title: 'Timeline' },
  { name: 'conversation', title: 'Conversation' },
  { name: 'request', title: 'Request' },
  { name: 'response', title: 'Response' },
  { name: 'diff', title: 'Diff' },
  { name: 'events', title: 'Events' },
  { name: 'cost', title: 'Cost' },
  { name: 'replay', title: 'Replay' },
] as const;

interface RecordProps {
  readonly id: string;
  readonly facts: ExchangeFacts;
  readonly record: RecordState;
}

function Record({ id, facts, record }: RecordProps) {
  const { events, related, isCut } = record;
  const why = useMemo(() => endedWhy(facts), [facts]);
  const warnings = warningsOf(facts);
  const wanted = route.value.query.get('tab');
  const offered = tabs.filter(({ name }) => name !== 'replay' || facts.isStream);
  const shown = offered.find(({ name }) => name === wanted)?.name ?? 'timeline';
  const given = { id, events, facts };
  const show = (name: string) => {
    const ofTab = { revision: undefined, compare: undefined, attempt: undefined };
    setQuery({ ...ofTab, tab: name === 'timeline' ? undefined : name }, { push: true });
  };
  return (
    <div class="exchange-stack">
      {why !== undefined && <EndedPanel why={why} />}
      <Panel title="Facts" hideTitle>
        <HeaderFacts id={id} facts={facts} />
        {warnings.length > 0 && <p class="exchange-muted">Warnings of guardrails: {warnings.join(', ')}</p>}
        {isCut && <p class="exchange-muted">The request has more events than the page reads.</p>}
      </Panel>
      <div>
        <Tabs label="Views of the request" tabs={offered} shown={shown} onShow={show}>
          {shown === 'timeline' && <TimelineTab {...given} related={related} />}
          {shown === 'conversation' && <ConversationTab {...given} />}
          {shown === 'request' && <RequestTab {...given} />}
          {shown === 'response' && <ResponseTab {...given} />}
          {shown === 'diff' && <DiffTab {...given} />}
          {shown === 'events' && <EventsTab id={id} events={events} related={related} />}
          {shown === 'cost' && <CostTab facts={facts} />}
          {shown === 'replay' && <ReplayTab events={events} facts={facts} />}
        </Tabs>
      </div>
    </div>
  );
}
