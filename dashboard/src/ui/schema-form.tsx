import './schema-form.css';
import { Button } from './button.tsx';
import { useProblem } from './change-dialog.tsx';
import { CheckField, SelectField, TextField } from './fields.tsx';
import { type FormValue, type SchemaField, withMember } from './schema-fields.ts';
import { JsonInput, LinesInput, NumberInput, SecretInput, SecretsInput, TextArea } from './schema-inputs.tsx';

interface SchemaFormProps {
  readonly fields: readonly SchemaField[];
  readonly value: FormValue;
  readonly onChange: (value: FormValue) => void;
  /** The parameter of the API that has the value: the gateway's message about `<parameter>.<key>` is shown at the field. */
  readonly parameter?: string;
  /** By key. The message of the gateway for the enclosing `ChangeDialog` is shown without being passed here. */
  readonly problems?: Readonly<Record<string, string>>;
}

/**
 * The fields of an object. A member that is emptied is removed from the value; members without a field are kept
 * (`withUnknownMembers` shows them).
 */
export function SchemaForm({ fields, value, onChange, parameter, problems = {} }: SchemaFormProps) {
  return (
    <div class="schema-form">
      {fields.map((field) => (
        <SchemaControl
          key={field.key}
          field={field}
          member={value[field.key]}
          parameter={parameter === undefined ? field.key : `${parameter}.${field.key}`}
          problem={problems[field.key]}
          onChange={(member) => onChange(withMember(value, field.key, member))}
        />
      ))}
    </div>
  );
}

interface ControlProps {
  readonly field: SchemaField;
  readonly member: unknown;
  readonly parameter: string;
  readonly problem: string | undefined;
  readonly onChange: (member: unknown) => void;
}

function SchemaControl({ problem, ...props }: ControlProps) {
  const refused = useProblem(props.parameter);
  return <Control {...props} problem={problem ?? refused} />;
}

function Control({ field, member, parameter, problem, onChange }: ControlProps) {
  const { required = false, placeholder, help } = field;
  const label = required ? `${field.label} (required)` : field.label;
  const frame = { label, problem, help };
  const text = typeof member === 'string' ? member : member === undefined ? '' : String(member);
  const onText = (given: string) => onChange(given === '' ? undefined : given);
  switch (field.kind) {
    case 'text':
      return (
        <TextField
          {...{ ...frame, required, value: text, onInput: onText }}
          {...(placeholder === undefined ? {} : { placeholder })}
          {...(field.suggestions === undefined ? {} : { suggestions: field.suggestions })}
        />
      );
    case 'textarea':
      return <TextArea {...{ ...frame, required, placeholder, value: text, onInput: onText }} />;
    case 'number':
      return <NumberInput {...{ ...frame, required, placeholder, least: field.least, value: member, onChange }} />;
    case 'secret':
      return <SecretInput {...{ ...frame, required, placeholder, value: text, onChange }} />;
    case 'secrets':
      return <SecretsInput {...{ ...frame, required, value: listOf(member), onChange }} />;
    case 'boolean':
      return (
        <div>
          <CheckField label={field.label} checked={member === true} onChange={onChange} />
          {help !== undefined && <p class="field-help">{help}</p>}
        </div>
      );
    case 'choice':
      return (
        <SelectField
          {...frame}
          value={text}
          choices={required && text !== '' ? field.options : [{ value: '', title: 'Default' }, ...field.options]}
          onChange={onText}
        />
      );
    case 'choices':
      return <Choices {...{ ...frame, options: field.options, value: listOf(member), onChange }} />;
    case 'list':
      return <LinesInput {...{ ...frame, required, placeholder, value: listOf(member), onChange }} />;
    case 'json':
      return <JsonInput {...{ ...frame, required, value: member, onChange }} />;
    case 'object':
      return (
        <fieldset class="schema-group">
          <legend>{label}</legend>
          <SchemaForm fields={field.fields} value={objectOf(member)} onChange={onChange} parameter={parameter} />
        </fieldset>
      );
    case 'objects':
      return <ObjectList {...{ field, member, parameter, onChange }} />;
  }
}

interface ChoicesProps {
  readonly label: string;
  readonly problem: string | undefined;
  readonly help: string | undefined;
  readonly options: readonly { readonly value: string; readonly title: string }[];
  readonly value: readonly string[];
  readonly onChange: (value: readonly string[]) => void;
}

function Choices({ label, problem, help, options, value, onChange }: ChoicesProps) {
  return (
    <fieldset class="schema-choices">
      <legend>{label}</legend>
      {options.map((option) => (
        <CheckField
          key={option.value}
          label={option.title}
          checked={value.includes(option.value)}
          onChange={(checked) =>
            onChange(
              options.flatMap((one) =>
                (one.value === option.value ? checked : value.includes(one.value)) ? [one.value] : [],
              ),
            )
          }
        />
      ))}
      {help !== undefined && <p class="field-help">{help}</p>}
      {problem !== undefined && <p class="field-problem">{problem}</p>}
    </fieldset>
  );
}

interface ObjectListProps {
  readonly field: Extract<SchemaField, { kind: 'objects' }>;
  readonly member: unknown;
  readonly parameter: string;
  readonly onChange: (member: unknown) => void;
}

function ObjectList({ field, member, parameter, onChange }: ObjectListProps) {
  const items = Array.isArray(member) ? member : [];
  const change = (next: readonly unknown[]) => onChange(next.length === 0 ? undefined : next);
  return (
    <fieldset class="schema-group">
      <legend>{field.label}</legend>
      {items.map((item, place) => (
        // The place is the identity: items have no ids.
        <fieldset key={place} class="schema-group schema-item">
          <legend>
            {field.itemName} {place + 1}
          </legend>
          <SchemaForm
            fields={field.fields}
            value={objectOf(item)}
            onChange={(next) => change(items.with(place, next))}
            parameter={`${parameter}.${place}`}
          />
          <Button
            onClick={() => change(items.toSpliced(place, 1))}
            label={`Remove ${field.itemName.toLowerCase()} ${place + 1}`}
          >
            Remove
          </Button>
        </fieldset>
      ))}
      <Button onClick={() => change([...items, {}])}>Add {field.itemName.toLowerCase()}</Button>
    </fieldset>
  );
}

function objectOf(member: unknown): FormValue {
  return typeof member === 'object' && member !== null && !Array.isArray(member) ? (member as FormValue) : {};
}

function listOf(member: unknown): readonly string[] {
  return Array.isArray(member) ? member.map(String) : [];
}
