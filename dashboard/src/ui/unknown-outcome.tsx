import type { ComponentChildren } from 'preact';
import { ApiError } from '../api/client.ts';
import { useLoaded } from '../api/use-answer.ts';
import { Button } from './button.tsx';
import type { CurrentVersion } from './conflict-view.tsx';
import { isSameVersion } from './same-version.ts';
import { ErrorPanel, Pending } from './states.tsx';

/** What became of a change whose answer was lost. */
export type Outcome =
  /** `what` says what the user has to know of it. */
  | { readonly state: 'done'; readonly what: ComponentChildren }
  | { readonly state: 'not done' }
  /** The object is neither as it was nor as it would be. */
  | { readonly state: 'changed' };

/** Finds out what became of a change from what is in force. @param base the revision that the change was based on */
export async function outcomeOf(
  base: string | undefined,
  mine: unknown,
  readCurrent: () => Promise<CurrentVersion>,
): Promise<Outcome> {
  try {
    const { revision, version } = await readCurrent();
    if (isSameVersion(version, mine)) return { state: 'done', what: 'What you have entered is in force.' };
    return { state: revision === base || version === null ? 'not done' : 'changed' };
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return { state: 'not done' };
    throw error;
  }
}

interface UnknownOutcomeProps {
  readonly error: ApiError;
  /** Undefined where the page cannot find it out. */
  readonly look: (() => Promise<Outcome>) | undefined;
  readonly onClose: () => void;
  readonly onDone: () => void;
  readonly onRepeat: () => void;
  readonly onCompare: () => void;
}

/** Shown in place of the buttons of a form, after the answer to its change was lost: what became of it, and what to do. */
export function UnknownOutcome({ error, look, ...on }: UnknownOutcomeProps) {
  return look === undefined ? (
    <>
      <ErrorPanel error={error} />
      <Reload />
      <div class="dialog-actions">
        <Button onClick={on.onClose}>Cancel</Button>
        <Button onClick={on.onRepeat}>Send it again</Button>
      </div>
    </>
  ) : (
    <Looked look={look} {...on} />
  );
}

/** For changes whose outcome the page does not look up itself. */
export function Reload() {
  return (
    <p>
      Load the page again to see whether it was done, before you repeat it.{' '}
      <Button onClick={() => location.reload()}>Load the page again</Button>
    </p>
  );
}

type LookedProps = Omit<UnknownOutcomeProps, 'error' | 'look'> & { readonly look: () => Promise<Outcome> };

function Looked({ look, onClose, onDone, onRepeat, onCompare }: LookedProps) {
  const { data, error, since, reload } = useLoaded(() => look(), 'outcome');
  return (
    <>
      <div role="alert" class="unknown-outcome">
        <p>
          <strong>No answer has arrived.</strong>{' '}
          {data === undefined && error === undefined && 'The gateway may have done it: this is being looked up.'}
          {data === undefined && error !== undefined && 'The gateway may have done it, and does not say so yet.'}
          {data?.state === 'done' && <>It was done. {data.what}</>}
          {data?.state === 'not done' && 'It was not done so far. You can send it again.'}
          {data?.state === 'changed' && 'What is in force now is neither what it was nor what you have entered.'}
        </p>
        {error !== undefined && <ErrorPanel error={error} onRetry={reload} />}
        {data === undefined && error === undefined && <Pending since={since}>Looking it up</Pending>}
      </div>
      <div class="dialog-actions">
        {data?.state === 'done' ? (
          <Button look="main" onClick={onDone}>
            Close
          </Button>
        ) : (
          <Button onClick={onClose}>Cancel</Button>
        )}
        {data?.state === 'not done' && (
          <Button look="main" onClick={onRepeat}>
            Send it again
          </Button>
        )}
        {data?.state === 'changed' && <Button onClick={onCompare}>Compare both versions</Button>}
      </div>
    </>
  );
}
