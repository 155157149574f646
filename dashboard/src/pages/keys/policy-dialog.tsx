import { useRef, useState } from 'preact/hooks';
import { sendChange } from '../../api/send-change.ts';
import { ChangeDialog, useProblem } from '../../ui/change-dialog.tsx';
import { TextField } from '../../ui/fields.tsx';
import { draftOf, itemsOf, ListField } from './list-field.tsx';
import { useModelSuggestions } from './model-suggestions.ts';
import { currentPolicy, policyOf, type UserRow } from './user-policy.ts';

interface PolicyDialogProps {
  /** Undefined: the form asks for the path. */
  readonly user: UserRow | undefined;
  readonly onClose: () => void;
  readonly onDone: (path: string) => void;
}

/** Sets the models that may be used at a path and below it. */
export function PolicyDialog({ user, onClose, onDone }: PolicyDialogProps) {
  const before = policyOf(user);
  const [path, setPath] = useState(user?.user_path ?? '');
  const [models, setModels] = useState(draftOf(before.allowed_models));
  const [description, setDescription] = useState(before.description);
  // A path without a policy has its revision in no list: it is read once, before the first attempt.
  const begun = useRef<{ readonly path: string; readonly revision: string | undefined } | undefined>(undefined);
  const suggestions = useModelSuggestions();
  const mine = () => ({ allowed_models: itemsOf(models), description: description.trim() });
  const save = async (ifMatch: string | undefined) => {
    await sendChange({
      ...{ method: 'PUT', of: '/admin/users' },
      json: { user_path: path.trim(), ...mine(), description: description.trim() || null },
      ifMatch: ifMatch ?? (await firstRevision()),
    });
  };
  const firstRevision = async () => {
    const at = path.trim();
    if (begun.current?.path !== at) {
      const { revision, version } = await currentPolicy(at);
      // A policy that this form does not show is a conflict, not something to replace.
      begun.current = { path: at, revision: version === null ? revision : 'none' };
    }
    return begun.current?.revision;
  };
  return (
    <ChangeDialog
      title={user === undefined ? 'Policy of a user path' : `Policy of ${user.user_path}`}
      submitLabel="Save the policy"
      revision={user?.revision}
      save={save}
      readCurrent={() => currentPolicy(path.trim())}
      mine={mine}
      canSubmit={path.trim() !== ''}
      onClose={onClose}
      onDone={() => onDone(path.trim())}
    >
      {user === undefined && <PathField value={path} onInput={setPath} />}
      <ListField
        title="Models that may be used here and at all paths below"
        addLabel="Add a model or a provider"
        empty="Without entries, this path restricts nothing; the lists of the paths above it still do."
        parameter="allowed_models"
        draft={models}
        onChange={setModels}
        suggestions={suggestions}
      />
      <p class="keys-muted">
        <code>provider/model</code> is one model, <code>model</code> that model of any provider, <code>provider/</code>{' '}
        all of a provider, <code>/</code> everything.
      </p>
      <TextField label="Description" value={description} onInput={setDescription} />
    </ChangeDialog>
  );
}

function PathField({ value, onInput }: { readonly value: string; readonly onInput: (text: string) => void }) {
  return (
    <TextField
      label="User path"
      placeholder="/team/alpha"
      value={value}
      onInput={onInput}
      problem={useProblem('user_path')}
    />
  );
}
