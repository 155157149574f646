import { useState } from 'preact/hooks';
import { getAnswer } from '../../api/client.ts';
import { sendChange } from '../../api/send-change.ts';
import { ChangeDialog } from '../../ui/change-dialog.tsx';
import { type Choice, SelectField, TextField } from '../../ui/fields.tsx';
import type { BudgetSettings } from './budget-row.ts';

export const weekdays: readonly Choice<string>[] = [
  'Sunday',
  'Monday',
  'Tuesday',
  'Wednesday',
  'Thursday',
  'Friday',
  'Saturday',
].map((title, at) => ({ value: String(at), title }));

const days: readonly Choice<string>[] = Array.from({ length: 31 }, (_, at) => ({
  value: String(at + 1),
  title: String(at + 1),
}));

type Anchors = Omit<BudgetSettings, 'updated_at' | 'revision' | 'current_periods'>;

/** `HH:MM`, UTC. */
export function clockText(settings: Anchors, of: 'daily' | 'weekly' | 'monthly'): string {
  const two = (value: number) => String(value).padStart(2, '0');
  return `${two(settings[`${of}_reset_hour`])}:${two(settings[`${of}_reset_minute`])}`;
}

interface SettingsDialogProps {
  readonly settings: BudgetSettings;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

export function SettingsDialog({ settings, onClose, onDone }: SettingsDialogProps) {
  const [day, setDay] = useState(clockText(settings, 'daily'));
  const [week, setWeek] = useState(clockText(settings, 'weekly'));
  const [month, setMonth] = useState(clockText(settings, 'monthly'));
  const [weekday, setWeekday] = useState(String(settings.weekly_reset_weekday));
  const [monthDay, setMonthDay] = useState(String(settings.monthly_reset_day));
  const version = (): Anchors => ({
    ...clockMembers('daily', day),
    ...clockMembers('weekly', week),
    ...clockMembers('monthly', month),
    weekly_reset_weekday: Number(weekday),
    monthly_reset_day: Number(monthDay),
  });
  return (
    <ChangeDialog
      title="When periods of budgets begin"
      submitLabel="Save the settings"
      revision={settings.revision}
      save={(ifMatch) => sendChange({ method: 'PUT', of: '/admin/budgets/settings', ifMatch, json: version() })}
      mine={() => sorted(version())}
      readCurrent={readSettings}
      canSubmit={[day, week, month].every((time) => time !== '')}
      onClose={onClose}
      onDone={onDone}
    >
      <p>Times are in UTC. The current periods of all budgets change at once, with their spending.</p>
      <div class="limit-fields">
        <TextField label="Days begin at" type="time" value={day} onInput={setDay} />
      </div>
      <div class="limit-fields">
        <SelectField label="Weeks begin on" value={weekday} choices={weekdays} onChange={setWeekday} />
        <TextField label="Weeks begin at" type="time" value={week} onInput={setWeek} />
      </div>
      <div class="limit-fields">
        <SelectField label="Months begin on day" value={monthDay} choices={days} onChange={setMonthDay} />
        <TextField label="Months begin at" type="time" value={month} onInput={setMonth} />
      </div>
    </ChangeDialog>
  );
}

function clockMembers<Of extends 'daily' | 'weekly' | 'monthly'>(of: Of, time: string) {
  const [hour, minute] = time.split(':').map(Number);
  return { [`${of}_reset_hour`]: hour, [`${of}_reset_minute`]: minute } as Record<
    `${Of}_reset_hour` | `${Of}_reset_minute`,
    number
  >;
}

async function readSettings() {
  const { revision, current_periods, updated_at, ...anchors } = await getAnswer('/admin/budgets/settings');
  return { revision, version: sorted(anchors) };
}

/** In the same order for the comparison. */
function sorted(anchors: Anchors): object {
  return Object.fromEntries(Object.entries(anchors).toSorted(([one], [other]) => (one < other ? -1 : 1)));
}
