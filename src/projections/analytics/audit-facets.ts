/** The most frequent values of the fields of requests. */
import type { UserPath } from '../../events/event.ts';
import type { Ask } from './analytics-db.ts';
import { type AuditFilter, auditConditions } from './audit-filter.ts';

interface Facet {
  /** SQL of the value as text; empty values are not counted. */
  readonly value: string;
  /** The query parameters that restrict this field. The first one is that of its values. */
  readonly filteredBy: readonly [keyof AuditFilter | 'user_path', ...(keyof AuditFilter)[]];
}

/** In the order of a sidebar. */
export const facets = {
  outcome: { value: 'outcome', filteredBy: ['outcome'] },
  status_code: { value: 'toString(status)', filteredBy: ['status_code', 'status_class'] },
  error_code: { value: 'error_code', filteredBy: ['error_code'] },
  /** Counted within the scope of the caller instead of the subtree of the filter. */
  user_path: { value: 'user_path', filteredBy: ['user_path'] },
  auth_key_id: { value: 'auth_key_id', filteredBy: ['auth_key_id'] },
  label: { value: 'arrayJoin(labels)', filteredBy: ['label'] },
  requested_model: { value: 'requested_model', filteredBy: ['requested_model_is', 'requested_model'] },
  provider_name: { value: 'provider', filteredBy: ['provider_name'] },
  model: { value: 'model', filteredBy: ['provider_model'] },
  endpoint: { value: 'endpoint', filteredBy: ['endpoint'] },
  method: { value: 'method', filteredBy: ['method'] },
  stream: { value: "if(stream = 1, 'true', 'false')", filteredBy: ['stream'] },
  cache_type: { value: "if(cache_type = '', 'none', toString(cache_type))", filteredBy: ['cache_type'] },
  guardrail_verdict: {
    value: "if(guardrail_verdict = '', 'none', toString(guardrail_verdict))",
    filteredBy: ['guardrail_verdict'],
  },
  session_id: { value: 'session_id', filteredBy: ['session_id'] },
} as const satisfies Readonly<Record<string, Facet>>;

export type FacetField = keyof typeof facets;
export const facetFields = Object.keys(facets) as readonly FacetField[];

export interface FacetCount {
  readonly value: string;
  readonly requests: number;
}

export interface FacetsOf {
  readonly filter: AuditFilter;
  /** The paths that the caller may see. */
  readonly scope: UserPath | undefined;
  readonly fields: readonly FacetField[];
  /** Most values of a field. */
  readonly most: number;
}

/**
 * The most frequent values of each field among the requests of the filter, without the conditions on that field itself:
 * what other choices would find. Refused requests that were counted together count each.
 */
export async function auditFacets(
  ask: Ask,
  { filter, scope, fields, most }: FacetsOf,
): Promise<ReadonlyMap<FacetField, readonly FacetCount[]>> {
  const isOfPath = (field: FacetField) => field === 'user_path';
  const [ofPath, others] = await Promise.all([
    countsOf(ask, { filter: { ...filter, subtree: scope }, fields: fields.filter(isOfPath), most }),
    countsOf(ask, { filter, fields: fields.filter((field) => !isOfPath(field)), most }),
  ]);
  return new Map(fields.map((field) => [field, ofPath.get(field) ?? others.get(field) ?? []]));
}

async function countsOf(
  ask: Ask,
  { filter, fields, most }: Omit<FacetsOf, 'scope'>,
): Promise<ReadonlyMap<FacetField, readonly FacetCount[]>> {
  if (fields.length === 0) return new Map();
  const parts = fields.map((field) => {
    const { value, filteredBy }: Facet = facets[field];
    const ignored = Object.fromEntries(filteredBy.map((member) => [member, undefined]));
    const { sql, parameters } = auditConditions({ ...filter, ...ignored });
    return {
      sql: `SELECT * FROM (SELECT '${field}' AS field, toString(${value}) AS value, sum(e.requests) AS requests
      FROM $db.exchanges AS e WHERE ${sql} GROUP BY value HAVING value != ''
      ORDER BY requests DESC, value LIMIT {most: UInt64})`,
      parameters,
    };
  });
  const rows = await ask<{ field: FacetField; value: string; requests: string }>(
    parts.map(({ sql }) => sql).join(' UNION ALL '),
    Object.assign({ most }, ...parts.map(({ parameters }) => parameters)),
  );
  const counts = Map.groupBy(rows, ({ field }) => field);
  return new Map(
    [...counts].map(([field, found]) => [
      field,
      found
        .map(({ value, requests }) => ({ value, requests: Number(requests) }))
        .sort((one, other) => other.requests - one.requests || (one.value < other.value ? -1 : 1)),
    ]),
  );
}
