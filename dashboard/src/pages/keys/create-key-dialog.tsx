import { useRef, useState } from 'preact/hooks';
import { access } from '../../api/access.ts';
import { getAnswer } from '../../api/client.ts';
import { sendChange } from '../../api/send-change.ts';
import { useAnswer } from '../../api/use-answer.ts';
import { ChangeDialog, useProblem } from '../../ui/change-dialog.tsx';
import { CheckField, TextField } from '../../ui/fields.tsx';
import { ExpiryField, expiryDraft, expiryOf } from './expiry-field.tsx';
import type { KeyRow } from './key-row.ts';
import { keyHref } from './keys-address.ts';
import { draftOf, itemsOf, ListField } from './list-field.tsx';
import { useModelSuggestions } from './model-suggestions.ts';

interface CreateKeyDialogProps {
  /** Suggested labels. */
  readonly labels: readonly string[];
  readonly onClose: () => void;
  readonly onCreated: (key: { readonly id: string; readonly value: string }) => void;
}

export function CreateKeyDialog({ labels: known, onClose, onCreated }: CreateKeyDialogProps) {
  const [name, setName] = useState('');
  const [description, setDescription] = useState('');
  const [path, setPath] = useState(access.value?.userPath ?? '');
  const [labels, setLabels] = useState(draftOf([]));
  const [models, setModels] = useState(draftOf([]));
  const [expiry, setExpiry] = useState(() => expiryDraft(undefined));
  const [hasAccess, setAccess] = useState(false);
  const [hasHeader, setHeader] = useState(true);
  const created = useRef<{ readonly id: string; readonly value: string } | undefined>(undefined);
  const suggestions = useModelSuggestions();
  const { data: users } = useAnswer('/admin/users');
  // Those that existed before: a creation whose answer was lost is found by its name among the others.
  const { data: before } = useAnswer('/admin/auth-keys');
  const expiresAt = expiryOf(expiry);
  const save = async () => {
    created.current = await sendChange({
      ...{ method: 'POST', of: '/admin/auth-keys' },
      json: {
        ...{ name: name.trim(), labels: itemsOf(labels), dashboard_access: hasAccess },
        ...(description.trim() === '' ? {} : { description: description.trim() }),
        ...(path.trim() === '' ? {} : { user_path: path.trim() }),
        // Without entries the key gets the models and the expiry of the key that creates it.
        ...(itemsOf(models).length === 0 ? {} : { allowed_models: itemsOf(models) }),
        ...(typeof expiresAt === 'string' ? { expires_at: expiresAt } : {}),
        ...(hasHeader ? {} : { user_path_header: false }),
      },
    });
  };
  return (
    <ChangeDialog
      title="Create a key"
      submitLabel="Create the key"
      save={save}
      canSubmit={name.trim() !== '' && expiresAt !== undefined}
      look={async () => {
        const known = new Set(before?.map(({ id }) => id));
        const keys = await getAnswer('/admin/auth-keys');
        const made = keys.filter((key) => key.name === name.trim() && !known.has(key.id));
        return made.length === 0 ? { state: 'not done' } : { state: 'done', what: <MadeWithoutSecret keys={made} /> };
      }}
      onClose={onClose}
      onDone={() => {
        if (created.current === undefined) onClose();
        else onCreated(created.current);
      }}
    >
      <ProblemField parameter="name" label="Name" value={name} onInput={setName} />
      <ProblemField parameter="description" label="Description" value={description} onInput={setDescription} />
      <ProblemField
        parameter="user_path"
        label="User path"
        value={path}
        onInput={setPath}
        suggestions={users?.users.map(({ user_path: at }) => at) ?? []}
      />
      {path.trim() === '' && (
        <>
          <p class="keys-muted">
            Without a path, a header of its requests names the path to which they count, and no list of a path restricts
            the key.
          </p>
          <CheckField label="A request header may name the user path" checked={hasHeader} onChange={setHeader} />
        </>
      )}
      <ListField
        title="Labels"
        addLabel="Add a label"
        empty="None."
        parameter="labels"
        draft={labels}
        onChange={setLabels}
        suggestions={known}
      />
      <ListField
        title="Allowed models"
        addLabel="Add a model or a provider"
        empty="All models of its path, as far as your own key may use them."
        parameter="allowed_models"
        draft={models}
        onChange={setModels}
        suggestions={suggestions}
      />
      <ExpiryField initial={expiry} onChange={setExpiry} />
      <CheckField
        label={`Dashboard access: may administer ${path.trim() === '' || path.trim() === '/' ? 'everything' : `${path.trim()} and all below it`}`}
        checked={hasAccess}
        onChange={setAccess}
      />
    </ChangeDialog>
  );
}

/** Keys of a creation whose answer was lost. */
function MadeWithoutSecret({ keys }: { readonly keys: readonly KeyRow[] }) {
  return (
    <>
      Its secret has not arrived here, and is not shown again. Rotate the secret of the key, or deactivate it:{' '}
      {keys.map(({ id, name }) => (
        <a key={id} href={keyHref(id)}>
          {name}
        </a>
      ))}
    </>
  );
}

interface ProblemFieldProps {
  readonly parameter: string;
  readonly label: string;
  readonly value: string;
  readonly onInput: (text: string) => void;
  readonly suggestions?: readonly string[];
}

/** A text with the gateway's message about its parameter. */
export function ProblemField({ parameter, label, value, onInput, suggestions }: ProblemFieldProps) {
  return (
    <TextField
      label={label}
      value={value}
      onInput={onInput}
      problem={useProblem(parameter)}
      {...(suggestions === undefined ? {} : { suggestions })}
    />
  );
}
