/** Descriptions of form fields, and what the gateway describes as such fields. Pure. */

interface FieldBasics {
  /** The member of the value. */
  readonly key: string;
  readonly label: string;
  readonly required?: boolean;
  readonly help?: string;
  readonly placeholder?: string;
}

export interface FieldOption {
  readonly value: string;
  readonly title: string;
}

/**
 * A field of `SchemaForm` and the type of its member: `text`, `textarea`, `choice`: a string; `secret`: a string that is
 * never shown; `secrets`: a list of them; `number`; `boolean`; `choices`: the chosen values as a list; `list`: strings;
 * `object`; `objects`: a list of objects; `json`: anything.
 */
export type SchemaField = FieldBasics &
  (
    | { readonly kind: 'text'; readonly suggestions?: readonly string[] }
    | { readonly kind: 'textarea' | 'secret' | 'secrets' | 'boolean' | 'list' | 'json' }
    | { readonly kind: 'number'; readonly least?: number }
    | { readonly kind: 'choice' | 'choices'; readonly options: readonly FieldOption[] }
    | { readonly kind: 'object'; readonly fields: readonly SchemaField[] }
    | { readonly kind: 'objects'; readonly fields: readonly SchemaField[]; readonly itemName: string }
  );

export type FormValue = Readonly<Record<string, unknown>>;

/** What the gateway shows in place of a stored secret, and keeps when it is sent back. */
export const SECRET_MASK = '********';

/** A field of `GET /admin/guardrails/types` and `GET /admin/plugins`. */
export interface EditorField {
  readonly key: string;
  readonly label: string;
  readonly input: 'text' | 'textarea' | 'number' | 'select' | 'checkboxes' | 'secret' | 'model';
  readonly required: boolean;
  readonly help?: string | undefined;
  readonly placeholder?: string | undefined;
  readonly options?: readonly { readonly value: string; readonly label: string }[] | undefined;
}

/** @param models suggested for fields that name a model */
export function fieldsOfEditor(fields: readonly EditorField[], models: readonly string[] = []): SchemaField[] {
  return fields.map((field) => {
    const { key, label, required, help, placeholder, input } = field;
    const basics = {
      ...{ key, label, required },
      ...(help === undefined ? {} : { help }),
      ...(placeholder === undefined ? {} : { placeholder }),
    };
    const options = (field.options ?? []).map((option) => ({ value: option.value, title: option.label }));
    switch (input) {
      case 'model':
        return { ...basics, kind: 'text', suggestions: models };
      case 'select':
        return { ...basics, kind: 'choice', options };
      case 'checkboxes':
        return { ...basics, kind: 'choices', options };
      default:
        return { ...basics, kind: input };
    }
  });
}

/** The fields, and one of JSON for each member of the value that has no field, so that nothing is hidden or lost. */
export function withUnknownMembers(fields: readonly SchemaField[], value: FormValue): readonly SchemaField[] {
  const known = new Set(fields.map(({ key }) => key));
  const others = Object.keys(value).filter((key) => !known.has(key));
  return [...fields, ...others.map((key) => ({ key, label: key, kind: 'json' as const }))];
}

/** The value with another member; undefined removes it. */
export function withMember(value: FormValue, key: string, member: unknown): FormValue {
  const { [key]: _, ...others } = value;
  return member === undefined ? others : { ...value, [key]: member };
}

/** One entry for each line that is not blank. */
export function linesOf(text: string): string[] {
  return text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
}

/** @returns undefined when it is not JSON */
export function parsedJson(text: string): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}
