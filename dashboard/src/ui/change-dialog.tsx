import './change-dialog.css';
import { type ComponentChildren, createContext } from 'preact';
import { useContext, useState } from 'preact/hooks';
import type { ApiError } from '../api/client.ts';
import { isConflict, isOutcomeUnknown } from '../api/send-change.ts';
import { Button } from './button.tsx';
import { type Basis, ChangedMeanwhile } from './changed-meanwhile.tsx';
import { ConflictView, type CurrentVersion } from './conflict-view.tsx';
import { Dialog } from './dialog.tsx';
import { ErrorPanel } from './states.tsx';
import { type Outcome, outcomeOf, UnknownOutcome } from './unknown-outcome.tsx';
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
  /** For a form that has no version of its own to compare: what its action is based on. */
  readonly basis?: Basis;
  /** What would be saved, as `readCurrent` returns it. */
  readonly mine?: () => unknown;
  /** Finds out what became of the change when its answer was lost. Default: what `readCurrent` returns, compared with `mine`. */
  readonly look?: () => Promise<Outcome>;
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
 * are shown, and the user chooses. While a change is sent the dialog stays open; when its answer is lost, what became of
 * it is looked up before it can be sent again.
 */
export function ChangeDialog(props: ChangeDialogProps) {
  const {
    title,
    submitLabel,
    revision = props.basis?.revision,
    save,
    readCurrent,
    mine,
    canSubmit = true,
    place = 'middle',
  } = props;
  const { error, isSending, send, clear } = useChange(props.onDone);
  const [dismissed, setDismissed] = useState<ApiError | undefined>(undefined);
  const [compared, setCompared] = useState<ApiError | undefined>(undefined);
  const isShown = error !== undefined && error !== dismissed;
  const isInConflict = isShown && (isConflict(error) || error === compared) && readCurrent !== undefined;
  const isCompared = isShown && isConflict(error) && props.basis !== undefined;
  const look = props.look ?? (readCurrent && mine && (() => outcomeOf(revision, mine(), readCurrent)));
  const close = () => {
    if (!isSending) props.onClose();
  };
  return (
    <Dialog title={title} onClose={close} place={place}>
      <Refused.Provider value={error}>
        <form
          class="change-form"
          hidden={isInConflict || isCompared}
          onSubmit={(event) => {
            event.preventDefault();
            if (canSubmit) send(() => save(revision));
          }}
        >
          {props.children}
          {isOutcomeUnknown(error) && error !== undefined ? (
            !isInConflict && (
              <UnknownOutcome
                error={error}
                look={look}
                onClose={props.onClose}
                onDone={props.onDone}
                onRepeat={() => send(() => save(revision))}
                onCompare={() => setCompared(error)}
              />
            )
          ) : (
            <>
              {error !== undefined && !isInConflict && <ErrorPanel error={error} />}
              <div class="dialog-actions">
                {isSending && <Sending />}
                <Button onClick={close} disabled={isSending}>
                  Cancel
                </Button>
                <Button look="main" type="submit" disabled={isSending || !canSubmit}>
                  {submitLabel}
                </Button>
              </div>
            </>
          )}
        </form>
        {isCompared && props.basis !== undefined && (
          <ChangedMeanwhile
            key={error?.message}
            {...{ basis: props.basis, confirmLabel: submitLabel, isSending }}
            onClose={(isRemoved) => (isRemoved ? props.onDone() : close())}
            onConfirm={(current) => send(() => save(current))}
          />
        )}
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

/** The dialog cannot be closed before the outcome is known. */
export function Sending() {
  return (
    <span class="dialog-sending" role="status">
      Waiting for the answer…
    </span>
  );
}
