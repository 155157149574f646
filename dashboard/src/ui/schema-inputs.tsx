/** Inputs whose text is not their value: numbers, lines, JSON, secrets. */
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { Button } from './button.tsx';
import { Field, type FieldProps, fieldAttributes } from './fields.tsx';
import { linesOf, parsedJson, SECRET_MASK } from './schema-fields.ts';

interface InputProps extends FieldProps {
  readonly required?: boolean | undefined;
  readonly placeholder?: string | undefined;
}

interface TextAreaProps extends InputProps {
  readonly value: string;
  readonly onInput: (value: string) => void;
  readonly rows?: number;
  readonly class?: string;
  /** Why the text cannot be used; the form cannot be sent. */
  readonly invalid?: string;
}

export function TextArea({ value, onInput, rows = 4, required, placeholder, ...props }: TextAreaProps) {
  const id = useId();
  const area = useRef<HTMLTextAreaElement>(null);
  const problem = props.invalid ?? props.problem;
  useEffect(() => area.current?.setCustomValidity(props.invalid ?? ''), [props.invalid]);
  return (
    <Field {...{ ...props, id, problem }}>
      <textarea
        {...fieldAttributes(id, { ...props, problem })}
        ref={area}
        class={`input textarea ${props.class ?? ''}`}
        rows={rows}
        value={value}
        required={required}
        placeholder={placeholder}
        spellcheck={false}
        onInput={(event) => onInput(event.currentTarget.value)}
      />
    </Field>
  );
}

interface NumberInputProps extends InputProps {
  /** Anything but a number is shown as missing. */
  readonly value: unknown;
  readonly onChange: (value: number | undefined) => void;
  /** Default: no limit. */
  readonly least?: number | undefined;
  readonly class?: string;
}

/** A number; undefined when it is empty. Text that is no number keeps the form from being sent. */
export function NumberInput({ value, onChange, required, placeholder, least, ...props }: NumberInputProps) {
  const id = useId();
  const [text, setText] = useState(textOf(value));
  // The typed text is kept as long as it means the value: `1.`, `0.50`.
  const shown = numberOf(text) === numberOf(textOf(value)) ? text : textOf(value);
  return (
    <Field {...{ ...props, id }}>
      <input
        {...fieldAttributes(id, props)}
        class={`input ${props.class ?? ''}`}
        type="number"
        step="any"
        min={least}
        value={shown}
        required={required}
        placeholder={placeholder}
        autocomplete="off"
        onInput={(event) => {
          setText(event.currentTarget.value);
          onChange(numberOf(event.currentTarget.value));
        }}
      />
    </Field>
  );
}

function textOf(value: unknown): string {
  return typeof value === 'number' || typeof value === 'string' ? String(value) : '';
}

function numberOf(text: string): number | undefined {
  const number = Number(text);
  return text.trim() === '' || Number.isNaN(number) ? undefined : number;
}

interface LinesInputProps extends InputProps {
  readonly value: readonly string[];
  readonly onChange: (value: readonly string[] | undefined) => void;
}

/** A list of strings, one per line; undefined when there are none. */
export function LinesInput({ value, onChange, label, ...props }: LinesInputProps) {
  const [text, setText] = useState(value.join('\n'));
  const shown = linesOf(text).join('\n') === value.join('\n') ? text : value.join('\n');
  return (
    <TextArea
      {...props}
      label={`${label}, one per line`}
      value={shown}
      rows={Math.min(8, Math.max(2, value.length + 1))}
      onInput={(given) => {
        setText(given);
        const lines = linesOf(given);
        onChange(lines.length === 0 ? undefined : lines);
      }}
    />
  );
}

interface JsonInputProps extends InputProps {
  readonly value: unknown;
  readonly onChange: (value: unknown) => void;
}

