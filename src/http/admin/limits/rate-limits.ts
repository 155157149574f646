/** `/admin/rate-limits`: limits on requests and tokens by user path, provider and model. */
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { authorityAt, highest } from '../../../commands/access/authority.ts';
import type { KeyDirectory } from '../../../commands/access/key-directory.ts';
import { canonicalSelector, parseSelector } from '../../../commands/access/selector.ts';
import { executeCommand } from '../../../commands/handle-command.ts';
import { rateLimitPeriod, rateLimitPeriodLabel } from '../../../commands/period.ts';
import {
  type RateLimitCommand,
  type RateLimitSubject,
  type RateLimits,
  rateLimitDecider,
  rateLimitStream,
  resetAllRateLimits,
} from '../../../commands/rate-limits/rate-limit.ts';
import { Refusal, refusals } from '../../../commands/refusal.ts';
import type { UserPath } from '../../../events/event.ts';
import type { EventLog } from '../../../events/log.ts';
import {
  type RateLimitRule,
  type RateLimitScope,
  type RateLimitsState,
  rateLimitKey,
  rateLimitRevision,
  rateLimitsView,
} from '../../../projections/limit-memory-store.ts';
import type { RunningProjection } from '../../../projections/runner.ts';
import { jsonAnswer, pathParameters, type Routes, scopedAdmin } from '../../api/route-schema.ts';
import { timeText } from '../../dates.ts';
import { callerOf, eventContextOf } from '../../server.ts';
import { scopeOf } from '../admin-scope.ts';
import type { AsOf } from '../as-of.ts';
import { ifMatch, sendETag } from '../conditional.ts';
import { asOfQuery, confirmed, oneAsOf, resetRoute } from '../parameters.ts';
import {
  isSubjectWithin,
  periodIn,
  periodMembers,
  periodParameter,
  ruleAnswer,
  ruleMembers,
  subjectIn,
  subjectMembers,
} from './limit-subject.ts';

/** Rate limits as rows of the API, with the counts of their windows. */
const count = z.int().nullable().describe('null in a list of a past time');

const rateLimitAnswer = z.object({
  ...ruleAnswer,
  scope: z.enum(['user_path', 'provider', 'model']),
  max_requests: z.int().optional(),
  max_tokens: z.int().optional(),
  window_start: z.string().optional().describe('Absent for `concurrent`'),
  window_end: z.string().optional(),
  requests_used: count,
  requests_remaining: count.optional(),
  tokens_used: count,
  tokens_remaining: count.optional(),
  in_flight: count,
});

/** Current counts. */
export interface Counted {
  readonly requests: number;
  readonly tokens: number;
  readonly inFlight: number;
}

/** @returns undefined when the counts are unknown: at a past time */
type ReadGauge = (key: string) => Counted | undefined;

/**
 * The rate limits that an administrator of the scope may see: user paths, providers, models; the longest period first.
 * @param state of `at`: now or any other time
 */
function rateLimitRows(
  state: RateLimitsState,
  { gauge, at, scope }: { readonly gauge: ReadGauge; readonly at: number; readonly scope: UserPath | undefined },
) {
  return [...state.rules.values()]
    .filter((rule) => isSubjectWithin(scope, rule))
    .sort(inOrder)
    .map((rule) => rateLimitRow(rule, state, gauge(rateLimitKey(rule.scope, rule.subject, rule.periodSeconds)), at));
}

/** The row of one rate limit; undefined when there is no such limit. */
function oneRateLimit(
  { scope, subject, periodSeconds }: Pick<RateLimitRule, 'scope' | 'subject' | 'periodSeconds'>,
  state: RateLimitsState,
  gauge: ReadGauge,
  at: number,
) {
  const key = rateLimitKey(scope, subject, periodSeconds);
  const rule = state.rules.get(key);
  return rule === undefined ? undefined : rateLimitRow(rule, state, gauge(key), at);
}

