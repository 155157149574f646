import './change-dialog.css';
import { type ComponentChildren, createContext } from 'preact';
import { useContext, useState } from 'preact/hooks';
import type { ApiError } from '../api/client.ts';
import { isConflict } from '../api/send-change.ts';
import { Button } from './button.tsx';
import { ConflictView, type CurrentVersion } from './conflict-view.tsx';
import { Dialog } from './dialog.tsx';
import { ErrorPanel } from './states.tsx';
import { useChange } from './use-change.ts';

const Refused = createContext<ApiError | undefined>(undefined);

/** The gateway's message for one field of the form; undefined when it refused another one, or nothing. */
export function useProblem(parameter: string): string | undefined {
  const error = useContext(Refused);
  return error !== undefined && error.parameter === parameter ? error.message : undefined;
}

interface ChangeDialogProps {
  readonly title: string;
  readonly submitLabel: string;
  /** The revision that the form shows; undefined for something new without a revision. */
  readonly revision?: string | undefined;
  /** Sends the change, based on the revision. */
  readonly save: (ifMatch: string | undefined) => Promise<unknown>;
  /** Reads what is in force, after a conflict. */
  readonly readCurrent?: () => Promise<CurrentVersion>;
  /** What would be saved, as `readCurrent` returns it. */
  readonly mine?: () => unknown;
  readonly canSubmit?: boolean;
  readonly place?: 'middle' | 'side';
  readonly onClose: () => void;
  /** After the change is in force, or the current version was chosen. */
  readonly onDone: () => void;
  /** The fields. */
  readonly children: ComponentChildren;
}

/**
 * A form that changes one thing. A change that is based on an old revision is not sent over the newer one: both versions
 * are shown, and the user chooses.
 */
export function ChangeDialog(props: ChangeDialogProps) {
  const { title, submitLabel, revision, save, readCurrent, mine, canSubmit = true, place = 'middle' } = props;
  const { error, isSending, send, clear } = useChange(props.onDone);
  const [dismissed, setDismissed] = useState<ApiError | undefined>(undefined);
  const isInConflict = isConflict(error) && error !== dismissed && readCurrent !== undefined;
  return (
    <Dialog title={title} onClose={props.onClose} place={place}>
      <Refused.Provider value={error}>
        <form
          class="change-form"
          hidden={isInConflict}
          onSubmit={(event) => {
            event.preventDefault();
            if (canSubmit) send(() => save(revision));
          }}
        >
          {props.children}
          {error !== undefined && !isInConflict && <ErrorPanel error={error} />}
          <div class="dialog-actions">
            <Button onClick={props.onClose}>Cancel</Button>
            <Button look="main" type="submit" disabled={isSending || !canSubmit}>
              {submitLabel}
            </Button>
          </div>
        </form>
        {isInConflict && (
          <ConflictView
            key={error?.message}
            readCurrent={readCurrent}
            mine={mine?.()}
            isSending={isSending}
            onKeepCurrent={props.onDone}
            onSaveMine={(current) => send(() => save(current))}
            onBack={() => {
              setDismissed(error);
              clear();
            }}
          />
        )}
      </Refused.Provider>
    </Dialog>
  );
}
