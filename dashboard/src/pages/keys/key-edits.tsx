/** Forms that change one property of a key. Each is based on the revision that the page shows. */
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { getAnswer } from '../../api/client.ts';
import { sendChange } from '../../api/send-change.ts';
import { ChangeDialog } from '../../ui/change-dialog.tsx';
import { CheckField } from '../../ui/fields.tsx';
import { ProblemField } from './create-key-dialog.tsx';
import { ExpiryField, expiryDraft, expiryOf } from './expiry-field.tsx';
import type { KeyRow } from './key-row.ts';
import { keyPath } from './keys-address.ts';
import { draftOf, itemsOf, ListField } from './list-field.tsx';
import { useModelSuggestions } from './model-suggestions.ts';

export interface EditProps {
  readonly row: KeyRow;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

interface EditDialogProps<Version> extends EditProps {
  readonly title: string;
  /** The property of a key, as it is edited. */
  readonly versionOf: (key: KeyRow) => Version;
  readonly mine: Version;
  readonly save: (ifMatch: string | undefined) => Promise<unknown>;
  readonly canSubmit?: boolean;
  readonly children: ComponentChildren;
}

function EditDialog<Version>({ row, versionOf, mine, ...props }: EditDialogProps<Version>) {
  return (
    <ChangeDialog
      {...props}
      submitLabel="Save"
      revision={row.revision}
      readCurrent={async () => {
        const current = await getAnswer({ of: '/admin/auth-keys/{id}', at: keyPath(row.id) });
        return { revision: current.revision, version: versionOf(current) };
      }}
      mine={() => mine}
    />
  );
}

export function NameDialog(props: EditProps) {
  const { row } = props;
  const [name, setName] = useState(row.name);
  const [description, setDescription] = useState(row.description ?? '');
  return (
    <EditDialog
      {...props}
      title="Name and description"
      versionOf={(key) => ({ name: key.name, description: key.description ?? '' })}
      mine={{ name: name.trim(), description: description.trim() }}
      canSubmit={name.trim() !== ''}
      save={(ifMatch) =>
        sendChange({
          ...{ method: 'PUT', of: '/admin/auth-keys/{id}/name', at: keyPath(row.id, 'name') },
          ...{ json: { name: name.trim(), description: description.trim() || null }, ifMatch },
        })
      }
    >
      <ProblemField parameter="name" label="Name" value={name} onInput={setName} />
      <ProblemField parameter="description" label="Description" value={description} onInput={setDescription} />
    </EditDialog>
  );
}

export function LabelsDialog(props: EditProps) {
  const { row } = props;
  const [draft, setDraft] = useState(draftOf(row.labels));
  return (
    <EditDialog
      {...props}
      title="Labels"
      versionOf={({ labels }) => ({ labels })}
      mine={{ labels: itemsOf(draft) }}
      save={(ifMatch) =>
        sendChange({
          ...{ method: 'PUT', of: '/admin/auth-keys/{id}/labels', at: keyPath(row.id, 'labels') },
          ...{ json: { labels: itemsOf(draft) }, ifMatch },
        })
      }
    >
      <ListField
        {...{ title: 'Labels', addLabel: 'Add a label', empty: 'None.', parameter: 'labels' }}
        draft={draft}
        onChange={setDraft}
      />
    </EditDialog>
  );
}

export function ModelsDialog(props: EditProps) {
  const { row } = props;
  const [draft, setDraft] = useState(draftOf(row.allowed_models));
  const suggestions = useModelSuggestions();
  return (
    <EditDialog
      {...props}
      title="Allowed models"
      versionOf={(key) => ({ allowed_models: key.allowed_models })}
      mine={{ allowed_models: itemsOf(draft) }}
      save={(ifMatch) =>
        sendChange({
          ...{ method: 'PUT', of: '/admin/auth-keys/{id}/allowed-models', at: keyPath(row.id, 'allowed-models') },
          ...{ json: { allowed_models: itemsOf(draft) }, ifMatch },
        })
      }
    >
      <ListField
        title="Models that the key may use"
        addLabel="Add a model or a provider"
        empty="The key restricts nothing: it may use all models of its path."
        parameter="allowed_models"
        draft={draft}
        onChange={setDraft}
        suggestions={suggestions}
      />
    </EditDialog>
  );
}

export function NetworksDialog(props: EditProps) {
  const { row } = props;
  const [draft, setDraft] = useState(draftOf(row.allowed_cidrs ?? []));
  return (
    <EditDialog
      {...props}
      title="Allowed networks"
      versionOf={(key) => ({ allowed_cidrs: key.allowed_cidrs ?? [] })}
      mine={{ allowed_cidrs: itemsOf(draft) }}
      save={(ifMatch) =>
        sendChange({
          ...{ method: 'PUT', of: '/admin/auth-keys/{id}/allowed-cidrs', at: keyPath(row.id, 'allowed-cidrs') },
          ...{ json: { allowed_cidrs: itemsOf(draft) }, ifMatch },
        })
      }
    >
      <ListField
        title="Networks of the clients that may use the key"
        addLabel="Add a network, such as 10.0.0.0/8"
        empty="The key may be used from every address."
        parameter="allowed_cidrs"
        draft={draft}
        onChange={setDraft}
      />
    </EditDialog>
  );
}

export function ExpiryDialog(props: EditProps) {
  const { row } = props;
  const [draft, setDraft] = useState(() => expiryDraft(row.expires_at));
  const expiresAt = expiryOf(draft);
  return (
    <EditDialog
      {...props}
      title="Expiry"
      versionOf={(key) => ({ expires_at: key.expires_at ?? null })}
      mine={{ expires_at: expiresAt ?? null }}
      canSubmit={expiresAt !== undefined}
      save={(ifMatch) =>
        sendChange({
          ...{ method: 'PUT', of: '/admin/auth-keys/{id}/expiry', at: keyPath(row.id, 'expiry') },
          ...{ json: { expires_at: expiresAt ?? null }, ifMatch },
        })
      }
    >
      <ExpiryField initial={draft} onChange={setDraft} />
      <p class="keys-muted">From that time on, every gateway refuses the key with 401.</p>
    </EditDialog>
  );
}

export function HeaderDialog(props: EditProps) {
  const { row } = props;
  const [isOn, setOn] = useState(row.user_path_header !== false);
  return (
    <EditDialog
      {...props}
      title="User path header"
      versionOf={(key) => ({ user_path_header: key.user_path_header !== false })}
      mine={{ user_path_header: isOn }}
      save={(ifMatch) =>
        sendChange({
          ...{ method: 'PUT', of: '/admin/auth-keys/{id}/user-path-header', at: keyPath(row.id, 'user-path-header') },
          ...{ json: { user_path_header: isOn }, ifMatch },
        })
      }
    >
      <CheckField label="A request header may name the user path" checked={isOn} onChange={setOn} />
      <p class="keys-muted">
        The header is <code>X-Gateway-User-Path</code>. It has no effect for a key that is bound to a path.
      </p>
    </EditDialog>
  );
}

export function AccessDialog(props: EditProps) {
  const { row } = props;
  const [isOn, setOn] = useState(row.dashboard_access);
  const path =
    row.user_path === undefined || row.user_path === '/' ? 'everything' : `${row.user_path} and all below it`;
  return (
    <EditDialog
      {...props}
      title="Dashboard access"
      versionOf={(key) => ({ dashboard_access: key.dashboard_access })}
      mine={{ dashboard_access: isOn }}
      save={(ifMatch) =>
        sendChange({
          ...{ method: 'PUT', of: '/admin/auth-keys/{id}/dashboard-access', at: keyPath(row.id, 'dashboard-access') },
          ...{ json: { dashboard_access: isOn }, ifMatch },
        })
      }
    >
      <CheckField label={`The key may administer ${path}`} checked={isOn} onChange={setOn} />
    </EditDialog>
  );
}