function rateLimitRow(rule: RateLimitRule, state: RateLimitsState, counted: Counted | undefined, at: number) {
  const { scope, subject, periodSeconds, maxRequests, maxTokens, source, createdAt, updatedAt } = rule;
  const isConcurrent = periodSeconds === 0;
  const used = isConcurrent ? counted?.inFlight : counted?.requests;
  return {
    ...ruleMembers(rule, rateLimitPeriodLabel),
    ...(maxRequests === null ? {} : { max_requests: maxRequests }),
    ...(maxTokens === null ? {} : { max_tokens: maxTokens }),
    source,
    created_at: timeText(createdAt),
    updated_at: timeText(updatedAt),
    revision: rateLimitRevision(state, scope, subject),
    ...(isConcurrent ? {} : { window_start: timeText(at - periodSeconds * 1000), window_end: timeText(at) }),
    requests_used: used ?? null,
    ...(maxRequests === null ? {} : { requests_remaining: remaining(maxRequests, used) }),
    tokens_used: counted?.tokens ?? null,
    ...(maxTokens === null ? {} : { tokens_remaining: remaining(maxTokens, counted?.tokens) }),
    in_flight: counted?.inFlight ?? null,
  };
}

function remaining(most: number, used: number | undefined): number | null {
  return used === undefined ? null : Math.max(0, most - used);
}

const ORDER: Record<RateLimitScope, number> = { user_path: 0, provider: 1, model: 2 };

function inOrder(a: RateLimitRule, b: RateLimitRule): number {
  if (a.scope !== b.scope) return ORDER[a.scope] - ORDER[b.scope];
  if (a.subject !== b.subject) return a.subject < b.subject ? -1 : 1;
  return b.periodSeconds - a.periodSeconds;
}

