import { useState } from 'preact/hooks';
import { sendChange } from '../../api/send-change.ts';
import { Button } from '../../ui/button.tsx';
import { ChangeDialog } from '../../ui/change-dialog.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { SelectField } from '../../ui/fields.tsx';
import { ProblemField } from './create-key-dialog.tsx';
import type { KeyRow } from './key-row.ts';

interface RenameLabelDialogProps {
  readonly keys: readonly KeyRow[];
  readonly onClose: () => void;
  readonly onDone: () => void;
}

/** Renames a label on every key that has it. */
export function RenameLabelDialog({ keys, onClose, onDone }: RenameLabelDialogProps) {
  const labels = [...new Set(keys.flatMap((key) => key.labels))].sort();
  const [from, setFrom] = useState(labels[0] ?? '');
  const [to, setTo] = useState('');
  const [renamed, setRenamed] = useState<number | undefined>(undefined);
  const count = keys.filter((key) => key.labels.includes(from)).length;
  if (renamed !== undefined) {
    return (
      <Dialog title="Label renamed" onClose={onClose}>
        <p role="status">
          {renamed} {renamed === 1 ? 'key has' : 'keys have'} the label “{to.trim()}” instead of “{from}”.
        </p>
        <div class="dialog-actions">
          <Button look="main" autoFocus onClick={onClose}>
            Done
          </Button>
        </div>
      </Dialog>
    );
  }
  return (
    <ChangeDialog
      title="Rename a label on all keys"
      submitLabel="Rename the label"
      canSubmit={from !== '' && to.trim() !== '' && to.trim() !== from}
      save={async () => {
        const answer = await sendChange({
          ...{ method: 'PUT', of: '/admin/auth-keys/labels/rename' },
          json: { from, to: to.trim() },
        });
        setRenamed(answer.renamed);
      }}
      onClose={onClose}
      onDone={onDone}
    >
      <SelectField
        label="Label"
        value={from}
        choices={labels.map((label) => ({ value: label, title: label }))}
        onChange={setFrom}
      />
      <ProblemField parameter="to" label="New name" value={to} onInput={setTo} suggestions={labels} />
      <p>
        {count} {count === 1 ? 'key has' : 'keys have'} this label. Budgets of labels and recorded requests keep the old
        name.
      </p>
    </ChangeDialog>
  );
}
