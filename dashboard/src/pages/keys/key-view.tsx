/** One managed key. */
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { useAnswer } from '../../api/use-answer.ts';
import { asOfQuery, isPast } from '../../app/as-of.ts';
import { hrefOf } from '../../app/router.ts';
import { Pieces } from '../../content/text/pieces.tsx';
import { formatCount } from '../../format/numbers.ts';
import { Button } from '../../ui/button.tsx';
import { CopyButton } from '../../ui/copy-button.tsx';
import { Time } from '../../ui/facts.tsx';
import { PageHeader } from '../../ui/page-header.tsx';
import { Panel } from '../../ui/panel.tsx';
import { namedRange } from '../../ui/range.ts';
import { ErrorPanel, Pending } from '../../ui/states.tsx';
import { Badge, StatusBadge } from '../../ui/status-badge.tsx';
import { Changes } from './changes.tsx';
import { DeactivatedPanel, PreviousSecretPanel } from './ended-key.tsx';
import { KeyActions } from './key-actions.tsx';
import {
  AccessDialog,
  type EditProps,
  ExpiryDialog,
  HeaderDialog,
  LabelsDialog,
  ModelsDialog,
  NameDialog,
  NetworksDialog,
} from './key-edits.tsx';
import type { KeyRow } from './key-row.ts';
import { keyState, secretEnd, toneOfState } from './key-state.ts';
import { explainHref, historyHref, keyPath, tabHref } from './keys-address.ts';
import { ShownSecret } from './shown-secret.tsx';

export function KeyView({ id }: { readonly id: string }) {
  const { data, error, since, reload } = useAnswer({ of: '/admin/auth-keys/{id}', at: keyPath(id) }, asOfQuery());
  return (
    <>
      <PageHeader title={data?.name ?? 'Key'} tabTitle={data === undefined ? 'Key' : `Key ${data.name}`}>
        {data !== undefined && !isPast.value && <KeyActions row={data} onChanged={reload} />}
      </PageHeader>
      <p class="keys-back">
        <a href={tabHref({ tab: 'keys' })}>All keys</a>
      </p>
      <ShownSecret id={id} />
      {error !== undefined && <ErrorPanel error={error} onRetry={reload} />}
      {data === undefined && error === undefined && <Pending since={since} />}
      {data !== undefined && (
        <div class="keys-stack">
          {!data.enabled && !isPast.value && <DeactivatedPanel key={data.revision} row={data} />}
          <KeyFacts row={data} onChanged={reload} />
          <RecentRequests id={id} />
          {data.enabled && !isPast.value && <PreviousSecretPanel key={data.revision} row={data} />}
          {!isPast.value && <Changes key={data.revision} subject={`key:${id}`} title="Changes of this key" />}
        </div>
      )}
    </>
  );
}

const dialogs = {
  name: NameDialog,
  labels: LabelsDialog,
  models: ModelsDialog,
  networks: NetworksDialog,
  expiry: ExpiryDialog,
  header: HeaderDialog,
  access: AccessDialog,
} as const satisfies Readonly<Record<string, (props: EditProps) => ComponentChildren>>;
type Property = keyof typeof dialogs;

