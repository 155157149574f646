import type { ComponentChildren } from 'preact';
import { isConflict, isOutcomeUnknown } from '../api/send-change.ts';
import { Button } from './button.tsx';
import { Sending } from './change-dialog.tsx';
import { type Basis, ChangedMeanwhile } from './changed-meanwhile.tsx';
import { Dialog } from './dialog.tsx';
import { ErrorPanel } from './states.tsx';
import { Reload } from './unknown-outcome.tsx';
import { useChange } from './use-change.ts';

interface ConfirmDialogProps {
  /** A question: `Deactivate the key "ci"?` */
  readonly title: string;
  /** What exactly will happen, with numbers where they are known. */
  readonly effect: ComponentChildren;
  /** The action: `Deactivate the key`. */
  readonly confirmLabel: string;
  readonly onClose: () => void;
  readonly onDone: () => void;
  /** What the action is based on; undefined for an action that holds whatever else was changed. */
  readonly basis?: Basis;
  /** Sends the change. @param ifMatch the revision of `basis`, or of the version that was compared with it */
  readonly run: (ifMatch: string | undefined) => Promise<unknown>;
}

/**
 * Asks before a change that removes something or interrupts clients. The focus is on Cancel. While the change is sent the
 * dialog stays open. An object that another administrator changed meanwhile is shown before the action is sent again.
 */
export function ConfirmDialog({ title, effect, confirmLabel, onClose, onDone, basis, run }: ConfirmDialogProps) {
  const { error, isSending, send } = useChange(onDone);
  const close = () => {
    if (!isSending) onClose();
  };
  if (basis !== undefined && isConflict(error)) {
    return (
      <Dialog title={title} onClose={close}>
        <ChangedMeanwhile
          key={error?.message}
          {...{ basis, confirmLabel, isSending }}
          onClose={(isRemoved) => (isRemoved ? onDone() : close())}
          onConfirm={(revision) => send(() => run(revision))}
        />
      </Dialog>
    );
  }
  return (
    <Dialog title={title} onClose={close}>
      <div class="confirm-effect">{effect}</div>
      {error !== undefined && <ErrorPanel error={error} />}
      {isOutcomeUnknown(error) && <Reload />}
      <div class="dialog-actions">
        {isSending && <Sending />}
        <Button autoFocus onClick={close}>
          Cancel
        </Button>
        <Button look="danger" disabled={isSending} onClick={() => send(() => run(basis?.revision))}>
          {confirmLabel}
        </Button>
      </div>
    </Dialog>
  );
}
