/** One user path: its policy, the models with their reasons, its keys. */
import { useState } from 'preact/hooks';
import { sendChange } from '../../api/send-change.ts';
import { useAnswer } from '../../api/use-answer.ts';
import { asOfQuery, isPast } from '../../app/as-of.ts';
import { hrefOf, route, setQuery } from '../../app/router.ts';
import { Pieces } from '../../content/text/pieces.tsx';
import { Button } from '../../ui/button.tsx';
import { ConfirmDialog } from '../../ui/confirm-dialog.tsx';
import { type Column, DataTable } from '../../ui/data-table.tsx';
import { Time } from '../../ui/facts.tsx';
import { CheckField } from '../../ui/fields.tsx';
import { Panel } from '../../ui/panel.tsx';
import { EmptyState } from '../../ui/states.tsx';
import { Badge } from '../../ui/status-badge.tsx';
import { Changes } from './changes.tsx';
import { isBelow, secretEnd } from './key-state.ts';
import { explainHref, historyHref, keyHref, tabHref } from './keys-address.ts';
import { type ModelReason, modelReason } from './model-reasons.ts';
import { useModels } from './model-suggestions.ts';
import { PolicyDialog } from './policy-dialog.tsx';
import { currentPolicy, policyOf, type UserRow } from './user-policy.ts';

interface UserPanelProps {
  readonly user: UserRow;
  readonly all: readonly UserRow[];
  readonly onChanged: () => void;
}

export function UserPanel({ user, all, onChanged }: UserPanelProps) {
  const [open, setOpen] = useState<'edit' | 'remove' | undefined>(undefined);
  const { user_path: path } = user;
  const done = () => {
    setOpen(undefined);
    onChanged();
  };
  return (
    <Panel
      title={path}
      class="keys-stack"
      actions={
        !isPast.value &&
        !user.managed && (
          <div class="keys-actions">
            <Button onClick={() => setOpen('edit')}>{user.configured ? 'Edit the policy' : 'Set a policy'}</Button>
            {user.configured && (
              <Button look="danger" onClick={() => setOpen('remove')}>
                Remove the policy
              </Button>
            )}
          </div>
        )
      }
    >
      <Policy user={user} />
      <p class="keys-links">
        <a href={hrefOf('/usage', { user_path: path })}>Usage</a>
        <a href={hrefOf('/audit', { user_path: path })}>Requests</a>
        <a href={historyHref(`user:${path}`)}>History of the policy</a>
        <a href={tabHref({ tab: 'keys', under: path })}>Keys here and below</a>
      </p>
      <Models user={user} all={all} />
      <OwnKeys path={path} />
      {!isPast.value && user.configured && (
        <Changes key={user.revision} subject={`user:${path}`} title="Changes of this policy" />
      )}
      {open === 'edit' && <PolicyDialog user={user} onClose={() => setOpen(undefined)} onDone={done} />}
      {open === 'remove' && (
        <ConfirmDialog
          title={`Remove the policy of ${path}?`}
          effect={<RemoveEffect user={user} all={all} />}
          confirmLabel="Remove the policy"
          onClose={() => {
            setOpen(undefined);
            onChanged();
          }}
          onDone={done}
          basis={{ revision: user.revision, shown: policyOf(user), readCurrent: () => currentPolicy(path) }}
          run={(ifMatch) => sendChange({ method: 'DELETE', of: '/admin/users', query: { user_path: path }, ifMatch })}
        />
      )}
    </Panel>
  );
}

function Policy({ user }: { readonly user: UserRow }) {
  const { configured, allowed_models: models, description, managed, updated_at: updatedAt } = user;
  const above = user.inherited_from.filter((path) => path !== user.user_path);
  return (
    <div>
      <p>
        {!configured && 'This path has no policy of its own. '}
        {configured && models.length === 0 && 'The policy of this path restricts nothing. '}
        {configured && models.length > 0 && (
          <>
            Its own list:{' '}
            {models.map((model, at) => (
              <span key={model}>
                {at > 0 && ', '}
                <code>
                  <Pieces text={model} />
                </code>
              </span>
            ))}
            .{' '}
          </>
        )}
        {above.length > 0 && (
          <>
            It is under the lists of{' '}
            {above.map((path, at) => (
              <span key={path}>
                {at > 0 && ', '}
                <a href={tabHref({ path })}>{path}</a>
              </span>
            ))}
            .
          </>
        )}
      </p>
      {description !== undefined && (
        <p>
          <Pieces text={description} />
        </p>
      )}
      {updatedAt !== undefined && (
        <p class="keys-muted">
          Changed <Time at={updatedAt} />
        </p>
      )}
      {managed && (
        <p>
          It is declared in the configuration (<code>users:</code> in chancery.yaml, or <code>USERS</code>) and is
          changed there.
        </p>
      )}
    </div>
  );
}

