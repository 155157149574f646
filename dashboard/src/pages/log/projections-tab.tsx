import { useState } from 'preact/hooks';
import type { Answer } from '../../api/client.ts';
import { sendChange } from '../../api/send-change.ts';
import { useAnswer } from '../../api/use-answer.ts';
import { Button } from '../../ui/button.tsx';
import { ConfirmDialog } from '../../ui/confirm-dialog.tsx';
import { Time } from '../../ui/facts.tsx';
import { TextField } from '../../ui/fields.tsx';
import { Refreshed } from '../../ui/refreshed.tsx';
import { Badge } from '../../ui/status-badge.tsx';
import { lagText, states, urgentFirst } from './view-words.ts';

type ViewRow = Answer<'/admin/views'>['views'][number];

interface Chosen {
  readonly action: 'skip' | 'rebuild';
  readonly view: ViewRow;
}

/** The read models of the process that answers. */
export function ProjectionsTab({ refreshMs }: { readonly refreshMs: number }) {
  const loaded = useAnswer('/admin/views', {}, { refreshMs });
  const [chosen, setChosen] = useState<Chosen | undefined>(undefined);
  const [notice, setNotice] = useState('');
  const close = () => setChosen(undefined);
  const done = () => {
    close();
    loaded.reload();
  };
  const Confirm = chosen?.action === 'skip' ? SkipDialog : RebuildDialog;
  return (
    <>
      <div role="status">{notice !== '' && <p class="log-notice">{notice}</p>}</div>
      <Refreshed loaded={loaded} refreshMs={refreshMs}>
        {({ views }) => (
          <ul class="log-views" aria-label="Projections">
            {urgentFirst(views).map((view) => (
              <View key={view.name} view={view} onChoose={(action) => setChosen({ action, view })} />
            ))}
          </ul>
        )}
      </Refreshed>
      {chosen !== undefined && <Confirm view={chosen.view} onClose={close} onDone={done} onMessage={setNotice} />}
    </>
  );
}

interface ViewProps {
  readonly view: ViewRow;
  readonly onChoose: (action: Chosen['action']) => void;
}

function View({ view, onChoose }: ViewProps) {
  const { name, about, state, position, error, stopped_at: stoppedAt, rebuild_requested: requested, skipped } = view;
  return (
    <li class="log-view">
      <div class="log-view-head">
        <h2>{name}</h2>
        <Badge tone={states[state].tone}>{states[state].text}</Badge>
        <span class="log-view-actions">
          {stoppedAt !== null && (
            <Button
              label={`Skip the event on which ${name} has stopped`}
              look="danger"
              onClick={() => onChoose('skip')}
            >
              Skip the event…
            </Button>
          )}
          {view.can_rebuild && requested === null && (
            <Button look="quiet" label={`Rebuild ${name}`} onClick={() => onChoose('rebuild')}>
              Rebuild…
            </Button>
          )}
        </span>
      </div>
      {about !== null && <p class="log-about">{about}</p>}
      <p class="log-view-figures">
        <span>
          at <code>{position ?? 'no position'}</code>
        </span>
        <span>{lagText(view)}</span>
        {view.started_from !== null && <span>built from {view.started_from}</span>}
      </p>
      {error !== null && <p class="log-problem">{error}</p>}
      {requested !== null && (
        <p>
          Will be built from the log at the next start: requested by <code>{requested.by}</code>,{' '}
          <Time at={requested.at} />
        </p>
      )}
      {skipped.length > 0 && (
        <ul class="log-skipped" aria-label={`Events that ${name} skips`}>
          {skipped.map((one) => (
            <li key={one.position}>
              Skips <code>{one.position}</code> (<code>{one.type}</code>): {one.reason}. <code>{one.by}</code>,{' '}
              <Time at={one.at} />
            </li>
          ))}
        </ul>
      )}
    </li>
  );
}

interface DialogProps {
  readonly view: ViewRow;
  readonly onClose: () => void;
  readonly onDone: () => void;
  /** What the gateway states about the change. */
  readonly onMessage: (message: string) => void;
}

function RebuildDialog({ view, onMessage, ...dialog }: DialogProps) {
  const [reason, setReason] = useState('');
  const run = async () => {
    const { message } = await sendChange({
      ...{ method: 'POST', of: '/admin/views/{name}/rebuild' },
      at: `/admin/views/${encodeURIComponent(view.name)}/rebuild`,
      json: reason.trim() === '' ? {} : { reason: reason.trim() },
    });
    onMessage(`${view.name}: ${message}`);
  };
  return (
    <ConfirmDialog
      {...dialog}
      title={`Rebuild ${view.name}?`}
      confirmLabel="Rebuild at the next start"
      run={run}
      effect={
        <>
          <p>
            Nothing changes now. At its next start each gateway discards its snapshot of {view.name} and reads the whole
            log for it, up to <code>{view.position ?? 'the end'}</code> and beyond: that start takes longer. The request
            is recorded in the log.
          </p>
          <TextField label="Reason (optional)" value={reason} onInput={setReason} />
        </>
      }
    />
  );
}

function SkipDialog({ view, onMessage, ...dialog }: DialogProps) {
  const [reason, setReason] = useState('');
  const { stopped_at: event } = view;
  const run = async () => {
    if (event === null) return;
    const { message } = await sendChange({
      ...{ method: 'POST', of: '/admin/views/{name}/skip' },
      at: `/admin/views/${encodeURIComponent(view.name)}/skip`,
      json: { position: event.position, reason },
    });
    onMessage(`${view.name}: ${message}`);
  };
  return (
    <ConfirmDialog
      {...dialog}
      title={`Let ${view.name} continue without the event?`}
      confirmLabel="Skip the event"
      run={run}
      effect={
        <>
          <p>
            {view.name} leaves out event <code>{event?.position}</code> (<code>{event?.type}</code> of{' '}
            <code>{event?.stream}</code>) for good, in every gateway: what it shows lacks this event. The event stays in
            the log for all other read models. The skip cannot be undone.
          </p>
          <TextField label="Reason (recorded in the log)" value={reason} onInput={setReason} required />
        </>
      }
    />
  );
}
