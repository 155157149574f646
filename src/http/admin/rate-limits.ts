/** `/admin/rate-limits`: limits on requests and tokens by user path, provider and model. */

import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { authorityAt, highest } from '../../commands/access/authority.ts';
import type { KeyDirectory } from '../../commands/access/key-directory.ts';
import { canonicalSelector, parseSelector } from '../../commands/access/selector.ts';
import { executeCommand } from '../../commands/handle-command.ts';
import { rateLimitPeriod } from '../../commands/period.ts';
import {
  type RateLimitCommand,
  type RateLimitSubject,
  type RateLimits,
  rateLimitDecider,
  rateLimitStream,
  resetAllRateLimits,
} from '../../commands/rate-limits/rate-limit.ts';
import { Refusal, refusals } from '../../commands/refusal.ts';
import type { EventLog } from '../../events/log.ts';
import { type RateLimitsState, rateLimitsView } from '../../projections/rate-limits.ts';
import type { RunningProjection } from '../../projections/runner.ts';
import type { Routes } from '../api/route-schema.ts';
import { callerOf, eventContextOf } from '../server.ts';
import { timeText } from '../time-text.ts';
import type { AsOf } from './as-of.ts';
import { ifMatch, sendETag } from './conditional.ts';
import { periodIn, periodMembers, subjectIn, subjectMembers } from './limit-subject.ts';
import { scopeOf } from './mount.ts';
import { requestedAsOf } from './page.ts';
import { oneRateLimit, type ReadGauge, rateLimitRows } from './rate-limit-rows.ts';
import { readBody } from './read-body.ts';
import { confirmed, resetRequest } from './reset-request.ts';

export interface RateLimitsOptions {
  readonly log: EventLog;
  /** Undefined while rate limits are off. */
  readonly rateLimits: RateLimitBooks | undefined;
  readonly asOf: AsOf;
  readonly keys: Pick<KeyDirectory, 'byId'>;
  isProvider(name: string): boolean;
  /** Milliseconds since the epoch. */
  now(): number;
}

/** The rate limits and their counts. */
export interface RateLimitBooks extends Pick<RunningProjection<RateLimitsState>, 'state' | 'whenProcessed'> {
  readonly gauge: ReadGauge;
}

const most = z
  .number()
  .refine((value) => Number.isSafeInteger(value) && value > 0, { error: 'it must be a whole number greater than 0' })
  .nullish();
const ruleName = z.strictObject({ ...subjectMembers, limit_key: z.strictObject(periodMembers).optional() });
const newRule = ruleName.extend({ max_requests: most, max_tokens: most });
const oneReset = z.strictObject({ ...subjectMembers, ...periodMembers });

const scoped = { config: { access: 'scoped-admin' } } as const;
const shown = { config: { access: 'scoped-admin', etag: true } } as const;
const changes = { config: { access: 'scoped-admin', ifMatch: '/rate-limits/:scope/:subject/:period' } } as const;
const global = { config: { access: 'global-admin' } } as const;
const scopes = ['user_path', 'provider', 'model'] as const;

interface Named {
  readonly scope: string;
  readonly subject: string;
  readonly period: string;
}

