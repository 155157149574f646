/** docs/events.md, generated from the catalogue: the reference for analysts and auditors who read the log. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { families } from '../src/events/catalogue/catalogue.ts';
import type { EventDefinition } from '../src/events/catalogue/define.ts';
import { type JsonSchema, rowsOf } from './schema-rows.ts';

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

function fieldRows(data: z.ZodObject): string[] {
  const schema: JsonSchema = z.toJSONSchema(data, { io: 'input', unrepresentable: 'any' });
  return rowsOf(schema, '');
}
