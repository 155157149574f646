/** The row of `exchanges` for refused requests that the log counts in one event. */
import type { z } from 'zod';
import type { requestsRefused } from '../../events/catalogue/exchange.ts';
import type { RecordedEvent } from '../../events/event.ts';
import { keyIdOrEmpty, type Retention } from './rows.ts';
import { type Column, tables, valueColumns } from './tables.ts';
import { type TsvRows, time, tsvText } from './tsv.ts';

type Refused = RecordedEvent<string, z.infer<typeof requestsRefused.data>>;

const columns = valueColumns(tables.exchanges);
const empty = new Map(tables.exchanges.columns.map((column) => [column.name, emptyOf(column)]));

export function writeRefused(rows: TsvRows, event: Refused, position: number, retention: Retention): void {
  const values = valuesOf(event, position, retention);
  rows.write(columns.map((name) => values[name] ?? empty.get(name) ?? '').join('\t'));
  rows.end(position);
}

/** The known columns; the others are empty. */
function valuesOf({ id, context, data }: Refused, position: number, retention: Retention) {
  const { endpoint, count } = data;
  const values: Readonly<Record<string, string | number>> = {
    position,
    id,
    at: time(data.firstAt),
    ended_at: time(data.lastAt),
    actor: tsvText(context.actor),
    auth_key_id: tsvText(keyIdOrEmpty(context.actor)),
    auth_method: data.authMethod,
    user_path: tsvText(context.userPath ?? '/'),
    path: tsvText(endpoint),
    endpoint: tsvText(endpoint),
    outcome: 'refused',
    status: data.status,
    error_type: tsvText(data.type),
    error_code: tsvText(data.code ?? ''),
    duration_ms: data.durationMs / count,
    requests: count,
    _retention_days: retention.audit,
  };
  return values;
}

function emptyOf({ type }: Column): string {
  if (type.startsWith('Array')) return '[]';
  if (type.startsWith('Nullable')) return '\\N';
  return type.includes('String') ? '' : '0';
}