/** Any value as JSON; undefined when it is empty. The form cannot be sent while the text is not JSON. */
export function JsonInput({ value, onChange, label, ...props }: JsonInputProps) {
  const [text, setText] = useState(value === undefined ? '' : JSON.stringify(value, undefined, 2));
  const isInvalid = text.trim() !== '' && parsedJson(text) === undefined;
  return (
    <TextArea
      {...props}
      {...(isInvalid ? { invalid: 'This is not JSON.' } : {})}
      label={`${label}, as JSON`}
      class="code"
      value={text}
      onInput={(given) => {
        setText(given);
        if (given.trim() === '') onChange(undefined);
        else {
          const parsed = parsedJson(given);
          if (parsed !== undefined) onChange(parsed.value);
        }
      }}
    />
  );
}

interface SecretInputProps extends InputProps {
  /** `SECRET_MASK` for a stored one. */
  readonly value: string;
  readonly onChange: (value: string | undefined) => void;
}

/** A secret that can be written and not read. A stored one is kept until it is replaced or removed. */
export function SecretInput({ value, onChange, required, placeholder, ...props }: SecretInputProps) {
  const { label } = props;
  const id = useId();
  const [wasStored] = useState(value === SECRET_MASK);
  const [isReplaced, setReplaced] = useState(false);
  if (wasStored && !isReplaced) {
    const isRemoved = value !== SECRET_MASK;
    return (
      <fieldset class="schema-secret">
        <legend>{label}</legend>
        <span>{isRemoved ? 'Removed when saved.' : 'Stored encrypted. It cannot be shown.'}</span>
        <Button
          label={`Replace ${label}`}
          onClick={() => {
            setReplaced(true);
            onChange(undefined);
          }}
        >
          Replace
        </Button>
        {!required && (
          <Button
            label={`${isRemoved ? 'Keep' : 'Remove'} ${label}`}
            onClick={() => onChange(isRemoved ? SECRET_MASK : '')}
          >
            {isRemoved ? 'Keep' : 'Remove'}
          </Button>
        )}
      </fieldset>
    );
  }
  return (
    <div class="schema-secret-input">
      <Field {...{ ...props, id }}>
        <input
          {...fieldAttributes(id, props)}
          class="input"
          type="password"
          // Browsers offer to save what they take for a password of the user.
          autocomplete="new-password"
          required={required}
          placeholder={placeholder}
          value={value === SECRET_MASK ? '' : value}
          onInput={(event) => onChange(event.currentTarget.value || undefined)}
        />
      </Field>
      {wasStored && (
        <Button
          label={`Keep the stored value of ${label}`}
          onClick={() => {
            setReplaced(false);
            onChange(SECRET_MASK);
          }}
        >
          Keep the stored one
        </Button>
      )}
    </div>
  );
}

interface SecretsInputProps extends InputProps {
  readonly value: readonly string[];
  readonly onChange: (value: readonly string[] | undefined) => void;
}

/**
 * A list of secrets. Stored ones keep their place, by which the gateway knows them: only the last one can be removed,
 * the others can be replaced.
 */
export function SecretsInput({ value, onChange, label, required, problem, help }: SecretsInputProps) {
  const shown = value.length === 0 ? [''] : value;
  const change = (next: readonly string[]) => onChange(next.every((secret) => secret === '') ? undefined : next);
  return (
    <fieldset class="schema-group">
      <legend>{label}</legend>
      {shown.map((secret, place) => (
        <div key={place} class="schema-secret-row">
          <SecretInput
            label={`Key ${place + 1}`}
            required={required || shown.length > 1}
            value={secret}
            onChange={(next) => change(shown.with(place, next ?? ''))}
          />
          {place === shown.length - 1 && place > 0 && (
            <Button label={`Remove key ${place + 1}`} onClick={() => change(shown.slice(0, -1))}>
              Remove
            </Button>
          )}
        </div>
      ))}
      {help !== undefined && <p class="field-help">{help}</p>}
      {problem !== undefined && <p class="field-problem">{problem}</p>}
      <Button onClick={() => onChange([...shown, ''])}>Add a key</Button>
    </fieldset>
  );
}