function KeyFacts({ row, onChanged }: { readonly row: KeyRow; readonly onChanged: () => void }) {
  const [edited, setEdited] = useState<Property | undefined>(undefined);
  const state = keyState(row, Date.now());
  const EditDialog = edited === undefined ? undefined : dialogs[edited];
  const close = () => {
    setEdited(undefined);
    onChanged();
  };
  const edit = (property: Property, label: string) =>
    isPast.value ? undefined : (
      <Button label={`Edit ${label}`} onClick={() => setEdited(property)}>
        Edit
      </Button>
    );
  return (
    <Panel title="Key" hideTitle>
      <dl class="keys-facts">
        <Fact title="State">
          <Badge tone={toneOfState(state)}>{state}</Badge>
        </Fact>
        <Fact title="Name and description" action={edit('name', 'the name')}>
          <Pieces text={row.name} />
          {row.description !== undefined && (
            <p class="keys-muted">
              <Pieces text={row.description} />
            </p>
          )}
        </Fact>
        <Fact title="Id" action={<CopyButton text={row.id} what="id" />}>
          <code>{row.id}</code>
        </Fact>
        <Fact title="Secret ends in">
          <code>{secretEnd(row.redacted_value)}</code>
        </Fact>
        <Fact title="User path">
          {row.user_path === undefined ? (
            'none'
          ) : (
            <a href={tabHref({ path: row.user_path })}>
              <Pieces text={row.user_path} />
            </a>
          )}
        </Fact>
        <Fact title="Labels" action={edit('labels', 'the labels')}>
          {row.labels.length === 0 ? 'none' : <Pieces text={row.labels.join(', ')} />}
        </Fact>
        <Fact title="Allowed models" action={edit('models', 'the allowed models')}>
          {row.allowed_models.length === 0 ? 'all of its path' : <Pieces text={row.allowed_models.join(', ')} />}
        </Fact>
        <Fact title="Allowed networks" action={edit('networks', 'the allowed networks')}>
          {row.allowed_cidrs === undefined ? 'all' : <Pieces text={row.allowed_cidrs.join(', ')} />}
        </Fact>
        <Fact title="Expires" action={edit('expiry', 'the expiry')}>
          {row.expires_at === undefined ? 'never' : <Time at={row.expires_at} />}
        </Fact>
        <Fact title="Dashboard access" action={edit('access', 'the dashboard access')}>
          {row.dashboard_access ? `yes, for ${row.user_path ?? 'everything'}` : 'no'}
        </Fact>
        <Fact title="User path header" action={edit('header', 'the user path header')}>
          {row.user_path_header === false
            ? 'ignored'
            : row.user_path === undefined
              ? 'accepted'
              : 'no effect: the key has a path'}
        </Fact>
        <Fact title="Created">
          <Time at={row.created_at} />
        </Fact>
        <Fact title="Changed">
          <Time at={row.updated_at} />
        </Fact>
      </dl>
      <EffectiveModels row={row} />
      {EditDialog !== undefined && <EditDialog row={row} onClose={() => setEdited(undefined)} onDone={close} />}
    </Panel>
  );
}

interface FactProps {
  readonly title: string;
  readonly action?: ComponentChildren;
  readonly children: ComponentChildren;
}

function Fact({ title, action, children }: FactProps) {
  return (
    <div>
      <dt>{title}</dt>
      <dd>{children}</dd>
      {action !== undefined && <dd class="keys-fact-action">{action}</dd>}
    </div>
  );
}

/** Of the models, the first ones are shown; the others are in a list that opens. */
function EffectiveModels({ row }: { readonly row: KeyRow }) {
  const { effective_models: models } = row;
  return (
    <details class="keys-models">
      <summary>
        {formatCount(models.length)} {models.length === 1 ? 'model is' : 'models are'} allowed for it
        {!row.active && ', while it is active'}
      </summary>
      <ul class="keys-plain-list">
        {models.slice(0, 500).map((model) => (
          <li key={model}>
            <a href={explainHref({ key: row.id, model })}>{model}</a>
          </li>
        ))}
      </ul>
      {models.length > 500 && <p>The first 500 are shown.</p>}
      <p>
        <a href={explainHref({ key: row.id })}>Explain another model</a>
      </p>
    </details>
  );
}

const RECENT = 5;

function RecentRequests({ id }: { readonly id: string }) {
  const { from, to } = namedRange('90d', Date.now(), 'UTC');
  const { data, error, since, reload } = useAnswer('/admin/audit/log', { auth_key_id: id, from, to, limit: RECENT });
  return (
    <Panel
      title="Last requests"
      actions={
        <p class="keys-links">
          <a href={hrefOf('/usage', { auth_key_id: id })}>Usage</a>
          <a href={hrefOf('/audit', { auth_key_id: id })}>All requests</a>
          <a href={historyHref(`key:${id}`)}>History of the key</a>
        </p>
      }
    >
      {error !== undefined && <ErrorPanel error={error} onRetry={reload} />}
      {data === undefined && error === undefined && <Pending since={since} />}
      {data?.entries.length === 0 && <p class="keys-muted">None in the last 90 days.</p>}
      <ul class="keys-plain-list">
        {data?.entries.map((entry) => (
          <li key={entry.id}>
            <a href={hrefOf(`/exchange/${encodeURIComponent(entry.id)}`)}>
              <Time at={entry.timestamp} />
            </a>{' '}
            <StatusBadge status={entry.status_code} outcome={entry.outcome} />{' '}
            <Pieces text={entry.requested_model ?? entry.path ?? ''} />
          </li>
        ))}
      </ul>
    </Panel>
  );
}
