/** The arguments of a tool as form fields, from its JSON Schema. Pure. */
import type { FormValue, SchemaField } from '../../ui/schema-fields.ts';

type Schema = Readonly<Record<string, unknown>>;

/** Levels of objects with fields of their own; deeper ones are JSON. */
const MAX_DEPTH = 3;

/** @returns undefined for a schema that is no object with known members: its arguments are entered as JSON */
export function fieldsOfSchema(schema: Schema, depth = 1): readonly SchemaField[] | undefined {
  const properties = schema['properties'];
  const isOpen = properties === undefined && schema['additionalProperties'] !== false && depth > 1;
  if (schema['type'] !== 'object' || isOpen || combines(schema)) return undefined;
  const required = Array.isArray(schema['required']) ? schema['required'] : [];
  return Object.entries(isSchema(properties) ? properties : {}).map(([key, member]) =>
    fieldOf(key, isSchema(member) ? member : {}, required.includes(key), depth),
  );
}

/** The defaults of the schema. */
export function initialArguments(schema: Schema): FormValue {
  const properties = isSchema(schema['properties']) ? schema['properties'] : {};
  const required = Array.isArray(schema['required']) ? schema['required'] : [];
  return Object.fromEntries(
    Object.entries(properties).flatMap(([key, member]) => {
      if (!isSchema(member)) return [];
      if (member['default'] !== undefined) return [[key, member['default']]];
      return member['type'] === 'boolean' && required.includes(key) ? [[key, false]] : [];
    }),
  );
}

function fieldOf(key: string, schema: Schema, required: boolean, depth: number): SchemaField {
  const { title, description } = schema;
  const basics = {
    ...{ key, label: typeof title === 'string' && title !== '' ? title : key, required },
    ...(typeof description === 'string' && description !== '' ? { help: description } : {}),
  };
  if (combines(schema)) return { ...basics, kind: 'json' };
  const options = optionsOf(schema['enum']);
  switch (schema['type']) {
    case 'string':
      if (options !== undefined) return { ...basics, kind: 'choice', options };
      return { ...basics, kind: schema['enum'] === undefined ? 'text' : 'json' };
    case 'number':
    case 'integer':
      return { ...basics, kind: schema['enum'] === undefined ? 'number' : 'json' };
    case 'boolean':
      return { ...basics, kind: 'boolean' };
    case 'array': {
      const items = isSchema(schema['items']) ? schema['items'] : {};
      const choices = optionsOf(items['enum']);
      if (choices !== undefined) return { ...basics, kind: 'choices', options: choices };
      return { ...basics, kind: items['type'] === 'string' && !combines(items) ? 'list' : 'json' };
    }
    case 'object': {
      const fields = depth < MAX_DEPTH ? fieldsOfSchema(schema, depth + 1) : undefined;
      return fields === undefined ? { ...basics, kind: 'json' } : { ...basics, kind: 'object', fields };
    }
    default:
      return { ...basics, kind: 'json' };
  }
}

/** Of texts only: a form has no other values to choose from. */
function optionsOf(values: unknown) {
  if (!Array.isArray(values) || values.length === 0 || !values.every((one) => typeof one === 'string'))
    return undefined;
  return values.map((value: string) => ({ value, title: value }));
}

function combines(schema: Schema): boolean {
  return ['$ref', 'anyOf', 'oneOf', 'allOf', 'not', 'if'].some((member) => member in schema);
}

function isSchema(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
