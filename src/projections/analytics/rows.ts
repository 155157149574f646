/** Rows of the tables, and those of `events` and `admin_changes` from events. Pure. */
import { type Actor, categoryOf, idOf, managedKeyId, type RecordedEvent, type UserPath } from '../../events/event.ts';
import { isBodyWithheld } from '../exchange-events.ts';
import { type Column, type Table, tables } from './tables.ts';
import { numbers, numbersByName, orNull, type TsvRows, texts, time, tsvText } from './tsv.ts';

/** How long rows are kept, in days; 0 is without limit. Each row carries the setting at the time of its write. */
export interface Retention {
  readonly audit: number;
  readonly usage: number;
}

/** Bytes of a body in its row; the rest is only in the log. */
export const keptBodyBytes = 1024 * 1024;

/** The managed key behind an actor; empty when it is none. */
export function keyIdOrEmpty(actor: Actor): string {
  return managedKeyId(actor) ?? '';
}

type Field = string | number | bigint | readonly string[] | readonly number[] | Readonly<Record<string, number>>;

/**
 * Writes rows of a table from values by column. A column without a value is NULL where it can be, else 0 or empty.
 * @returns a function whose `id` is the row's `rowId` in its table
 */
export function rowWriter(table: Table) {
  const columns = table.columns.filter(({ madeOf }) => madeOf === undefined);
  const fields = columns.map((column) => [column.name, emptyOf(column)] as const);
  return (rows: TsvRows, values: Readonly<Record<string, Field | null | undefined>>, id: number): void => {
    const row = fields.map(([name, empty]) => {
      const value = values[name];
      return value === undefined || value === null ? empty : fieldOf(value);
    });
    rows.write(row.join('\t'));
    rows.end(id);
  };
}

function fieldOf(value: Field): string {
  if (typeof value === 'string') return tsvText(value);
  if (typeof value !== 'object') return String(value);
  if (!Array.isArray(value)) return numbersByName(value as Readonly<Record<string, number>>);
  return typeof value[0] === 'number' ? numbers(value) : texts(value);
}

function emptyOf({ type }: Column): string {
  if (type.startsWith('Array')) return '[]';
  if (type.includes('Nullable')) return '\\N';
  return type.includes('String') ? '' : '0';
}

function pathOrNull(path: UserPath | undefined): string {
  return path === undefined ? orNull(undefined) : tsvText(path);
}

export function writeEvent(rows: TsvRows, event: RecordedEvent, position: number, retention: Retention): void {
  const { context, stream } = event;
  const body = visibleBody(event);
  rows.write(
    `${position}\t${event.id}\t${tsvText(event.type)}\t${event.schema}\t${tsvText(categoryOf(stream))}\t${tsvText(stream)}\t` +
      `${event.revision}\t${time(event.at)}\t${tsvText(context.actor)}\t${tsvText(keyIdOrEmpty(context.actor))}\t` +
      `${pathOrNull(context.userPath)}\t${tsvText(context.requestId)}\t${tsvText(context.correlationId)}\t` +
      `${tsvText(context.causationId)}\t${tsvText(context.traceparent)}\t${tsvText(dataJson(event))}\t`,
  );
  rows.writeBytes(body.length > keptBodyBytes ? body.subarray(0, keptBodyBytes) : body);
  rows.write(`\t${event.body?.length ?? 0}\t${retention.audit}`);
  rows.end(position);
}

/** Families of events that record changes by administrators. */
const changes = [
  'key.',
  'user.',
  'virtual_model.',
  'price.',
  'budget.',
  'budget_settings.',
  'rate_limit.',
  'provider_credential.',
  'tagging.',
  'guardrail_definition.',
  'workflow.',
  'settings.',
  'view.',
];

export function isAdminChange(type: string): boolean {
  return changes.some((family) => type.startsWith(family));
}

const writeChange = rowWriter(tables.adminChanges);

/** Kept without limit. */
export function writeAdminChange(rows: TsvRows, event: RecordedEvent, position: number): void {
  const { context, stream, id, type, revision } = event;
  const values = {
    ...{ position, id, type, revision },
    at: time(event.at),
    category: categoryOf(stream),
    subject: idOf(stream),
    actor: context.actor,
    auth_key_id: keyIdOrEmpty(context.actor),
    user_path: context.userPath,
    request_id: context.requestId,
    data: dataJson(event),
  };
  writeChange(rows, values, position);
}

/**
 * Masks secrets for analysts: hashes of keys, ciphertexts of secrets and the values assigned to placeholders stay in the
 * log.
 */
const secrets = /^(secretHash|apiKeys|sealed\w*)$/;
/** Encrypted texts of `provider_credential.saved`, in any member. */
const sealed = /^v1\.[^.]+\.[\w-]{20,}$/;
const maskedFamilies = ['key.', 'provider_credential.'];

/** The data of the event, as JSON, with such members as `[MASKED]`. */
function dataJson({ type, data }: RecordedEvent): string {
  const hide = maskedFamilies.some((family) => type.startsWith(family));
  return (hide ? JSON.stringify(data, mask) : JSON.stringify(data)) ?? 'null';
}

const noBytes = new Uint8Array();

/** The body of the event, for analysts; empty when it has none. */
function visibleBody(event: RecordedEvent): Uint8Array {
  return isBodyWithheld(event) ? noBytes : (event.body ?? noBytes);
}

function mask(name: string, value: unknown): unknown {
  const isSecret = secrets.test(name) || (typeof value === 'string' && sealed.test(value));
  return isSecret && value !== undefined ? '[MASKED]' : value;
}
