/** Rows of a Markdown table for the members of a JSON schema. */
import type { z } from 'zod';

export type JsonSchema = z.core.JSONSchema.BaseSchema;

/** One row for each member; the members of nested objects follow with a dotted name. */
export function rowsOf(schema: JsonSchema, prefix: string): string[] {
  const required = schema.required ?? [];
  return Object.entries(schema.properties ?? {}).flatMap(([name, member]) => {
    if (typeof member === 'boolean') return [];
    const optional = required.includes(name) ? '' : ', optional';
    const row = `| \`${prefix}${name}\` | ${typeText(member)}${optional} | ${cell(member.description ?? '')} |`;
    return [row, ...rowsOf(member, `${prefix}${name}.`), ...rowsOf(itemsOf(member), `${prefix}${name}[].`)];
  });
}

function itemsOf(schema: JsonSchema): JsonSchema {
  return typeof schema.items === 'object' && !Array.isArray(schema.items) ? schema.items : {};
}

export function typeText(schema: JsonSchema): string {
  if (schema.const !== undefined) return code(schema.const);
  if (schema.enum !== undefined) return schema.enum.map(code).join(', ');
  const alternatives = schema.anyOf ?? schema.oneOf;
  if (alternatives !== undefined) return alternatives.map((one) => typeText(one)).join(' or ');
  if (schema.type === 'array') return `list of ${typeText(itemsOf(schema))}`;
  return [schema.type ?? 'any'].flat().join(' or ');
}

function code(value: unknown): string {
  return `\`${String(value)}\``;
}

export function cell(text: string): string {
  return text.replaceAll('|', '\\|').replace(/\s*\n\s*/g, ' ');
}
