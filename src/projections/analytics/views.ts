/** Views over the tables, for frequent queries. */
import { costColumns, savedColumns, tokenColumns } from './tables.ts';

export interface View {
  readonly name: string;
  readonly about: string;
  /** `$db` stands for the database. */
  readonly select: string;
}

const summed = [...tokenColumns.slice(0, 7), ...costColumns, ...savedColumns].map(
  (column) => `sum(u.${column.name}) AS ${column.name}`,
);

export const views: readonly View[] = [
  {
    name: 'usage_by_quarter_hour',
    about:
      'Usage summed by quarter of an hour (time zone offsets are multiples of it), user path, key, provider, model, ' +
      'endpoint and cache. Answered from the aggregate that is kept inside the parts of `usage`.',
    select: `SELECT toStartOfFifteenMinutes(u.at) AS quarter_hour, u.user_path AS user_path, u.auth_key_id AS auth_key_id,
      u.provider AS provider, u.provider_type AS provider_type, u.model AS model, u.endpoint AS endpoint,
      u.cache_type AS cache_type, sum(u.requests) AS requests, ${summed.join(', ')}
      FROM $db.usage AS u
      GROUP BY quarter_hour, user_path, auth_key_id, provider, provider_type, model, endpoint, cache_type`,
  },
  {
    name: 'attempts',
    about: 'One row for each call to a provider.',
    select: `SELECT e.id AS exchange_id, e.at AS at, e.request_id AS request_id, e.user_path AS user_path,
      e.auth_key_id AS auth_key_id, e.requested_model AS requested_model, e.outcome AS outcome,
      \`attempts.number\` AS number, \`attempts.kind\` AS kind, \`attempts.provider\` AS provider,
      \`attempts.provider_type\` AS provider_type, \`attempts.model\` AS model, \`attempts.dialect\` AS dialect,
      \`attempts.started_ms\` AS started_ms, \`attempts.failed\` AS failed, \`attempts.status\` AS status,
      \`attempts.code\` AS code, \`attempts.message\` AS message
      FROM $db.exchanges AS e
      ARRAY JOIN \`attempts.number\`, \`attempts.kind\`, \`attempts.provider\`, \`attempts.provider_type\`,
      \`attempts.model\`, \`attempts.dialect\`, \`attempts.started_ms\`, \`attempts.failed\`, \`attempts.status\`,
      \`attempts.code\`, \`attempts.message\``,
  },
];
