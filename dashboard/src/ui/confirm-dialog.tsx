import type { ComponentChildren } from 'preact';
import { Button } from './button.tsx';
import { Dialog } from './dialog.tsx';
import { ErrorPanel } from './states.tsx';
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

/** Asks before a change that removes something or interrupts clients. The focus is on Cancel. */
export function ConfirmDialog({ title, effect, confirmLabel, onClose, onDone, run }: ConfirmDialogProps) {
  const { error, isSending, send } = useChange(onDone);
  return (
    <Dialog title={title} onClose={onClose}>
      <div class="confirm-effect">{effect}</div>
      {error !== undefined && <ErrorPanel error={error} />}
      <div class="dialog-actions">
        <Button autoFocus onClick={onClose}>
          Cancel
        </Button>
        <Button look="danger" disabled={isSending} onClick={() => send(run)}>
          {confirmLabel}
        </Button>
      </div>
    </Dialog>
  );
}
