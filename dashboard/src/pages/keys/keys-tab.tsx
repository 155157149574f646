/** The list of managed keys. */
import { useState } from 'preact/hooks';
import { access } from '../../api/access.ts';
import { useAnswer } from '../../api/use-answer.ts';
import { asOf, asOfQuery, isPast } from '../../app/as-of.ts';
import { hrefOf, navigate, route, setQuery } from '../../app/router.ts';
import { Pieces } from '../../content/text/pieces.tsx';
import { formatCount } from '../../format/numbers.ts';
import { Button } from '../../ui/button.tsx';
import { type Column, DataTable } from '../../ui/data-table.tsx';
import { Time } from '../../ui/facts.tsx';
import { SelectField, TextField } from '../../ui/fields.tsx';
import { namedRange } from '../../ui/range.ts';
import { EmptyState, ErrorPanel, Pending } from '../../ui/states.tsx';
import { Badge } from '../../ui/status-badge.tsx';
import { CreateKeyDialog } from './create-key-dialog.tsx';
import type { KeyRow } from './key-row.ts';
import {
  filteredKeys,
  type KeyFilter,
  keyState,
  keyStates,
  secretEnd,
  toneOfState,
  withoutSecrets,
} from './key-state.ts';
import { keyHref, tabHref } from './keys-address.ts';
import { RenameLabelDialog } from './rename-label-dialog.tsx';
import { showSecret } from './shown-secret.tsx';

export function KeysTab() {
  const { data, error, since, reload } = useAnswer('/admin/auth-keys', asOfQuery());
  const [open, setOpen] = useState<'create' | 'rename' | undefined>(undefined);
  const requests = useRequestCounts();
  const filter = filterOf(route.value.query);
  const now = shownTime();
  const keys = data ?? [];
  const shown = filteredKeys(keys, filter, now);
  const labels = [...new Set(keys.flatMap((key) => key.labels))].sort();
  return (
    <>
      <div class="keys-toolbar">
        <KeyFilters filter={filter} labels={labels} />
        {!isPast.value && (
          <div class="keys-actions">
            <Button disabled={labels.length === 0} onClick={() => setOpen('rename')}>
              Rename a label
            </Button>
            <Button look="main" onClick={() => setOpen('create')}>
              Create a key
            </Button>
          </div>
        )}
      </div>
      {error !== undefined && <ErrorPanel error={error} onRetry={reload} />}
      {data === undefined && error === undefined && <Pending since={since} />}
      {data !== undefined && shown.length > 0 && (
        <>
          <p class="keys-muted" role="status">
            {formatCount(shown.length)} of {formatCount(keys.length)} keys
          </p>
          <DataTable
            label="Keys"
            columns={columnsOf(now, requests)}
            rows={shown}
            rowKey={({ id }) => id}
            rowHref={({ id }) => keyHref(id)}
          />
        </>
      )}
      {data !== undefined && shown.length === 0 && (
        <EmptyState title={keys.length === 0 ? 'There are no managed keys.' : 'No key matches.'}>
          {keys.length === 0 ? (
            <p>Create a key for each application or person: it has its own rights, limits and usage.</p>
          ) : (
            <p>
              <a href={tabHref({ tab: 'keys' })}>Show all keys</a>
            </p>
          )}
        </EmptyState>
      )}
      {open === 'create' && (
        <CreateKeyDialog
          labels={labels}
          onClose={() => setOpen(undefined)}
          onCreated={({ id, value }) => {
            setOpen(undefined);
            showSecret(id, value);
            navigate(hrefOf(`/keys/${encodeURIComponent(id)}`));
          }}
        />
      )}
      {open === 'rename' && <RenameLabelDialog keys={keys} onClose={() => setOpen(undefined)} onDone={reload} />}
    </>
  );
}

/** The shown moment in milliseconds; a position of the log has the times of now. */
function shownTime(): number {
  const at = Date.parse(asOf.value ?? '');
  return Number.isNaN(at) || /^\d+$/.test(asOf.value ?? '') ? Date.now() : at;
}

function filterOf(query: URLSearchParams): KeyFilter {
  const value = (name: string) => query.get(name) ?? '';
  return { text: value('q'), state: value('state'), path: value('under'), label: value('label') };
}