function RemoveEffect({ user, all }: Pick<UserPanelProps, 'user' | 'all'>) {
  const below = all.filter((one) => isBelow(one.user_path, user.user_path));
  const keys = below.reduce((sum, one) => sum + one.key_count, 0);
  return (
    <p>
      The list with {user.allowed_models.length} {user.allowed_models.length === 1 ? 'entry' : 'entries'} ends at once
      for this path and all below it, with {keys} {keys === 1 ? 'key' : 'keys'}. Then only the lists of the paths above
      and of the keys restrict the models.
    </p>
  );
}

function Models({ user, all }: Pick<UserPanelProps, 'user' | 'all'>) {
  const models = useModels();
  const withExcluded = route.value.query.get('excluded') === 'true';
  if (models === undefined) return null;
  const { user_path: path } = user;
  const lists = new Map(all.filter(({ configured }) => configured).map((one) => [one.user_path, one.allowed_models]));
  const allowed = new Set(user.effective_models);
  const reasons = models.map((model) =>
    modelReason(
      path,
      model,
      { listOf: (at) => lists.get(at) },
      user.inherited_from,
      allowed.has(`${model.provider}/${model.model}`),
    ),
  );
  const shown = reasons.filter((one) => withExcluded || one.allowed);
  return (
    <div class="keys-stack">
      <div class="keys-toolbar">
        <h3>
          {allowed.size} of {models.length} models may be used here
        </h3>
        <CheckField
          label="Also excluded models"
          checked={withExcluded}
          onChange={(isSet) => setQuery({ excluded: isSet || undefined })}
        />
      </div>
      {shown.length === 0 ? (
        <EmptyState
          title={models.length === 0 ? 'No provider has returned its models.' : 'No model may be used here.'}
        />
      ) : (
        <DataTable
          label={`Models of ${path}`}
          columns={modelColumns(path)}
          rows={shown}
          rowKey={({ selector }) => selector}
          rowHref={({ selector }) => explainHref({ user_path: path, model: selector })}
          visibleRows={Math.min(8, shown.length)}
        />
      )}
    </div>
  );
}

function modelColumns(path: string): readonly Column<ModelReason>[] {
  return [
    {
      ...{ name: 'model', title: 'Model', width: 11 },
      cell: ({ selector }) => (
        <a href={explainHref({ user_path: path, model: selector })} title={selector}>
          {selector}
        </a>
      ),
    },
    {
      ...{ name: 'allowed', title: 'Allowed', width: 5.5 },
      cell: ({ allowed }) => <Badge tone={allowed ? 'ok' : 'bad'}>{allowed ? 'yes' : 'no'}</Badge>,
    },
    {
      ...{ name: 'reason', title: 'Because', width: 15 },
      cell: ({ reason }) => <span title={reason}>{reason}</span>,
    },
  ];
}

function OwnKeys({ path }: { readonly path: string }) {
  const { data } = useAnswer('/admin/auth-keys', asOfQuery());
  const keys = data?.filter(({ user_path: at }) => at === path) ?? [];
  return (
    <div>
      <h3>Keys of this path</h3>
      {data !== undefined && keys.length === 0 && <p class="keys-muted">None.</p>}
      <ul class="keys-plain-list">
        {keys.map((key) => (
          <li key={key.id}>
            <a href={keyHref(key.id)}>
              <Pieces text={key.name} />
            </a>{' '}
            <span class="keys-muted">{secretEnd(key.redacted_value)}</span>{' '}
            {!key.active && <Badge tone="bad">not accepted</Badge>}
          </li>
        ))}
      </ul>
    </div>
  );
}
