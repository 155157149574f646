import { useState } from 'preact/hooks';
import type { Answer } from '../../api/client.ts';
import type { Loaded } from '../../api/use-answer.ts';
import { Calendar } from '../../charts/calendar.tsx';
import { formatCount, formatMoney } from '../../format/numbers.ts';
import { formatDay } from '../../format/times.ts';
import { dayText } from '../../format/zone-days.ts';
import { timeZone } from '../../settings/time-zone.ts';
import { SelectField } from '../../ui/fields.tsx';
import { Panel } from '../../ui/panel.tsx';
import { dayRange } from '../../ui/range-picker.tsx';
import { ErrorPanel, Pending } from '../../ui/states.tsx';
import { auditHref } from './overview-links.ts';

type Days = Answer<'/admin/usage/daily'>;
type Measure = 'requests' | 'tokens' | 'cost';
const measures = [
  { value: 'requests', title: 'Requests' },
  { value: 'tokens', title: 'Tokens' },
  { value: 'cost', title: 'Cost' },
] as const;

/** A year of days. Requests that were refused are not in it: they used nothing. */
export function Activity({ days }: { readonly days: Loaded<Days> }) {
  const [measure, setMeasure] = useState<Measure>('requests');
  const title = 'Activity of the last year';
  return (
    <Panel
      title={title}
      class="overview-wide overview-activity"
      actions={
        <SelectField
          label="Measure of the calendar"
          hideLabel
          value={measure}
          choices={measures}
          onChange={setMeasure}
        />
      }
    >
      {days.error !== undefined && <ErrorPanel error={days.error} onRetry={days.reload} />}
      {days.data === undefined && days.error === undefined && <Pending since={days.since} onCancel={days.cancel} />}
      {days.data !== undefined && (
        <Calendar
          label={`${title}: ${measure}`}
          today={dayText(Date.now(), timeZone.value)}
          days={days.data.map((row) => ({ day: row.date, value: figureOf(row, measure), text: textOf(row) }))}
          empty="no requests"
          titleOf={titleOf}
          hrefOf={(day) => {
            const range = dayRange(day, timeZone.value);
            return range && auditHref(range);
          }}
        />
      )}
    </Panel>
  );
}

function figureOf(row: Days[number], measure: Measure): number | null {
  return { requests: row.requests, tokens: row.total_tokens, cost: row.total_cost }[measure];
}

function textOf({ requests, total_tokens, total_cost }: Days[number]): string {
  const cost = total_cost === null ? 'unknown cost' : formatMoney(total_cost);
  return `${formatCount(requests)} requests, ${formatCount(total_tokens)} tokens, ${cost}`;
}

function titleOf(day: string): string {
  const range = dayRange(day, timeZone.value);
  return range === undefined ? day : formatDay(range.from);
}
