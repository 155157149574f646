import { useRef, useState } from 'preact/hooks';
import type { AnswerOf, Operation } from '../../api/client.ts';
import { sendChange } from '../../api/send-change.ts';
import { useAnswer } from '../../api/use-answer.ts';
import { formatCount } from '../../format/numbers.ts';
import { dayText } from '../../format/zone-days.ts';
import { timeZone } from '../../settings/time-zone.ts';
import { Button } from '../../ui/button.tsx';
import { ConfirmDialog } from '../../ui/confirm-dialog.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { SelectField, TextField } from '../../ui/fields.tsx';

type Recalculated = AnswerOf<Operation<'/admin/usage/recalculate-pricing', 'post'>>;

const DAY_MS = 86_400_000;

const ranges = [
  { value: '1', title: 'Today' },
  { value: '7', title: 'The last 7 days' },
  { value: '30', title: 'The last 30 days' },
  { value: '90', title: 'The last 90 days' },
  { value: '365', title: 'The last 365 days' },
] as const;

/** Recalculates recorded costs, and shows the outcome. */
export function RecalculateDialog({ onClose }: { readonly onClose: () => void }) {
  const [days, setDays] = useState<(typeof ranges)[number]['value']>('30');
  const [userPath, setUserPath] = useState('');
  const [selector, setSelector] = useState('');
  const [outcome, setOutcome] = useState<Recalculated | undefined>(undefined);
  const newest = useRef<Recalculated | undefined>(undefined);
  const now = Date.now();
  const start_date = dayText(now - (Number(days) - 1) * DAY_MS, timeZone.value);
  const end_date = dayText(now, timeZone.value);
  const scope = {
    ...{ start_date, end_date },
    ...(userPath.trim() === '' ? {} : { user_path: userPath.trim() }),
  };
  const recorded = useAnswer('/admin/usage/summary', { ...scope }, { enabled: outcome === undefined });
  if (outcome !== undefined) return <Outcome outcome={outcome} onClose={onClose} />;
  return (
    <ConfirmDialog
      title="Recalculate past costs?"
      confirmLabel="Recalculate the costs"
      effect={
        <div class="models-more">
          <SelectField label="Requests of" value={days} choices={ranges} onChange={setDays} />
          <TextField
            label="User path"
            placeholder="all"
            help="With all paths below it. Empty: all."
            value={userPath}
            onInput={setUserPath}
          />
          <TextField
            label="Model"
            placeholder="all"
            help="<provider>/<model> or a virtual model. Empty: all."
            value={selector}
            onInput={setSelector}
          />
          <p>
            The costs of the requests from {start_date} to {end_date} ({timeZone.value}),{' '}
            {userPath.trim() === '' ? 'of all user paths' : `of ${userPath.trim()} and below`},{' '}
            {selector.trim() === '' ? 'of all models' : `of ${selector.trim()}`}, are calculated at the prices in force
            now.{' '}
            {recorded.data !== undefined &&
              `${formatCount(recorded.data.total_requests)} requests ${selector.trim() === '' ? 'are in this range.' : 'of all models are in this range.'} `}
            Each cost that differs gets a correction in the log: Usage and reports change. Recorded events stay as they
            are.
          </p>
        </div>
      }
      run={async () => {
        newest.current = await sendChange({
          ...{ method: 'POST', of: '/admin/usage/recalculate-pricing' },
          json: {
            confirmation: 'recalculate',
            ...scope,
            ...(selector.trim() === '' ? {} : { selector: selector.trim() }),
          },
        });
      }}
      onClose={onClose}
      onDone={() => setOutcome(newest.current)}
    />
  );
}

function Outcome({ outcome, onClose }: { readonly outcome: Recalculated; readonly onClose: () => void }) {
  const { status, matched, recalculated, with_pricing, without_pricing } = outcome;
  return (
    <Dialog title="Past costs are recalculated" onClose={onClose}>
      <p role="status">
        {formatCount(recalculated)} of {formatCount(matched)} recorded costs changed. {formatCount(with_pricing)} have a
        price, {formatCount(without_pricing)} have none.
        {status === 'partial' && ' The time limit was reached: repeat it for the rest.'}
      </p>
      <div class="dialog-actions">
        <Button autoFocus onClick={onClose}>
          Close
        </Button>
      </div>
    </Dialog>
  );
}
