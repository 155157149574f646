import { useLoaded } from '../api/use-answer.ts';
import { DiffView } from '../content/diff/diff-view.tsx';
import { Button } from './button.tsx';
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
  return (
    <div class="conflict" role="alert">
      <p>
        <strong>It was changed by another administrator while you edited it.</strong> Nothing was saved. Choose a
        version.
      </p>
      {error !== undefined && <ErrorPanel error={error} onRetry={reload} />}
      {data === undefined && error === undefined && <Pending since={since}>Reading the current version</Pending>}
      {data !== undefined && (
        <>
          <DiffView
            before={JSON.stringify(data.version ?? null, undefined, 2)}
            after={JSON.stringify(mine ?? null, undefined, 2)}
            beforeTitle="The current version"
            afterTitle="Your version"
          />
          <div class="dialog-actions">
            <Button onClick={onBack}>Back to the form</Button>
            <Button onClick={onKeepCurrent}>Keep the current version</Button>
            <Button look="danger" disabled={isSending} onClick={() => onSaveMine(data.revision)}>
              Save mine over it
            </Button>
          </div>
        </>
      )}
    </div>
  );
}