export function registerRateLimits(admin: Routes, options: RateLimitsOptions): void {
  const { log, asOf, keys, now, isProvider } = options;

  /** @throws Refusal 503 while rate limits are off */
  const books = (): RateLimitBooks => {
    if (options.rateLimits !== undefined) return options.rateLimits;
    throw refusals.featureUnavailable('Rate limits are off here: they take RATE_LIMITS_ENABLED.');
  };

  const list = (request: FastifyRequest) => {
    const { state, gauge } = books();
    const at = now();
    return { rate_limits: rateLimitRows(state, { gauge, at, scope: scopeOf(request) }), server_time: timeText(at) };
  };

  async function execute(
    of: RateLimitSubject,
    command: RateLimitCommand,
    request: FastifyRequest,
  ): Promise<bigint | 'noStream'> {
    const ifRevision = ifMatch(request);
    const stream = rateLimitStream(of);
    const { position, revision } = await executeCommand(rateLimitDecider, command, { log, stream, ifRevision });
    if (position !== undefined) await books().whenProcessed(position);
    return revision;
  }

  const byOf = (request: FastifyRequest, { scope, subject }: RateLimitSubject) => ({
    context: eventContextOf(request),
    authority: scope === 'user_path' ? authorityAt(subject, callerOf(request), keys) : highest,
  });

  admin.get('/rate-limits', scoped, async (request) => {
    const moment = await asOf.moment(requestedAsOf(request));
    if (moment === undefined) return list(request);
    books();
    const state = await asOf.fold(rateLimitsView, moment);
    const rows = rateLimitRows(state, { gauge: () => undefined, at: moment.at, scope: scopeOf(request) });
    return { rate_limits: rows, server_time: timeText(now()) };
  });

  admin.get<{ Params: Named }>('/rate-limits/:scope/:subject/:period', shown, async (request, reply) => {
    const { scope, subject, period } = request.params;
    const of = {
      ...subjectIn(request, { scope, subject }, scopes),
      periodSeconds: periodIn({ period }, rateLimitPeriod),
    };
    const moment = await asOf.moment(requestedAsOf(request));
    const { state, gauge } = books();
    const row =
      moment === undefined
        ? oneRateLimit(of, state, gauge, now())
        : oneRateLimit(of, await asOf.fold(rateLimitsView, moment), () => undefined, moment.at);
    if (row === undefined) throw refusals.notFound('rate limit', `${scope} ${subject} ${period}`);
    sendETag(reply, row.revision ?? 'noStream');
    return row;
  });

  admin.put('/rate-limits', changes, async (request, reply) => {
    const input = readBody(request, newRule);
    const of = subjectIn(request, input, scopes);
    checkSubject(of, isProvider);
    const periodSeconds = periodIn(input.limit_key, rateLimitPeriod, 'limit_key.');
    const limits = limitsIn(input, periodSeconds);
    books();
    const command = { do: 'set', of, periodSeconds, ...limits, ...byOf(request, of) } as const;
    sendETag(reply, await execute(of, command, request));
    return list(request);
  });

  admin.delete('/rate-limits', changes, async (request) => {
    const input = readBody(request, ruleName);
    const of = subjectIn(request, input, scopes);
    const periodSeconds = periodIn(input.limit_key, rateLimitPeriod, 'limit_key.');
    books();
    await execute(of, { do: 'remove', of, periodSeconds, ...byOf(request, of) }, request);
    return list(request);
  });

  admin.post('/rate-limits/reset-one', changes, async (request) => {
    const input = readBody(request, oneReset);
    const of = subjectIn(request, input, scopes);
    const periodSeconds = periodIn(input, rateLimitPeriod);
    books();
    await execute(of, { do: 'reset', of, periodSeconds, ...byOf(request, of) }, request);
    return list(request);
  });

  admin.post('/rate-limits/reset', global, async (request) => {
    confirmed(readBody(request, resetRequest));
    const { state, whenProcessed } = books();
    const position = await resetAllRateLimits(state.rules.values(), eventContextOf(request), log);
    if (position !== undefined) await whenProcessed(position);
    return { status: 'ok' };
  });
}

/** @throws Refusal 400 for an unknown provider, and for a selector that is not one model */
function checkSubject({ scope, subject }: RateLimitSubject, isProvider: (name: string) => boolean): void {
  if (scope === 'provider' && !isProvider(subject)) {
    throw refusals.invalidRequest(`There is no provider named '${subject}'.`, 'subject', 'unknown_provider');
  }
  if (scope !== 'model') return;
  const selector = canonicalSelector(subject, isProvider, 'subject');
  if (selector instanceof Refusal) throw selector;
  const { kind } = parseSelector(selector);
  if (kind === 'model' || kind === 'exact') return;
  throw refusals.invalidRequest(
    `'subject' is '${subject}'; it must be one model: '<provider>/<model>', or '<model>' of any provider.`,
    'subject',
    'invalid_selector',
  );
}

/** @throws Refusal 400 */
function limitsIn(
  { max_requests, max_tokens }: { max_requests?: number | null | undefined; max_tokens?: number | null | undefined },
  periodSeconds: number,
): RateLimits {
  const maxRequests = max_requests ?? null;
  const maxTokens = max_tokens ?? null;
  if (periodSeconds === 0 && maxTokens !== null) {
    throw refusals.invalidRequest("'max_tokens' does not go with 'concurrent', which limits requests.", 'max_tokens');
  }
  if (maxRequests === null && maxTokens === null) {
    throw refusals.invalidRequest(
      "'max_requests' or 'max_tokens' is missing: a rate limit limits something.",
      'max_requests',
    );
  }
  return { maxRequests, maxTokens };
}
