import { SelectField } from '../../ui/fields.tsx';
import {
  type Guardrail,
  type GuardrailDraft,
  type GuardrailType,
  guardrailDraftOf,
  newGuardrail,
} from './guardrail-draft.ts';

interface GuardrailChoiceProps {
  readonly label: string;
  /** The chosen one; '' for none. */
  readonly value: string;
  readonly saved: readonly Guardrail[];
  readonly types: readonly GuardrailType[];
  /** The title of the choice of none; undefined: one must be chosen. */
  readonly none?: string;
  /** Such as `Changed: `, in front of the names of saved ones. */
  readonly savedPrefix?: string;
  readonly onChange: (value: string) => void;
}

/** A saved guardrail, or a new one of some type. */
export function GuardrailChoice({ label, value, saved, types, none, savedPrefix, onChange }: GuardrailChoiceProps) {
  return (
    <SelectField
      label={label}
      value={value}
      choices={[
        ...(none === undefined ? [] : [{ value: '', title: none }]),
        ...saved.map(({ name }) => ({ value: `saved:${name}`, title: `${savedPrefix ?? ''}${name}` })),
        ...types.map(({ type, label: title }) => ({ value: `type:${type}`, title: `New: ${title}` })),
      ]}
      onChange={onChange}
    />
  );
}

/** The definition of a choice; undefined for none and for one that does not exist any more. */
export function chosenGuardrail(
  value: string,
  { saved, types }: Pick<GuardrailChoiceProps, 'saved' | 'types'>,
): GuardrailDraft | undefined {
  const name = value.slice(value.indexOf(':') + 1);
  if (value.startsWith('saved:')) {
    const row = saved.find((one) => one.name === name);
    return row && guardrailDraftOf(row);
  }
  const type = types.find((one) => one.type === name);
  return type && newGuardrail(type, 'draft');
}
