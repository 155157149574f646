/** docs/events.md, generated from the catalogue: the reference for analysts and auditors who read the log. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { families } from '../src/events/catalogue/catalogue.ts';
import type { EventDefinition } from '../src/events/catalogue/define.ts';

export const eventsDocumentPath = 'docs/events.md';

const head = `<!-- Generated from src/events/catalogue by "npm run docs:events"; changes made here are lost. -->
# Events

Every event carries the same envelope: \`id\` (UUIDv7), \`type\`, \`schema\` (the version below), \`stream\`, \`revision\` (its place in the stream), \`position\` (its place in the whole log: 1, 2, 3, … without gaps), \`at\`, and a context: \`actor\` (\`master\`, \`key:<id>\` or \`system\`), \`userPath\`, \`requestId\`, \`correlationId\`, \`causationId\`, \`traceparent\`. \`data\`, described here for each type, and \`body\` depend on the type. \`body\` contains raw bytes, unchanged. In JSON, \`revision\` and \`position\` are strings of decimal digits: read them as unsigned 64-bit integers.

Events of an older version are converted to the newest one when they are read; stored events are never rewritten.
`;

/** @param root the project's folder; a family's introduction is the first comment of its file */
export function eventsDocument(root: string): string {
  const sections = Object.entries(families).map(([name, family]) => {
    const source = readFileSync(join(root, 'src', 'events', 'catalogue', `${name}.ts`), 'utf8');
    // A module lists its exports by name; the file declares them in the order in which they occur.
    const place = (event: EventDefinition) => source.indexOf(`'${event.type}'`);
    const events = Object.values(family)
      .filter(isDefinition)
      .sort((a, b) => place(a) - place(b))
      .map(eventSection);
    return [`## ${name}\n`, `${introduction(source)}\n`, ...events].join('\n');
  });
  return `${[head, ...sections].join('\n').trimEnd()}\n`;
}

function isDefinition(member: unknown): member is EventDefinition {
  return typeof member === 'object' && member !== null && 'upcasts' in member;
}

/** The text of the file's first doc comment. */
function introduction(source: string): string {
  const comment = /^\/\*\*([\s\S]*?)\*\//.exec(source)?.[1] ?? '';
  return comment
    .replace(/^\s*\*? ?/gm, '')
    .replace(/\s*\n\s*/g, ' ')
    .trim();
}

function eventSection(event: EventDefinition): string {
  const lines = [`### \`${event.type}\` (version ${event.version})\n`, `${event.when}\n`];
  const rows = fieldRows(event.data);
  if (rows.length > 0) lines.push('| Field | Type | Meaning |', '|---|---|---|', ...rows, '');
  else lines.push('No data.\n');
  if (event.body !== undefined) lines.push(`Body: ${event.body}.\n`);
  return lines.join('\n');
}

type JsonSchema = z.core.JSONSchema.BaseSchema;

function fieldRows(data: z.ZodObject): string[] {
  const schema: JsonSchema = z.toJSONSchema(data, { io: 'input', unrepresentable: 'any' });
  return rowsOf(schema, '');
}

/** One row for each member; the members of nested objects follow with a dotted name. */
function rowsOf(schema: JsonSchema, prefix: string): string[] {
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

function typeText(schema: JsonSchema): string {
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

function cell(text: string): string {
  return text.replaceAll('|', '\\|').replace(/\s*\n\s*/g, ' ');
}
