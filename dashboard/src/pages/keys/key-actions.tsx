/** Rotation, deactivation and reactivation of a key. */
import { useRef, useState } from 'preact/hooks';
import { getAnswer } from '../../api/client.ts';
import { sendChange } from '../../api/send-change.ts';
import { useAnswer } from '../../api/use-answer.ts';
import { formatCount } from '../../format/numbers.ts';
import { formatTime } from '../../format/times.ts';
import { Button } from '../../ui/button.tsx';
import { ChangeDialog } from '../../ui/change-dialog.tsx';
import { ConfirmDialog } from '../../ui/confirm-dialog.tsx';
import { SelectField } from '../../ui/fields.tsx';
import { namedRange } from '../../ui/range.ts';
import { keyBasis } from './key-basis.ts';
import type { EditProps } from './key-edits.tsx';
import type { KeyRow } from './key-row.ts';
import { secretEnd } from './key-state.ts';
import { keyPath } from './keys-address.ts';
import { showSecret } from './shown-secret.tsx';

export function KeyActions({ row, onChanged }: { readonly row: KeyRow; readonly onChanged: () => void }) {
  const [open, setOpen] = useState<'rotate' | 'deactivate' | 'reactivate' | undefined>(undefined);
  // Also after a refusal, so that the next attempt is based on what is in force.
  const close = () => {
    setOpen(undefined);
    onChanged();
  };
  const given = { row, onClose: close, onDone: close };
  return (
    <>
      {row.enabled && <Button onClick={() => setOpen('rotate')}>Rotate the secret</Button>}
      {row.enabled ? (
        <Button look="danger" onClick={() => setOpen('deactivate')}>
          Deactivate
        </Button>
      ) : (
        <Button onClick={() => setOpen('reactivate')}>Reactivate</Button>
      )}
      {open === 'rotate' && <RotateDialog {...given} />}
      {open === 'deactivate' && <DeactivateDialog {...given} />}
      {open === 'reactivate' && (
        <ConfirmDialog
          title={`Reactivate the key “${row.name}”?`}
          effect={
            <p>Its newest secret {secretEnd(row.redacted_value)} is accepted again, unless the key has expired.</p>
          }
          confirmLabel="Reactivate the key"
          onClose={close}
          onDone={close}
          basis={keyBasis(row)}
          run={(ifMatch) =>
            sendChange({
              ...{ method: 'POST', of: '/admin/auth-keys/{id}/reactivate', at: keyPath(row.id, 'reactivate') },
              ifMatch,
            })
          }
        />
      )}
    </>
  );
}

/** A deactivation has no condition: it holds whatever else was changed meanwhile. */
function DeactivateDialog({ row, onClose, onDone }: EditProps) {
  return (
    <ConfirmDialog
      title={`Deactivate the key “${row.name}”?`}
      effect={
        <>
          <p>
            From then on every gateway refuses its requests with 401
            {row.previous_valid_until !== undefined && ', those with its previous secret too'}. Answers that have begun
            continue.
          </p>
          <RecentUse row={row} />
        </>
      }
      confirmLabel="Deactivate the key"
      onClose={onClose}
      onDone={onDone}
      run={() =>
        sendChange({
          ...{ method: 'POST', of: '/admin/auth-keys/{id}/deactivate', at: keyPath(row.id, 'deactivate') },
        })
      }
    />
  );
}

const graces = [
  { value: '0', title: 'None: it ends at once' },
  { value: '3600', title: '1 hour' },
  { value: '86400', title: '1 day' },
  { value: '604800', title: '7 days' },
  { value: '2592000', title: '30 days' },
  { value: '7776000', title: '90 days' },
] as const;

function RotateDialog({ row, onClose, onDone }: EditProps) {
  const [grace, setGrace] = useState<(typeof graces)[number]['value']>('86400');
  const secret = useRef<string | undefined>(undefined);
  const until = Date.now() + Number(grace) * 1000;
  return (
    <ChangeDialog
      title={`Rotate the secret of “${row.name}”`}
      submitLabel="Rotate the secret"
      basis={keyBasis(row)}
      save={async (ifMatch) => {
        const { value } = await sendChange({
          ...{ method: 'POST', of: '/admin/auth-keys/{id}/rotate', at: keyPath(row.id, 'rotate') },
          ...{ json: { grace_seconds: Number(grace) }, ifMatch },
        });
        secret.current = value;
      }}
      look={async () => {
        const now = await getAnswer({ of: '/admin/auth-keys/{id}', at: keyPath(row.id) });
        if (now.redacted_value === row.redacted_value) return { state: 'not done' };
        return {
          state: 'done',
          what: 'The new secret has not arrived here, and is not shown again: rotate once more.',
        };
      }}
      onClose={onClose}
      onDone={() => {
        if (secret.current !== undefined) showSecret(row.id, secret.current);
        onDone();
      }}
    >
      <p>The key gets a new secret and keeps its id, rights, limits and history.</p>
      <SelectField
        label={`How long the current secret ${secretEnd(row.redacted_value)} is accepted too`}
        value={grace}
        choices={graces}
        onChange={setGrace}
      />
      <p>
        {grace === '0'
          ? 'The current secret ends at once: clients that use it get 401.'
          : `Until ${formatTime(until)} clients can use both secrets. Only the new one can administer.`}
        {row.previous_valid_until !== undefined && ' The secret before the current one ends at once.'}
      </p>
      <RecentUse row={row} />
    </ChangeDialog>
  );
}

/** How many requests of the last day the change concerns. */
function RecentUse({ row }: { readonly row: KeyRow }) {
  const { from, to } = namedRange('24h', Date.now(), 'UTC');
  const { data } = useAnswer('/admin/usage/keys', { from, to, auth_key_id: row.id, cache_mode: 'all' });
  if (data === undefined) return null;
  const requests = data.reduce((sum, one) => sum + one.requests, 0);
  return (
    <p>
      {requests === 0
        ? 'No request used it in the last 24 hours.'
        : `${formatCount(requests)} ${requests === 1 ? 'request' : 'requests'} used it in the last 24 hours.`}
    </p>
  );
}
