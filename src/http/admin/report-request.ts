/** Days and subtree of a report on usage or requests. */
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { UserPath } from '../../events/event.ts';
import { type QueryParameter, textParameter, type Values } from '../api/parameters.ts';
import { type ReportRange, reportRange, timeZoneOf } from '../dates.ts';
import { userPathFilter, wholeNumber } from '../request-head.ts';
import { pathInScope, scopeOf } from './admin-scope.ts';

export const reportParameters = {
  days: {
    description: 'The last days, up to and including today. Ignored with a date',
    schema: { type: 'integer', minimum: 1, default: 30 },
    read: (query, name) => wholeNumber(query, name, { least: 1, most: 999_999_999 }),
  } satisfies QueryParameter<number | undefined>,
  start_date: textParameter('First day, `YYYY-MM-DD`. Default: 29 days before the end', { format: 'date' }),
  end_date: textParameter('Last day, `YYYY-MM-DD`. Default: today', { format: 'date' }),
  user_path: {
    description: "This user path and all paths below it. Default: the caller's scope",
    schema: { type: 'string' },
    read: userPathFilter,
  } satisfies QueryParameter<UserPath | undefined>,
};

export const reportHeaders = {
  'X-Gateway-Timezone': z
    .string()
    .describe('IANA time zone in which days begin. Default, also for an unknown zone: UTC'),
};

export type ReportQuery = Values<typeof reportParameters>;

/** The parts of a report's request beside its query. */
export interface ReportContext {
  /** The caller's scope. */
  readonly scope: UserPath | undefined;
  readonly timeZone: string;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

export interface RequestedReport extends ReportRange {
  /** Undefined is everything, also requests without a user path. */
  readonly subtree: UserPath | undefined;
}

export function reportContext(request: FastifyRequest, now: number): ReportContext {
  return { scope: scopeOf(request), timeZone: timeZoneOf(request), now };
}

/** @throws Refusal 400 with `param`, 403 `user_path_out_of_scope` */
export function requestedReport(query: ReportQuery, { scope, timeZone, now }: ReportContext): RequestedReport {
  const range = reportRange(query, timeZone, now);
  const path = pathInScope(scope, query.user_path);
  return { ...range, subtree: path === '/' ? undefined : path };
}
