/** `/admin/rate-limits`: limits on requests and tokens by user path, provider and model. */
import { z } from 'zod';
import { canonicalSelector, parseSelector } from '../../../commands/access/selector.ts';
import { type RateLimitScope, type RateLimits, rateLimitKind } from '../../../commands/limits/rate-limit.ts';
import { Refusal, refusals } from '../../../commands/refusal.ts';
import { type LimitRules, type LimitSubject, type RateLimitRule, rateLimitsView } from '../../../projections/limits.ts';
import { jsonAnswer, pathParameters, type Routes, scopedAdmin } from '../../api/route-schema.ts';
import { timeText } from '../../dates.ts';
import { oneAsOf } from '../parameters.ts';
import { periodIn, periodParameter, ruleAnswer, subjectIn } from './limit-subject.ts';
import { type LimitParts, type LimitView, limitRoutes } from './limits.ts';

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

export type RateLimitView = LimitView<LimitRules<RateLimitRule>, Counted>;

const most = z
  .number()
  .refine((value) => Number.isSafeInteger(value) && value > 0, { error: 'it must be a whole number greater than 0' })
  .meta({ type: 'integer', minimum: 1 })
  .nullish();
interface NewLimits {
  readonly max_requests?: number | null | undefined;
  readonly max_tokens?: number | null | undefined;
}

const scopes = ['user_path', 'provider', 'model'] as const;

const { register } = limitRoutes({
  kind: rateLimitKind,
  projection: rateLimitsView,
  path: '/rate-limits',
  one: '/:scope/:subject/:period',
  name: 'RateLimit',
  list: 'rate_limits',
  period: 'limit_key',
  scopes,
  periods: '`minute`, `hour`, `day`, `concurrent`',
  row: rateLimitAnswer,
  input: {
    max_requests: most.describe('One of the two is required'),
    max_tokens: most.describe('Not for `concurrent`'),
  },
  example: { period: 'minute', value: { max_requests: 60, max_tokens: 100_000 } },
  text: {
    answer: 'The rate limits in the scope of the caller',
    list: 'List rate limits with the counts of their windows',
    save: 'Create or change a rate limit',
    saved: 'The counts of its window stay.',
    reset: 'Set the counts of one rate limit to 0',
    resetAll: 'Set the counts of all rate limits to 0',
    off: 'Rate limits are switched off. RATE_LIMITS_ENABLED=true switches them on.',
  },
  hasStateAt: false,
  valueIn: limitsIn,
  valueMembers: ({ maxRequests, maxTokens, source }) => ({
    max_requests: maxRequests ?? undefined,
    max_tokens: maxTokens ?? undefined,
    source,
  }),
  usedMembers({ periodSeconds, maxRequests, maxTokens }: RateLimitRule, counted: Counted | undefined, at) {
    const isConcurrent = periodSeconds === 0;
    const used = isConcurrent ? counted?.inFlight : counted?.requests;
    return {
      ...(isConcurrent ? {} : { window_start: timeText(at - periodSeconds * 1000), window_end: timeText(at) }),
      requests_used: used ?? null,
      requests_remaining: remaining(maxRequests, used),
      tokens_used: counted?.tokens ?? null,
      tokens_remaining: remaining(maxTokens, counted?.tokens),
      in_flight: counted?.inFlight ?? null,
    };
  },
});

/** @param most null: not limited */
function remaining(most: number | null, used: number | undefined): number | null | undefined {
  if (most === null) return undefined;
  return used === undefined ? null : Math.max(0, most - used);
}

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

interface RateLimitsOptions extends LimitParts<LimitRules<RateLimitRule>, Counted> {
  isProvider(name: string): boolean;
}

export function registerRateLimits(admin: Routes, { isProvider, ...parts }: RateLimitsOptions): void {
  const { show } = register(admin, parts, (of) => checkSubject(of, isProvider));

  admin.get('/rate-limits/:scope/:subject/:period', getRateLimit, async (request, reply) => {
    const { scope, subject, period } = request.params;
    const of = subjectIn(request, { scope, subject }, scopes);
    const limit = { ...of, periodSeconds: periodIn({ period }, rateLimitKind.periodOf) };
    return show(limit, `${scope} ${subject} ${period}`, request.query.as_of, reply);
  });
}

/** @throws Refusal 400 for an unknown provider, and for a selector that is not one model */
function checkSubject({ scope, subject }: LimitSubject<RateLimitScope>, isProvider: (name: string) => boolean): void {
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
function limitsIn({ max_requests, max_tokens }: NewLimits, periodSeconds: number): RateLimits {
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