function KeyFilters({ filter, labels }: { readonly filter: KeyFilter; readonly labels: readonly string[] }) {
  const [isCut, setCut] = useState(false);
  return (
    <div class="keys-filters" role="search">
      <TextField
        label="Search"
        type="search"
        placeholder="Name, id, path, last characters"
        value={filter.text}
        onInput={(text) => {
          const safe = withoutSecrets(text);
          setCut(safe !== text);
          setQuery({ q: safe || undefined });
        }}
      />
      <SelectField
        label="State"
        value={filter.state}
        choices={[{ value: '', title: 'All' }, ...keyStates.map((state) => ({ value: state, title: state }))]}
        onChange={(state) => setQuery({ state: state || undefined })}
      />
      <TextField
        label="User path, with all below"
        value={filter.path}
        onInput={(under) => setQuery({ under: under || undefined })}
      />
      {(labels.length > 0 || filter.label !== '') && (
        <SelectField
          label="Label"
          value={filter.label}
          choices={[{ value: '', title: 'All' }, ...labels.map((label) => ({ value: label, title: label }))]}
          onChange={(label) => setQuery({ label: label || undefined })}
        />
      )}
      {isCut && (
        <p class="keys-muted" role="status">
          The search uses only the last four characters of a secret; the rest is neither kept nor in the address.
        </p>
      )}
    </div>
  );
}

/** Requests of the last 30 days by key; undefined while unknown, and at a past time. */
function useRequestCounts(): ReadonlyMap<string, number> | undefined {
  const { from, to } = namedRange('30d', Date.now(), 'UTC');
  const enabled = !isPast.value && access.value?.features['USAGE_ENABLED'] !== 'off';
  const { data } = useAnswer('/admin/usage/keys', { from, to, cache_mode: 'all' }, { enabled });
  if (data === undefined || !enabled) return undefined;
  return new Map(data.flatMap(({ auth_key_id: id, requests }) => (id === null ? [] : [[id, requests] as const])));
}

function columnsOf(now: number, requests: ReadonlyMap<string, number> | undefined): readonly Column<KeyRow>[] {
  return [
    {
      ...{ name: 'name', title: 'Name', width: 13 },
      cell: ({ id, name }) => (
        <a class="keys-text" href={keyHref(id)} title={name}>
          <Pieces text={name} />
        </a>
      ),
    },
    {
      ...{ name: 'state', title: 'State', width: 8.5 },
      cell: (key) => {
        const state = keyState(key, now);
        return <Badge tone={toneOfState(state)}>{state}</Badge>;
      },
    },
    {
      ...{ name: 'secret', title: 'Ends in', width: 5.5 },
      cell: ({ redacted_value: value }) => <code>{secretEnd(value)}</code>,
    },
    {
      ...{ name: 'requests', title: 'Requests, 30 days', width: 10.5, align: 'end' },
      cell: ({ id }) => (requests === undefined ? '–' : formatCount(requests.get(id) ?? 0)),
    },
    {
      ...{ name: 'path', title: 'User path', width: 11 },
      cell: ({ user_path: path }) =>
        path === undefined ? (
          '–'
        ) : (
          <span class="keys-text" title={path}>
            <Pieces text={path} />
          </span>
        ),
    },
    {
      ...{ name: 'labels', title: 'Labels', width: 9 },
      cell: ({ labels }) => <Texts texts={labels} none="–" />,
    },
    {
      ...{ name: 'models', title: 'Allowed models', width: 10 },
      cell: ({ allowed_models: models }) => <Texts texts={models} none="all of its path" />,
    },
    {
      ...{ name: 'expires', title: 'Expires', width: 9.5 },
      cell: ({ expires_at: at }) => (at === undefined ? 'never' : <Time at={at} />),
    },
    {
      ...{ name: 'access', title: 'Dashboard', width: 6 },
      cell: ({ dashboard_access: hasAccess }) => (hasAccess ? 'yes' : 'no'),
    },
    { ...{ name: 'created', title: 'Created', width: 9.5 }, cell: ({ created_at: at }) => <Time at={at} /> },
  ];
}

function Texts({ texts, none }: { readonly texts: readonly string[]; readonly none: string }) {
  if (texts.length === 0) return <>{none}</>;
  const text = texts.join(', ');
  return (
    <span class="keys-text" title={text}>
      <Pieces text={text} />
    </span>
  );
}
