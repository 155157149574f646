import { useState } from 'preact/hooks';
import { Lines, seriesColor } from '../../charts/lines.tsx';
import type { Pattern } from '../../charts/patterns.tsx';
import { roundSteps } from '../../charts/scale.ts';
import { StackedBars } from '../../charts/stacked-bars.tsx';
import { visibleText } from '../../content/text/hidden-characters.ts';
import { SelectField } from '../../ui/fields.tsx';
import { EmptyState } from '../../ui/states.tsx';
import { type ChartChoice, chartData, ticksOf, validChoice, valueColumns } from './chart-choice.ts';
import type { SqlTable } from './sql-result.ts';

const number = new Intl.NumberFormat(navigator.languages, { maximumSignificantDigits: 6 });
const format = (value: number) => number.format(value);
const patterns: readonly Pattern[] = ['plain', 'lines', 'dots', 'cross'];

/** A result as bars or lines, of columns that can be chosen. */
export function ResultChart({ table }: { readonly table: SqlTable }) {
  const [chosen, setChosen] = useState<ChartChoice | undefined>(undefined);
  const choice = validChoice(table, chosen);
  if (choice === undefined) {
    return (
      <EmptyState title="This result has no chart.">
        <p>A chart needs a column of numbers and another column.</p>
      </EmptyState>
    );
  }
  const change = (part: Partial<ChartChoice>) => setChosen({ ...choice, ...part });
  const { places, series, notes } = chartData(table, choice);
  const ticks = ticksOf(places);
  const buckets = places.map((place, at) => ({
    key: place,
    title: visibleText(place),
    tick: visibleText(ticks[at] ?? ''),
  }));
  const named = series.map(({ name, values }) => ({ name, title: visibleText(name), values }));
  const names = table.columns.map(({ name }) => ({ value: name, title: name }));
  const label = `${choice.y} by ${choice.x}`;
  return (
    <div class="sql-chart">
      <div class="sql-choices">
        <SelectField
          label="Chart"
          value={choice.kind}
          choices={[
            { value: 'bars', title: 'Bars' },
            { value: 'lines', title: 'Lines' },
          ]}
          onChange={(kind) => change({ kind })}
        />
        <SelectField label="Over" value={choice.x} choices={names} onChange={(x) => change({ x })} />
        <SelectField
          label="Value"
          value={choice.y}
          choices={valueColumns(table).map(({ name }) => ({ value: name, title: name }))}
          onChange={(y) => change({ y })}
        />
        <SelectField
          label="Separate by"
          value={choice.series}
          choices={[{ value: '', title: 'nothing' }, ...names.filter(({ value }) => value !== choice.x)]}
          onChange={(one) => change({ series: one })}
        />
      </div>
      {choice.kind === 'lines' ? (
        <Lines label={label} buckets={buckets} lines={named} format={format} what="place" />
      ) : (
        <StackedBars
          label={label}
          buckets={buckets}
          kinds={named.map((one, at) => ({
            ...one,
            color: seriesColor(at),
            pattern: patterns[at % patterns.length] ?? 'plain',
          }))}
          format={format}
          formatStep={format}
          steps={roundSteps}
          what="place"
        />
      )}
      {notes.map((note) => (
        <p key={note} class="sql-note">
          {note}
        </p>
      ))}
    </div>
  );
}
