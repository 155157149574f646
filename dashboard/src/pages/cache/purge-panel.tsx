import './cache.css';
import { useRef, useState } from 'preact/hooks';
import { access, isGlobal } from '../../api/access.ts';
import { sendChange } from '../../api/send-change.ts';
import { formatCount } from '../../format/numbers.ts';
import { Button } from '../../ui/button.tsx';
import { ConfirmDialog } from '../../ui/confirm-dialog.tsx';
import { TextField } from '../../ui/fields.tsx';
import { Panel } from '../../ui/panel.tsx';
import { type PurgeBody, purgeBody, purgedAnswers } from './purge-selection.ts';

type Purge = { readonly all: true } | PurgeBody;

/** Removes answers from the cache: those that match every given field, or all. */
export function PurgePanel() {
  const [userPath, setUserPath] = useState(access.value?.userPath ?? '');
  const [model, setModel] = useState('');
  const [provider, setProvider] = useState('');
  const [purge, setPurge] = useState<Purge | undefined>(undefined);
  const [purged, setPurged] = useState<number | undefined>(undefined);
  const body = purgeBody({ userPath, model, provider });
  const isComplete = isGlobal.value ? Object.keys(body).length > 0 : body.user_path !== undefined;
  return (
    <Panel title="Remove answers">
      <form
        class="purge-form"
        onSubmit={(event) => {
          event.preventDefault();
          if (isComplete) setPurge(body);
        }}
      >
        <p>
          Removed are the answers that match every field that is filled in. Later requests call a provider again and
          fill the cache.
        </p>
        <div class="purge-fields">
          <TextField label="User path, with all below it" placeholder="/team" value={userPath} onInput={setUserPath} />
          <TextField label="Provider" placeholder="openai" value={provider} onInput={setProvider} />
          <TextField label="Model, by its id at the provider" value={model} onInput={setModel} />
        </div>
        <div class="purge-actions">
          <Button type="submit" disabled={!isComplete}>
            Remove these answers
          </Button>
          {isGlobal.value && (
            <Button look="danger" onClick={() => setPurge({ all: true })}>
              Remove all answers
            </Button>
          )}
        </div>
        <p role="status">
          {purged !== undefined &&
            (purged === 1 ? '1 answer was removed.' : `${formatCount(purged)} answers were removed.`)}
        </p>
      </form>
      {purge !== undefined && (
        <ConfirmPurge
          purge={purge}
          onClose={() => setPurge(undefined)}
          onPurged={(count) => {
            setPurge(undefined);
            setPurged(count);
          }}
        />
      )}
    </Panel>
  );
}

interface ConfirmPurgeProps {
  readonly purge: Purge;
  readonly onClose: () => void;
  readonly onPurged: (count: number) => void;
}

function ConfirmPurge({ purge, onClose, onPurged }: ConfirmPurgeProps) {
  const count = useRef(0);
  const isAll = 'all' in purge;
  return (
    <ConfirmDialog
      title={isAll ? 'Remove all answers from the cache?' : 'Remove these answers from the cache?'}
      effect={
        <p>
          {isAll ? 'Every answer of every user path is' : `All ${purgedAnswers(purge)} are`} removed from the cache.
          Requests equal to theirs call a provider again, at its price. Recorded requests and their figures stay.
        </p>
      }
      confirmLabel={isAll ? 'Remove all answers' : 'Remove the answers'}
      run={async () => {
        count.current = (await sendChange({ method: 'POST', of: '/admin/cache/purge', json: purge })).purged;
      }}
      onClose={onClose}
      onDone={() => onPurged(count.current)}
    />
  );
}
