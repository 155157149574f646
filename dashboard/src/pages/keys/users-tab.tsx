/** The user paths with their policies; the selected one beside them. */
import { useState } from 'preact/hooks';
import { useAnswer } from '../../api/use-answer.ts';
import { asOfQuery, isPast } from '../../app/as-of.ts';
import { route, setQuery } from '../../app/router.ts';
import { Pieces } from '../../content/text/pieces.tsx';
import { formatCount } from '../../format/numbers.ts';
import { Button } from '../../ui/button.tsx';
import { type Column, DataTable } from '../../ui/data-table.tsx';
import { TextField } from '../../ui/fields.tsx';
import { EmptyState, ErrorPanel, Pending } from '../../ui/states.tsx';
import { tabHref } from './keys-address.ts';
import { PolicyDialog } from './policy-dialog.tsx';
import { UserPanel } from './user-panel.tsx';
import type { UserRow } from './user-policy.ts';

export function UsersTab() {
  const { data, error, since, reload } = useAnswer('/admin/users', asOfQuery());
  const [isAdding, setAdding] = useState(false);
  const { query } = route.value;
  const text = query.get('search') ?? '';
  const all = data === undefined ? [] : [...data.users];
  const rows = all.filter(({ user_path: path }) => path.toLowerCase().includes(text.trim().toLowerCase()));
  const selected = all.find(({ user_path: path }) => path === query.get('path'));
  return (
    <>
      <div class="keys-toolbar">
        <TextField
          label="Search for a path"
          hideLabel
          type="search"
          placeholder="Search for a path"
          value={text}
          onInput={(value) => setQuery({ search: value || undefined })}
        />
        {!isPast.value && <Button onClick={() => setAdding(true)}>Set the policy of another path</Button>}
      </div>
      {error !== undefined && <ErrorPanel error={error} onRetry={reload} />}
      {data === undefined && error === undefined && <Pending since={since} />}
      {data !== undefined && (
        <div class="keys-split">
          <div>
            {rows.length === 0 ? (
              <EmptyState title="No user path has this text.">
                <p>A path is listed when it has a policy or a key.</p>
              </EmptyState>
            ) : (
              <PathTable rows={rows} />
            )}
          </div>
          <div>
            {selected === undefined ? (
              <EmptyState title={query.has('path') ? 'This path has no policy and no key here.' : 'Select a path.'}>
                <p>
                  It shows the models that may be used there, why, and the keys. Every list must allow a model: that of
                  the path, those of all paths above it, and that of the key.
                </p>
              </EmptyState>
            ) : (
              <UserPanel key={selected.user_path} user={selected} all={all} onChanged={reload} />
            )}
          </div>
        </div>
      )}
      {isAdding && (
        <PolicyDialog
          user={undefined}
          onClose={() => setAdding(false)}
          onDone={(path) => {
            setAdding(false);
            reload();
            setQuery({ path }, { push: true });
          }}
        />
      )}
    </>
  );
}

const columns: readonly Column<UserRow>[] = [
  {
    ...{ name: 'path', title: 'User path', width: 14 },
    cell: ({ user_path: path }) => (
      <span class="keys-tree-path" style={{ paddingInlineStart: `${indentOf(path)}rem` }}>
        <a href={pathHref(path)} title={path}>
          <Pieces text={path === '/' ? '/' : `/${path.slice(path.lastIndexOf('/') + 1)}`} />
        </a>
      </span>
    ),
  },
  {
    ...{ name: 'policy', title: 'Own list', width: 9 },
    cell: ({ configured, allowed_models: models }) => {
      if (!configured) return '–';
      if (models.length === 0) return 'all';
      return <span title={models.join(', ')}>{models.join(', ')}</span>;
    },
  },
  {
    ...{ name: 'effective', title: 'Models', width: 5, align: 'end' },
    cell: ({ effective_models: models }) => formatCount(models.length),
  },
  {
    ...{ name: 'keys', title: 'Keys', width: 4.5, align: 'end' },
    cell: ({ key_count: count }) => formatCount(count),
  },
];

function PathTable({ rows }: { readonly rows: readonly UserRow[] }) {
  const selected = route.value.query.get('path');
  return (
    <DataTable
      label="User paths"
      columns={columns}
      rows={rows}
      rowKey={({ user_path: path }) => path}
      rowHref={({ user_path: path }) => pathHref(path)}
      rowClass={({ user_path: path }) => (path === selected ? 'keys-selected' : undefined)}
    />
  );
}

function pathHref(path: string): string {
  return tabHref({ path, search: route.value.query.get('search') ?? undefined });
}

const DEEPEST = 6;

/** Of its depth, in rem. */
function indentOf(path: string): number {
  return path === '/' ? 0 : Math.min(DEEPEST, path.split('/').length - 1) * 0.9;
}
