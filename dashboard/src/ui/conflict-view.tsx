import { useLoaded } from '../api/use-answer.ts';
import { DiffView } from '../content/diff/diff-view.tsx';
import { Button } from './button.tsx';
import { isSameVersion } from './same-version.ts';
import { ErrorPanel, Pending } from './states.tsx';

export interface CurrentVersion {
  readonly revision: string | undefined;
  /** What is in force, in the shape of the version that would be saved. */
  readonly version: unknown;
}

interface ConflictViewProps {
  readonly readCurrent: () => Promise<CurrentVersion>;
  readonly mine: unknown;
  readonly isSending: boolean;
  readonly onKeepCurrent: () => void;
  readonly onSaveMine: (revision: string | undefined) => void;
  readonly onBack: () => void;
}

/** Both versions after a conflict, with their differences, and the choice between them. */
export function ConflictView({ readCurrent, mine, isSending, onKeepCurrent, onSaveMine, onBack }: ConflictViewProps) {
  const { data, error, since, reload } = useLoaded(() => readCurrent(), 'current version');
  const isSame = data !== undefined && isSameVersion(data.version, mine);
  return (
    <div class="conflict" role="alert">
      {data === undefined && error === undefined && <Pending since={since}>Reading the current version</Pending>}
      {error !== undefined && error.status !== 404 && <ErrorPanel error={error} onRetry={reload} />}
      {error?.status === 404 && (
        <p>
          <strong>It was removed while you edited it.</strong> Nothing was saved. What you have entered is still in the
          form.
        </p>
      )}
      {isSame && (
        <p>
          <strong>What you have entered is in force already.</strong> It was saved by an earlier attempt, or another
          administrator has made the same change.
        </p>
      )}
      {data !== undefined && !isSame && (
        <>
          <p>
            <strong>It was changed by another administrator while you edited it.</strong> Nothing was saved. Choose a
            version.
          </p>
          <DiffView
            before={JSON.stringify(data.version ?? null, undefined, 2)}
            after={JSON.stringify(mine ?? null, undefined, 2)}
            beforeTitle="The current version"
            afterTitle="Your version"
          />
        </>
      )}
      <div class="dialog-actions">
        <Button onClick={onBack}>Back to the form</Button>
        {data !== undefined && <Button onClick={onKeepCurrent}>{isSame ? 'Close' : 'Keep the current version'}</Button>}
        {data !== undefined && !isSame && (
          <Button look="danger" disabled={isSending} onClick={() => onSaveMine(data.revision)}>
            Save mine over it
          </Button>
        )}
      </div>
    </div>
  );
}
