import './time-control.css';
import { useState } from 'preact/hooks';
import { instantOfLocal, localText } from '../format/local-time.ts';
import { formatTime } from '../format/times.ts';
import { timeZone } from '../settings/time-zone.ts';
import { Button } from '../ui/button.tsx';
import { TextField } from '../ui/fields.tsx';
import { asOf, showAsOf } from './as-of.ts';
import { isMoment } from './moment.ts';

/** Chooses the time at which the page shows administration, and states a past time for as long as one is shown. */
export function TimeControl() {
  const [isOpen, setOpen] = useState(false);
  const moment = asOf.value;
  return (
    <div class="time-control" data-past={moment !== undefined}>
      {moment !== undefined && (
        <p role="status">
          {isMoment(moment) ? (
            <>
              <strong>State as of {momentText(moment)}.</strong> It cannot be changed.
            </>
          ) : (
            <>
              <strong>The address names no time or position:</strong> {moment}
            </>
          )}
        </p>
      )}
      <div class="time-control-actions">
        {isOpen ? (
          <ChooseMoment key={moment ?? ''} onClose={() => setOpen(false)} />
        ) : (
          <Button onClick={() => setOpen(true)}>{moment === undefined ? 'Show a past time' : 'Another time'}</Button>
        )}
        {moment !== undefined && <Button onClick={() => showAsOf(undefined)}>Show the present</Button>}
      </div>
    </div>
  );
}

/** A position of the log is shown as such. */
function momentText(moment: string): string {
  if (/^\d+$/.test(moment)) return `position ${moment}`;
  return formatTime(moment);
}

function ChooseMoment({ onClose }: { readonly onClose: () => void }) {
  const zone = timeZone.value;
  const shown = asOf.value !== undefined && !/^\d+$/.test(asOf.value) ? Date.parse(asOf.value) : Number.NaN;
  const begin = Number.isNaN(shown) ? Date.now() : shown;
  const [text, setText] = useState(localText(new Date(begin).toISOString(), zone));
  const chosen = instantOfLocal(text, zone);
  const isFuture = chosen !== undefined && chosen > Date.now();
  return (
    <form
      class="time-control-form"
      onSubmit={(event) => {
        event.preventDefault();
        if (chosen === undefined || isFuture) return;
        showAsOf(new Date(chosen).toISOString());
        onClose();
      }}
    >
      <TextField
        label="Time"
        type="datetime-local"
        step={1}
        value={text}
        onInput={setText}
        problem={isFuture ? 'This time is in the future.' : undefined}
      />
      <Button type="submit" look="main" disabled={chosen === undefined || isFuture}>
        Show
      </Button>
      <Button onClick={onClose}>Cancel</Button>
    </form>
  );
}
