/** Calls the candidates, one attempt at a time, until one begins to answer. */
import { parseExactly } from '../../../json/exact-json.ts';
import { isObject } from '../../../json/is-object.ts';
import { membersIn, rewriteMembers } from '../../../providers/translate/json.ts';
import type { NamingRequest } from '../../model-request/references.ts';
import type { RefusedTarget, Route, Target } from '../../model-request/routing-types.ts';
import { answerLimits, appliedLimits, isLimitWithin } from '../../model-request/usage.ts';
import { Refusal, refusals } from '../../refusal.ts';
import { everything, maySeeEverything } from '../../visibility.ts';
import type { OwnAnswer, ProviderAnswer } from '../answer-source.ts';
import { callTarget, type RecordedBodies } from '../attempts/retry-loop.ts';
import { announcePendingResponse, newPendingResponse } from '../background/background-response.ts';
import type { PlanInput } from '../dialect.ts';
import { adjustChatBody } from '../dialects/chat/chat-dialect.ts';
import type { ExchangeRecord } from '../exchange-record.ts';
import { pastAttempt, planWithGuard } from '../guarding/guarded-stream.ts';
import type { AttemptEnd, Plan } from '../plan.ts';
import type { AnswerStream } from '../response-stream.ts';
import type { Admitted, GuardedRequest } from './running-exchange.ts';

// Limits the length of the answers in the request to a provider, in the provider's dialect, to what a budget covers.

/** The plan with a limit of at most so many tokens for each answer. A lower limit of the request stays. */
function limitedPlan(plan: Plan, target: Target, limit: number): Plan {
  if (!Buffer.isBuffer(plan.body)) return plan;
  const body =
    plan.dialect === 'ollama_chat' ? ofOllama(plan.body, limit) : limited(plan.body, plan.dialect, target, limit);
  const { instead } = plan;
  return {
    ...plan,
    ...(body === undefined ? {} : { body, outputLimit: limit }),
    ...(instead === undefined
      ? {}
      : { instead: (refusal: Refusal) => instead(refusal)?.then((other) => limitedPlan(other, target, limit)) }),
  } as Plan;
}

/** @returns undefined when the request's own limits are lower */
function limited(body: Buffer, dialect: string, { provider, model }: Target, limit: number): Buffer | undefined {
  const own = answerLimits(dialect, provider.type);
  const [name] = own;
  if (name === undefined) return undefined;
  const applied = appliedLimits(dialect, provider.type);
  const text = String(limit);
  const changes: Record<string, string | undefined> = {};
  let isLimited = false;
  for (const given of membersIn(body)) {
    if (!applied.includes(given.name)) continue;
    const value = parseExactly(given.value.toString());
    if (value === null) continue;
    isLimited ||= own.includes(given.name);
    if (!isLimitWithin(value, limit)) changes[given.name] = text;
  }
  if (!isLimited) {
    changes[name] = text;
    if (dialect === 'chat') Object.assign(changes, adjustChatBody(provider.type, model, { [name]: limit }));
  }
  return Object.keys(changes).length === 0 ? undefined : rewriteMembers(body, changes);
}

function ofOllama(body: Buffer, limit: number): Buffer | undefined {
  const given = membersIn(body).findLast(({ name }) => name === 'options');
  const parsed = given === undefined ? {} : parseExactly(given.value.toString());
  const options = isObject(parsed) ? parsed : {};
  if (isLimitWithin(options['num_predict'], limit)) return undefined;
  return rewriteMembers(body, { options: JSON.stringify({ ...options, num_predict: limit }) });
}

/**
 * Calls one candidate after another, until one answers or no further call can succeed. When the gateway has repeated
 * a call and still failed, the error advises the client against a retry, which would multiply the calls. The
 * exception is 429: the client waits for `Retry-After` and retries by itself.
 * Only the last healthy candidate is retried as its retry policy states; every other one is followed by the next
 * candidate at once. Candidates that are not ready come last and are called once each.
 * The client gets the error of the candidate that was called last.
 * @throws Refusal when none could be called: all are saturated, or the request cannot be sent to any; LogUnavailable
 */
export async function callProviders(exchange: Admitted): Promise<ProviderAnswer | OwnAnswer> {
  const { dialect, parsedRequest, route, guarded, reservation, record, request, resumed, policy, whenDelivered } =
    exchange;
  const { candidates, ready, observed } = route;
  const [first] = candidates;
  const given = guarded?.answer ?? dialect.answerWithoutProvider?.(guarded?.parsedRequest ?? parsedRequest, candidates);
  if (given !== undefined && first !== undefined) return { source: 'gateway', given, target: first };
  const recorded: RecordedBodies = {
    keepBodies: policy.capture === 'full',
    client: request.body,
    guardrails: guarded?.guard.changedBody,
  };
  let last: ProviderAnswer | undefined;
  let refused: unknown;
  let attempts = resumed?.attempts ?? 0;
  let calls = 0;
  for (const [place, target] of candidates.entries()) {
    const full = reservation?.enter(target);
    if (full !== undefined) {
      refused ??= full;
      continue;
    }
    const calledAt = observed === undefined ? 0 : record.elapsed();
    const movesOn = place === Math.max(ready, 1) - 1 ? undefined : route.failsOver;
    const kind = last === undefined ? 'primary' : 'failover';
    try {
      exchange.target = target;
      const plan = await planFor(target, exchange);
      const result = await callTarget({ target, plan, recorded, attemptsBefore: attempts, kind, movesOn }, exchange);
      const answer: ProviderAnswer = { source: 'provider', target, result };
      if (result.kind === 'open') {
        if (observed !== undefined) whenDelivered.push((end) => observe(observed, end, target, calledAt, record));
        return answer;
      }
      if (result.kind === 'refused' && result.reason === 'budget_exceeded') return answer;
      const wasCalled = result.kind !== 'refused' || result.attempts > attempts;
      if (wasCalled) calls += 1;
      if (wasCalled || last === undefined) last = answer;
      if (wasCalled && observed !== undefined) observe(observed, result, target, calledAt, record);
      if (result.kind !== 'refused' || result.spent || result.reason !== undefined || !route.failsOver(result)) break;
      attempts = result.attempts;
    } catch (error) {
      // A request that cannot be sent to this provider may be possible for the next.
      if (!(error instanceof Refusal)) throw error;
      refused ??= error;
    }
  }
  if (last === undefined) throw refused;
  const { target, result } = last;
  exchange.target = target;
  if (result.kind !== 'refused' || result.refusal.status === 429) return last;
  if (calls <= 1 && result.isRetried !== true) return last;
  return { ...last, result: { ...result, refusal: result.refusal.withoutRetry() } };
}

