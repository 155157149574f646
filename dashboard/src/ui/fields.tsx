import './fields.css';
import type { ComponentChildren, RefObject } from 'preact';
import { useId } from 'preact/hooks';

export interface FieldProps {
  readonly label: string;
  /** The label is read out and not shown. */
  readonly hideLabel?: boolean;
  /** Set when the gateway refused the value. */
  readonly problem?: string | undefined;
  /** What the value means, below the control. */
  readonly help?: string | undefined;
}

interface FieldFrameProps extends FieldProps {
  readonly id: string;
  readonly children: ComponentChildren;
}

/** Attributes of the control in a `Field` of that id. */
export function fieldAttributes(id: string, { problem, help }: Pick<FieldProps, 'problem' | 'help'>) {
  const described = [
    ...(help === undefined ? [] : [`${id}-help`]),
    ...(problem === undefined ? [] : [`${id}-problem`]),
  ];
  return {
    id,
    'aria-invalid': problem === undefined ? undefined : true,
    'aria-describedby': described.length === 0 ? undefined : described.join(' '),
  };
}

/** Label, control, help and problem. The control has `fieldAttributes`. */
export function Field({ id, label, hideLabel, problem, help, children }: FieldFrameProps) {
  return (
    <div class="field">
      <label for={id} class={hideLabel ? 'visually-hidden' : 'field-label'}>
        {label}
      </label>
      {children}
      {help !== undefined && (
        <p class="field-help" id={`${id}-help`}>
          {help}
        </p>
      )}
      {problem !== undefined && (
        <p class="field-problem" id={`${id}-problem`}>
          {problem}
        </p>
      )}
    </div>
  );
}

interface TextFieldProps extends FieldProps {
  readonly value: string;
  readonly onInput: (value: string) => void;
  /** Enter. */
  readonly onCommit?: (value: string) => void;
  readonly type?: 'text' | 'search' | 'password' | 'datetime-local' | 'time' | 'number';
  readonly placeholder?: string;
  readonly inputRef?: RefObject<HTMLInputElement | null>;
  /** Suggested values. */
  readonly suggestions?: readonly string[];
  readonly class?: string;
  readonly step?: number;
  readonly required?: boolean | undefined;
}

export function TextField(props: TextFieldProps) {
  const { value, onInput, onCommit, type = 'text', placeholder, inputRef, suggestions, step } = props;
  const id = useId();
  return (
    <Field {...{ ...props, id }}>
      <input
        {...fieldAttributes(id, props)}
        class={`input ${props.class ?? ''}`}
        // The types of Preact tell apart kinds of input that have the same attributes here.
        type={type as 'text'}
        step={step}
        value={value}
        placeholder={placeholder}
        ref={inputRef}
        list={suggestions === undefined ? undefined : `${id}-list`}
        autocomplete="off"
        autocapitalize="off"
        spellcheck={false}
        required={props.required}
        onInput={(event) => onInput(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === 'Enter') onCommit?.(event.currentTarget.value);
        }}
      />
      {suggestions !== undefined && (
        <datalist id={`${id}-list`}>
          {suggestions.map((suggestion) => (
            <option key={suggestion} value={suggestion} />
          ))}
        </datalist>
      )}
    </Field>
  );
}

export interface Choice<Value extends string> {
  readonly value: Value;
  readonly title: string;
}

interface SelectFieldProps<Value extends string> extends FieldProps {
  readonly value: Value;
  readonly choices: readonly Choice<Value>[];
  readonly onChange: (value: Value) => void;
}

export function SelectField<Value extends string>(props: SelectFieldProps<Value>) {
  const { value, choices, onChange } = props;
  const id = useId();
  return (
    <Field {...{ ...props, id }}>
      <select
        {...fieldAttributes(id, props)}
        class="input"
        value={value}
        onChange={(event) => onChange(event.currentTarget.value as Value)}
      >
        {choices.map((choice) => (
          <option key={choice.value} value={choice.value} selected={choice.value === value}>
            {choice.title}
          </option>
        ))}
      </select>
    </Field>
  );
}

interface CheckFieldProps {
  readonly label: ComponentChildren;
  readonly checked: boolean;
  readonly onChange: (checked: boolean) => void;
}

export function CheckField({ label, checked, onChange }: CheckFieldProps) {
  return (
    <label class="check-field">
      <input type="checkbox" checked={checked} onChange={(event) => onChange(event.currentTarget.checked)} />
      <span>{label}</span>
    </label>
  );
}
