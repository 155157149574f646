/** A filter of requests as a query that people can read, change and run. */
import { type AuditFilter, auditConditions } from './audit-filter.ts';
import { NEWEST_FIRST } from './audit-queries.ts';
import { inlineParameters } from './sql-literal.ts';

const columns = [
  'id, at, outcome, status, duration_ms, method, path, requested_model, provider, model, user_path, auth_key_id',
  'session_id, labels, request_id, error_code, error_message, input_tokens, output_tokens, cache_type',
  'guardrail_verdict, requests',
];
const MOST_ROWS = 1000;

/** Tables without their database: readers have it as their default. */
export function auditSql(filter: AuditFilter): string {
  const { conditions } = auditConditions(filter);
  const where = conditions.map((condition) => inlineParameters(condition).replaceAll('$db.', ''));
  return [
    `SELECT ${columns.join(',\n  ')}`,
    'FROM exchanges',
    `WHERE ${where.map((condition) => `(${condition})`).join('\n  AND ')}`,
    NEWEST_FIRST,
    `LIMIT ${MOST_ROWS}`,
  ].join('\n');
}