function observe(
  observed: NonNullable<Route['observed']>,
  end: AttemptEnd | RefusedTarget,
  target: Target,
  calledAt: number,
  record: ExchangeRecord,
): void {
  const failure = end.kind === 'refused' ? end : undefined;
  const firstByteMs = end.kind === 'refused' ? undefined : end.received.firstByteMs;
  const firstByteAfter = firstByteMs === undefined ? undefined : Math.max(0, firstByteMs - calledAt);
  observed(target, failure, record.elapsed() - calledAt, firstByteAfter);
}

/**
 * The request as it is sent to one target. The id of a background response is recorded and sent to the client first.
 */
async function planFor(target: Target, exchange: Admitted): Promise<Plan> {
  const { dialect, request, record, parsedRequest: original, policy, reservation, guarded, deps } = exchange;
  const input: PlanInput = {
    parsedRequest: guarded?.parsedRequest ?? original,
    body: guarded?.body ?? request.body,
    original,
    merged: guarded?.merged,
    headers: guarded?.headers ?? request.headers,
    clientHeaders: request.headers,
    target,
    caller: request.caller,
    visibility: request.caller.visibility,
    record,
    policy,
    history: guarded === undefined ? exchange.history : guarded.history,
    reservation,
    createdAt: record.createdAt,
    made: exchange.resumed?.made,
  };
  const background = dialect.background?.(input);
  if (exchange.pendingResponse !== undefined && background === undefined) {
    throw refusals.backgroundOfOtherProvider(target.provider.name);
  }
  // A translation refuses what its provider cannot do: what the client itself names is checked before.
  if (dialect.name !== 'forward' && dialect.name !== 'passthrough') {
    const checking = checkBody({ body: request.body, json: original.json }, exchange);
    if (checking !== undefined) await checking;
  }
  const plan = await checkedPlan(await dialect.plan(input), exchange);
  if (exchange.pendingResponse === undefined && background !== undefined) {
    exchange.pendingResponse = newPendingResponse(background, {
      ...{ dialect, parsedRequest: original, target, record },
      placeholders: guarded?.guard.placeholders.recorded(),
    });
    const announced = { request, client: exchange.client, parsedRequest: original };
    exchange.client = await announcePendingResponse(exchange.pendingResponse, announced, deps.detached);
  }
  const limit = reservation?.outputLimit(target);
  // Every plan passes here, so that no answer reaches the client past the guardrails.
  const guardedPlan = guarded === undefined ? plan : planUnderGuard(plan, target, guarded, exchange);
  return limit === undefined ? guardedPlan : limitedPlan(guardedPlan, target, limit);
}

/**
 * The plan, after a check of the objects that its request names, also where another plan replaces it. Earlier turns
 * and items from the store are in the request by now.
 * @throws Refusal
 */
function checkedPlan(plan: Plan<AnswerStream>, exchange: Admitted): Plan<AnswerStream> | Promise<Plan<AnswerStream>> {
  const { fields, call } = plan.kind === 'forward' ? plan : {};
  const checking = checkBody({ path: call?.path, body: plan.body, fields }, exchange);
  const { instead } = plan;
  const checked =
    instead === undefined
      ? plan
      : {
          ...plan,
          instead: (refusal: Refusal) => instead(refusal)?.then((other) => checkedPlan(other, exchange)),
        };
  return checking === undefined ? checked : checking.then(() => checked);
}

function checkBody(body: Omit<NamingRequest, 'continues'>, { dialect, request, deps }: Admitted) {
  const { caller } = request;
  // On a provider's own API a user path in a header does not narrow what the caller sees.
  const visibility = dialect.name === 'passthrough' && maySeeEverything(caller) ? everything : caller.visibility;
  const continues = dialect.name === 'responses' || dialect.endpoint.startsWith('/v1/responses/');
  return deps.checkSent({ ...body, continues }, visibility);
}

function planUnderGuard(
  plan: Plan<AnswerStream>,
  target: Target,
  { guard, endpoint, merged }: GuardedRequest,
  { parsedRequest, request, record }: Admitted,
): Plan {
  const { bodies, answers } = endpoint;
  if (!guard.guardsAnswers || answers === undefined) return plan;
  const past = pastAttempt({ parsedRequest, request, target, record, historyReplayed: merged !== undefined });
  return planWithGuard(plan, { guard, bodies, answers, past });
}