interface RateLimitsOptions {
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

const scopes = ['user_path', 'provider', 'model'] as const;
const most = z
  .number()
  .refine((value) => Number.isSafeInteger(value) && value > 0, { error: 'it must be a whole number greater than 0' })
  .meta({ type: 'integer', minimum: 1 })
  .nullish();
const period = periodMembers('`minute`, `hour`, `day`, `concurrent`');
const subject = subjectMembers(scopes);
const ruleName = z.strictObject({
  ...subject,
  limit_key: z.strictObject(period).optional().describe('Required: the period'),
});
const newRule = ruleName.extend({
  max_requests: most.describe('One of the two is required'),
  max_tokens: most.describe('Not for `concurrent`'),
});
const rateLimitList = z.object({ rate_limits: z.array(rateLimitAnswer), server_time: z.string() });

const changes = { ifMatch: '/rate-limits/:scope/:subject/:period' } as const;
const response = { 200: jsonAnswer('The rate limits in the scope of the caller', rateLimitList) };

const listRateLimits = scopedAdmin('listRateLimits', 'List rate limits with the counts of their windows', {
  querystring: asOfQuery,
  response,
});

const getRateLimit = scopedAdmin('getRateLimit', 'Get one rate limit with the counts of its window', {
  ...oneAsOf,
  description: '`ETag` is the revision of the rate limits of its subject.',
  params: pathParameters({
    scope: '`user_path`, `provider` or `model`',
    subject: 'Its subject, percent-encoded',
    period: periodParameter,
  }),
  response: { 200: jsonAnswer('The rate limit', rateLimitAnswer) },
});

const saveRateLimit = scopedAdmin('saveRateLimit', 'Create or change a rate limit', {
  ...changes,
  description: 'The counts of its window stay.',
  body: newRule,
  example: { user_path: '/team/alpha', limit_key: { period: 'minute' }, max_requests: 60, max_tokens: 100_000 },
  response,
});

const deleteRateLimit = scopedAdmin('deleteRateLimit', 'Delete a rate limit', {
  ...changes,
  body: ruleName,
  example: { user_path: '/team/alpha', limit_key: { period: 'minute' } },
  response,
  errors: [404],
});

const resetRateLimit = scopedAdmin('resetRateLimit', 'Set the counts of one rate limit to 0', {
  ...changes,
  body: z.strictObject({ ...subject, ...period }),
  example: { user_path: '/team/alpha', period: 'minute' },
  response,
  errors: [404],
});

const resetRateLimits = resetRoute('resetRateLimits', 'Set the counts of all rate limits to 0');

export function registerRateLimits(admin: Routes, options: RateLimitsOptions): void {
  const { log, asOf, keys, now, isProvider } = options;

  /** @throws Refusal 503 while rate limits are off */
  const books = (): RateLimitBooks => {
    if (options.rateLimits !== undefined) return options.rateLimits;
    throw refusals.featureUnavailable('Rate limits are switched off. RATE_LIMITS_ENABLED=true switches them on.');
  };

  /** The rate limits now, or as of the given moment, without their counts. */
  async function limitsAt(given: string | undefined) {
    const moment = await asOf.moment(given);
    const { state, gauge } = books();
    const time = now();
    if (moment === undefined) return { state, gauge, at: time, time };
    return { state: await asOf.fold(rateLimitsView, moment), gauge: () => undefined, at: moment.at, time };
  }

  async function list(request: FastifyRequest, given?: string) {
    const { state, gauge, at, time } = await limitsAt(given);
    return { rate_limits: rateLimitRows(state, { gauge, at, scope: scopeOf(request) }), server_time: timeText(time) };
  }

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

  async function change(
    kind: 'remove' | 'reset',
    of: RateLimitSubject,
    periodSeconds: number,
    request: FastifyRequest,
  ) {
    books();
    await execute(of, { do: kind, of, periodSeconds, ...byOf(request, of) }, request);
    return list(request);
  }

  admin.get('/rate-limits', listRateLimits, async (request) => list(request, request.query.as_of));

  admin.get('/rate-limits/:scope/:subject/:period', getRateLimit, async (request, reply) => {
    const { scope, subject, period } = request.params;
    const of = {
      ...subjectIn(request, { scope, subject }, scopes),
      periodSeconds: periodIn({ period }, rateLimitPeriod),
    };
    const { state, gauge, at } = await limitsAt(request.query.as_of);
    const row = oneRateLimit(of, state, gauge, at);
    if (row === undefined) throw refusals.notFound('rate limit', `${scope} ${subject} ${period}`);
    sendETag(reply, row.revision ?? 'noStream');
    return row;
  });

  admin.put('/rate-limits', saveRateLimit, async (request, reply) => {
    const input = request.body;
    const of = subjectIn(request, input, scopes);
    checkSubject(of, isProvider);
    const periodSeconds = periodIn(input.limit_key, rateLimitPeriod, 'limit_key.');
    const limits = limitsIn(input, periodSeconds);
    books();
    const command = { do: 'set', of, periodSeconds, ...limits, ...byOf(request, of) } as const;
    sendETag(reply, await execute(of, command, request));
    return list(request);
  });

  admin.delete('/rate-limits', deleteRateLimit, async (request) => {
    const of = subjectIn(request, request.body, scopes);
    return change('remove', of, periodIn(request.body.limit_key, rateLimitPeriod, 'limit_key.'), request);
  });

  admin.post('/rate-limits/reset-one', resetRateLimit, async (request) => {
    const of = subjectIn(request, request.body, scopes);
    return change('reset', of, periodIn(request.body, rateLimitPeriod), request);
  });

  admin.post('/rate-limits/reset', resetRateLimits, async (request) => {
    confirmed(request.body);
    const { state, whenProcessed } = books();
    const position = await resetAllRateLimits(state.rules.values(), eventContextOf(request), log);
    if (position !== undefined) await whenProcessed(position);
    return { status: 'ok' };
  });
}

/** @throws Refusal 400 for an unknown provider, and for a selector that is not one model */
function checkSubject({ scope, subject }: RateLimitSubject, isProvider: (name: string) => boolean): void {
  if (scope === 'provider' && !isProvider(subject)) {
    throw refusals.invalidRequest(`'${subject}' is not a provider.`, 'subject', 'unknown_provider');
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
function limitsIn({ max_requests, max_tokens }: z.output<typeof newRule>, periodSeconds: number): RateLimits {
  const maxRequests = max_requests ?? null;
  const maxTokens = max_tokens ?? null;
  if (periodSeconds === 0 && maxTokens !== null) {
    throw refusals.invalidRequest(
      "'max_tokens' cannot be combined with 'concurrent', which limits requests.",
      'max_tokens',
    );
  }
  if (maxRequests === null && maxTokens === null) {
    throw refusals.invalidRequest(
      "'max_requests' or 'max_tokens' is missing: a rate limit requires at least one.",
      'max_requests',
    );
  }
  return { maxRequests, maxTokens };
}
