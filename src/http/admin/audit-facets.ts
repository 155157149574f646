/** `GET /admin/audit/facets`: the most frequent values of each field, for choosing a filter. */
import { z } from 'zod';
import type { UserPath } from '../../events/event.ts';
import {
  auditFacets,
  type FacetCount,
  type FacetField,
  facetFields,
} from '../../projections/analytics/audit-facets.ts';
import { scopedAdmin } from '../api/declare.ts';
import { parameterWithDefault, queryOfParameters, wordsParameter } from '../api/parameters.ts';
import { jsonAnswer, type Routes } from '../api/route-schema.ts';
import { isWithin } from './admin-scope.ts';
import { auditById } from './audit-by-id.ts';
import type { AuditReports } from './audit-log.ts';
import { type AuditQuery, auditParameters, requestedAudit } from './audit-request.ts';
import { untilGone } from './report-db.ts';
import { reportContext, reportHeaders } from './report-request.ts';

export interface AuditFacets extends AuditReports {
  readonly keys: {
    byId(id: string): { readonly name: string; readonly userPath: UserPath | undefined } | undefined;
  };
}

/** Most values of a field. */
const MOST_VALUES = 20;

/** The parameter that filters by a value of the field. */
const parameterOf: Readonly<Record<FacetField, keyof AuditQuery>> = {
  outcome: 'outcome',
  status_code: 'status_code',
  error_code: 'error_code',
  user_path: 'user_path',
  auth_key_id: 'auth_key_id',
  label: 'label',
  requested_model: 'requested_model_is',
  provider_name: 'provider_name',
  model: 'provider_model',
  endpoint: 'endpoint',
  method: 'method',
  stream: 'stream',
  cache_type: 'cache_type',
  guardrail_verdict: 'guardrail_verdict',
  session_id: 'session_id',
};

const facet = z.object({
  field: z.enum(facetFields),
  parameter: z.string().describe('The query parameter that filters by one of the values'),
  values: z.array(
    z.object({
      value: z.string(),
      requests: z.int().describe('Refused requests that were counted together count each'),
      name: z.string().optional().describe('Of a key'),
    }),
  ),
});

const getFacets = scopedAdmin('adminAuditFacets', 'Count the most frequent values of each field', {
  description:
    `At most ${MOST_VALUES} values for each field, the most frequent first. A field is counted without its own filter: ` +
    'the counts say what another choice would find. Requests without the value are not counted, except as `none` of ' +
    '`cache_type` and `guardrail_verdict`. `user_path` counts exact paths.',
  querystring: queryOfParameters({
    ...auditParameters,
    fields: parameterWithDefault(wordsParameter(facetFields, 'The fields'), facetFields),
  }),
  requestHeaders: reportHeaders,
  response: { 200: jsonAnswer('The counts', z.object({ facets: z.array(facet) })) },
});

export function registerAuditFacets(admin: Routes, reports: AuditFacets): void {
  const { db, keys, isKept, now } = reports;
  admin.get('/audit/facets', getFacets, async (request, reply) => {
    const context = reportContext(request, now());
    const { scope } = context;
    const { fields, ...query } = request.query;
    const requested = requestedAudit(query, context);
    const gone = untilGone(reply);
    const counts = isKept ? await countsOf() : new Map<FacetField, readonly FacetCount[]>();
    return {
      facets: fields.map((field) => ({
        field,
        parameter: parameterOf[field],
        values: (counts.get(field) ?? []).map(({ value, requests }) => ({
          value,
          requests,
          name: field === 'auth_key_id' ? nameOf(value) : undefined,
        })),
      })),
    };

    async function countsOf() {
      const { filter } = await auditById(query, requested, reports, gone);
      return auditFacets(db, { filter, scope, fields, most: MOST_VALUES }, gone);
    }

    /** Undefined for a key outside the caller's scope. */
    function nameOf(keyId: string): string | undefined {
      const key = keys.byId(keyId);
      return key !== undefined && isWithin(scope, key.userPath) ? key.name : undefined;
    }
  });
}
