import type { ComponentChildren } from 'preact';
import { isOutcomeUnknown } from '../api/send-change.ts';
import { Button } from './button.tsx';
import { Sending } from './change-dialog.tsx';
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
  /** Sends the change. */
  readonly run: () => Promise<unknown>;
}

/**
 * Asks before a change that removes something or interrupts clients. The focus is on Cancel. While the change is sent the
 * dialog stays open.
 */
export function ConfirmDialog({ title, effect, confirmLabel, onClose, onDone, run }: ConfirmDialogProps) {
  const { error, isSending, send } = useChange(onDone);
  const close = () => {
    if (!isSending) onClose();
  };
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
        <Button look="danger" disabled={isSending} onClick={() => send(run)}>
          {confirmLabel}
        </Button>
      </div>
    </Dialog>
  );
}
