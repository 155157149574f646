import { useLoaded } from '../api/use-answer.ts';
import { DiffView } from '../content/diff/diff-view.tsx';
import { Button } from './button.tsx';
import type { CurrentVersion } from './conflict-view.tsx';
import { isSameVersion } from './same-version.ts';
import { ErrorPanel, Pending } from './states.tsx';

/** What an action on an object is based on. */
export interface Basis {
  /** The revision of what the page shows. */
  readonly revision: string | undefined;
  /** What the page shows. */
  readonly shown: unknown;
  /** Reads what is in force, in the shape of `shown`; null, or a 404, when it was removed. */
  readonly readCurrent: () => Promise<CurrentVersion>;
}

interface ChangedMeanwhileProps {
  readonly basis: Basis;
  /** The action. */
  readonly confirmLabel: string;
  readonly isSending: boolean;
  /** @param isRemoved the object does not exist any more */
  readonly onClose: (isRemoved: boolean) => void;
  /** @param revision of the version that was compared */
  readonly onConfirm: (revision: string | undefined) => void;
}

/** After an action was refused because of another change: what was shown, what is in force, and whether to go on. */
export function ChangedMeanwhile({ basis, confirmLabel, isSending, onClose, onConfirm }: ChangedMeanwhileProps) {
  const { data, error, since, reload } = useLoaded(() => basis.readCurrent(), 'current version');
  const isRemoved = error?.status === 404 || (data !== undefined && (data.version ?? null) === null);
  const current = isRemoved ? undefined : data;
  return (
    <div class="conflict" role="alert">
      {data === undefined && error === undefined && <Pending since={since}>Reading the current version</Pending>}
      {error !== undefined && !isRemoved && <ErrorPanel error={error} onRetry={reload} />}
      {isRemoved && (
        <p>
          <strong>It was removed by another administrator.</strong> There is nothing left to do.
        </p>
      )}
      {current !== undefined && isSameVersion(current.version, basis.shown) && (
        <p>
          <strong>It was changed meanwhile, and is now as this page showed it.</strong> Nothing was done so far.
        </p>
      )}
      {current !== undefined && !isSameVersion(current.version, basis.shown) && (
        <>
          <p>
            <strong>It was changed by another administrator.</strong> Nothing was done so far.
          </p>
          <DiffView
            before={JSON.stringify(basis.shown ?? null, undefined, 2)}
            after={JSON.stringify(current.version, undefined, 2)}
            beforeTitle="the version of this page"
            afterTitle="the current version"
          />
        </>
      )}
      <div class="dialog-actions">
        <Button onClick={() => onClose(isRemoved)}>{isRemoved ? 'Close' : 'Cancel'}</Button>
        {current !== undefined && (
          <Button look="danger" disabled={isSending} onClick={() => onConfirm(current.revision)}>
            {confirmLabel} anyway
          </Button>
        )}
      </div>
    </div>
  );
}
