import './range-picker.css';
import { useState } from 'preact/hooks';
import { instantOfLocal, localText } from '../format/local-time.ts';
import { dayText, offsetOfZone, startOfDay } from '../format/zone-days.ts';
import { timeZone } from '../settings/time-zone.ts';
import { Button } from './button.tsx';
import { type Choice, SelectField, TextField } from './fields.tsx';
import { chooseInstants, chooseRange, namedRange, type RangeName, ranges, type TimeRange } from './range.ts';

interface RangePickerProps {
  /** Undefined: any time. */
  readonly range: TimeRange | undefined;
  /** Offers no restriction, too. */
  readonly withAny?: boolean;
}

/** Chooses the time range of the page; the choice is in the address. */
export function RangePicker({ range, withAny = false }: RangePickerProps) {
  const [isOpen, setOpen] = useState(range?.name === 'custom');
  const shown = range ?? namedRange('7d', Date.now(), timeZone.value);
  const choices: Choice<RangeName | 'any'>[] = [
    ...(withAny ? [{ value: 'any', title: 'Any time' } as const] : []),
    ...ranges.map(({ name, title }) => ({ value: name, title })),
    { value: 'custom', title: 'From … to …' },
  ];
  return (
    <div class="range-picker">
      <SelectField
        label="Time range"
        hideLabel
        value={isOpen ? 'custom' : (range?.name ?? 'any')}
        choices={choices}
        onChange={(name) => {
          setOpen(name === 'custom');
          if (name !== 'custom') chooseRange(name === 'any' ? undefined : name);
        }}
      />
      {isOpen && <CustomRange key={`${shown.from} ${shown.to} ${timeZone.value}`} range={shown} />}
    </div>
  );
}

function CustomRange({ range }: { readonly range: TimeRange }) {
  const zone = timeZone.value;
  const [from, setFrom] = useState(localText(range.from, zone));
  const [to, setTo] = useState(localText(range.to, zone));
  const start = instantOfLocal(from, zone);
  const end = instantOfLocal(to, zone);
  const isValid = start !== undefined && end !== undefined && start < end;
  return (
    <form
      class="range-picker-custom"
      onSubmit={(event) => {
        event.preventDefault();
        if (isValid) chooseInstants(new Date(start).toISOString(), new Date(end).toISOString());
      }}
    >
      <TextField label="From" hideLabel type="datetime-local" step={1} value={from} onInput={setFrom} />
      <span aria-hidden="true">–</span>
      <TextField
        label="To"
        hideLabel
        type="datetime-local"
        step={1}
        value={to}
        onInput={setTo}
        problem={isValid ? undefined : 'The end must be after the beginning.'}
      />
      <Button type="submit" disabled={!isValid}>
        Apply
      </Button>
    </form>
  );
}

/** The address parameters of one day, `YYYY-MM-DD` in the zone. */
export function dayRange(day: string, zone: string): { readonly from: string; readonly to: string } | undefined {
  const noon = Date.parse(`${day}T12:00:00Z`);
  if (Number.isNaN(noon)) return undefined;
  const at = noon - offsetOfZone(noon, zone);
  if (dayText(at, zone) !== day) return undefined;
  return { from: new Date(startOfDay(at, zone)).toISOString(), to: new Date(startOfDay(at, zone, 1)).toISOString() };
}
