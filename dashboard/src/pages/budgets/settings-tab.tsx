import { useState } from 'preact/hooks';
import { access, isGlobal } from '../../api/access.ts';
import { useAnswer } from '../../api/use-answer.ts';
import { timeZone } from '../../settings/time-zone.ts';
import { Button } from '../../ui/button.tsx';
import { Time } from '../../ui/facts.tsx';
import { Panel } from '../../ui/panel.tsx';
import { EmptyState, ErrorPanel, Pending } from '../../ui/states.tsx';
import type { BudgetSettings } from './budget-row.ts';
import { clockText, SettingsDialog, weekdays } from './settings-dialog.tsx';

/** When days, weeks and months of budgets begin, and the current ones. */
export function SettingsTab({ isPast }: { readonly isPast: boolean }) {
  const features = access.value?.features ?? {};
  const isOff = features['BUDGETS_ENABLED'] === 'off' || features['USAGE_ENABLED'] === 'off';
  if (isOff) {
    return (
      <EmptyState title="Budgets are switched off, and these settings are those of their periods.">
        <p>
          Start the gateway with <code>BUDGETS_ENABLED=true</code> and <code>USAGE_ENABLED=true</code>.
        </p>
      </EmptyState>
    );
  }
  return <LoadedSettings isPast={isPast} />;
}

function LoadedSettings({ isPast }: { readonly isPast: boolean }) {
  const { data, error, since, reload } = useAnswer('/admin/budgets/settings');
  const [isEditing, setEditing] = useState(false);
  if (data === undefined) {
    return error === undefined ? <Pending since={since} /> : <ErrorPanel error={error} onRetry={reload} />;
  }
  return (
    <>
      {isPast && <p class="limit-past">These are the present settings; those of a past time are in History.</p>}
      <Panel
        title="When periods begin"
        actions={isGlobal.value && !isPast && <Button onClick={() => setEditing(true)}>Change the settings</Button>}
      >
        <SettingsTable settings={data} />
        <p class="limit-note">
          Hours, and periods of any number of seconds, are counted from the epoch. A month without the chosen day begins
          at its last day.
          {!isGlobal.value && ' Only administrators of the whole gateway change these settings.'}
        </p>
      </Panel>
      {isEditing && (
        <SettingsDialog
          settings={data}
          onClose={() => setEditing(false)}
          onDone={() => {
            setEditing(false);
            reload();
          }}
        />
      )}
    </>
  );
}

function SettingsTable({ settings }: { readonly settings: BudgetSettings }) {
  const { daily, weekly, monthly } = settings.current_periods;
  const rows = [
    { name: 'Day', begins: clockText(settings, 'daily'), now: daily },
    {
      name: 'Week',
      begins: `${weekdays[settings.weekly_reset_weekday]?.title}, ${clockText(settings, 'weekly')}`,
      now: weekly,
    },
    {
      name: 'Month',
      begins: `day ${settings.monthly_reset_day}, ${clockText(settings, 'monthly')}`,
      now: monthly,
    },
  ];
  return (
    <div class="plain-table-box">
      <table class="plain-table">
        <thead>
          <tr>
            <th scope="col">Period</th>
            <th scope="col">Begins (UTC)</th>
            <th scope="col">The current one began ({timeZone.value})</th>
            <th scope="col">It ends ({timeZone.value})</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(({ name, begins, now }) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td>{begins}</td>
              <td>
                <Time at={now.start} />
              </td>
              <td>
                <Time at={now.end} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
