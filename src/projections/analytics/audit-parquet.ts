/** The requests that a filter finds as one Parquet file, which ClickHouse writes. */
import type { AnalyticsFiles } from './analytics-db.ts';
import { type AuditFilter, auditConditions } from './audit-filter.ts';

/** Most rows of one file. A file is held in memory before it is sent; clients fetch larger exports in parts. */
export const MOST_PARQUET_ROWS = 200_000;

/** The columns of the CSV export with the same names, and types: times, numbers, a list of labels; unknown is NULL. */
const columns = [
  'e.id AS id',
  'e.at AS timestamp',
  'e.duration_ms AS duration_ms',
  'toString(e.method) AS method',
  'e.path AS path',
  'e.status AS status_code',
  'toString(e.outcome) AS outcome',
  'e.requests AS requests',
  'toString(e.requested_model) AS requested_model',
  'toString(e.provider_type) AS provider',
  'toString(e.provider) AS provider_name',
  'toString(e.model) AS model',
  "if(e.user_path = '', '/', toString(e.user_path)) AS user_path",
  'toString(e.auth_key_id) AS auth_key_id',
  'toString(e.auth_method) AS auth_method',
  'toString(e.client_ip) AS client_ip',
  'toString(e.user_agent) AS user_agent',
  'e.request_id AS request_id',
  'toString(e.session_id) AS session_id',
  'e.labels AS labels',
  'e.stream AS stream',
  'length(e.attempts.number) AS attempts',
  'toString(e.error_type) AS error_type',
  'toString(e.error_code) AS error_code',
  'e.error_message AS error_message',
  'u.input AS input_tokens',
  'u.output AS output_tokens',
  'u.total AS total_tokens',
  'toDecimal128(u.cost, 9) / 1000000000 AS total_cost_usd',
  'e.workflow_id AS workflow_id',
  "if(e.workflow_id = '', NULL, e.workflow_version) AS workflow_version",
  'toString(e.workflow_scope) AS workflow_scope',
  'toString(e.guardrail_verdict) AS guardrail_verdict',
  'toString(e.guardrail) AS guardrail',
  'toString(e.guardrail_code) AS guardrail_code',
  'e.guardrails_edited AS guardrails_edited',
];

/**
 * Newest first. @param signal stops the query
 * @throws AnalyticsUnavailable, QueryFailed, before the first byte
 */
export function auditParquet(
  files: AnalyticsFiles,
  filter: AuditFilter,
  signal: AbortSignal,
): Promise<AsyncIterable<Buffer>> {
  const { sql, parameters } = auditConditions(filter);
  const query = `SELECT ${columns.join(', ')}
    FROM (SELECT * FROM $db.exchanges WHERE ${sql}) AS e
    LEFT JOIN (
      SELECT exchange_id, toNullable(sum(input_tokens)) AS input, toNullable(sum(output_tokens)) AS output,
        toNullable(sum(total_tokens)) AS total, if(sum(priced) > 0, sum(total_cost), NULL) AS cost
      FROM $db.usage
      WHERE at >= {from: DateTime64(6, 'UTC')} AND exchange_id IN (SELECT id FROM $db.exchanges WHERE ${sql})
      GROUP BY exchange_id
    ) AS u ON u.exchange_id = e.id
    ORDER BY e.at DESC, e.position DESC`;
  return files.file(query, parameters, 'Parquet', signal);
}
