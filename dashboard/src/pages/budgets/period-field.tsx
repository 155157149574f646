import { useState } from 'preact/hooks';
import { useProblem } from '../../ui/change-dialog.tsx';
import { type Choice, SelectField, TextField } from '../../ui/fields.tsx';

interface PeriodFieldProps {
  /** Seconds. */
  readonly value: string;
  readonly choices: readonly Choice<string>[];
  readonly onChange: (seconds: string) => void;
  /** The parameter of the API that has it. */
  readonly parameter: string;
}

const OTHER = 'other';

/** NaN for a text that is no number. */
export function secondsOf(text: string): number {
  return /^\d+$/.test(text.trim()) ? Number(text) : Number.NaN;
}

/** One of the named periods, or any number of seconds. */
export function PeriodField({ value, choices, onChange, parameter }: PeriodFieldProps) {
  const [isOther, setOther] = useState(choices.every((choice) => choice.value !== value));
  const problem = useProblem(parameter);
  const ofSeconds = useProblem(`${parameter}_seconds`);
  return (
    <>
      <SelectField
        label="Period"
        value={isOther ? OTHER : value}
        choices={[...choices, { value: OTHER, title: 'A number of seconds' }]}
        problem={isOther ? undefined : (problem ?? ofSeconds)}
        onChange={(chosen) => {
          setOther(chosen === OTHER);
          onChange(chosen === OTHER ? '' : chosen);
        }}
      />
      {isOther && (
        <TextField label="Seconds" value={value} onInput={onChange} problem={problem ?? ofSeconds} required />
      )}
    </>
  );
}
