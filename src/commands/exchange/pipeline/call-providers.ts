/** Calls the candidates, one attempt at a time, until one begins to answer. */
import { createHash } from 'node:crypto';
import { providerType } from '../../../providers/types.ts';
import { callerName } from '../../model-request/caller.ts';
import type { NamingRequest } from '../../model-request/references.ts';
import type { Target } from '../../model-request/target.ts';
import { refusals } from '../../refusal.ts';
import { everything, maySeeEverything } from '../../visibility.ts';
import type { OwnAnswer, ProviderAnswer } from '../answer-source.ts';
import { callWithFailover, type TargetCall } from '../attempts/failover.ts';
import { limitedPlan } from '../attempts/limited-plan.ts';
import { callTarget } from '../attempts/retry-loop.ts';
import { SentRequests } from '../attempts/sent-requests.ts';
import { announcePendingResponse, newPendingResponse } from '../background/announce-pending-response.ts';
import { answerHeaders } from '../delivery/answer-headers.ts';
import type { PlanInput } from '../dialect.ts';
import { pastAttempt, planWithGuard } from '../guarding/guarded-plan.ts';
import type { CallResult } from '../outcome.ts';
import type { Plan } from '../plan.ts';
import { noteSpending } from '../record/spending.ts';
import type { Relay } from '../relay.ts';
import type { Admitted } from './context.ts';
import type { ExchangeDependencies } from './dependencies.ts';
import type { Step } from './step.ts';

export const callProviders: Step<Admitted, ProviderAnswer | OwnAnswer> = {
  name: 'callProviders',
  async run(context, deps) {
    const { exchange, parsedRequest, policy, route, ticket, guarded } = context;
    const { record, resumed } = exchange;
    const [first] = route.candidates;
    const request = guarded?.parsedRequest ?? parsedRequest;
    const given = guarded?.answer ?? exchange.dialect.answerWithoutProvider?.(request, route.candidates);
    if (given !== undefined && first !== undefined) {
      return { source: 'gateway', given, target: first, parsedRequest, policy, ticket };
    }
    const failover = {
      ticket,
      attemptsBefore: resumed?.attempts ?? 0,
      elapsed: () => record.elapsed(),
      call: (call: TargetCall) => callCandidate(call, context, deps),
    };
    const { target, result } = await callWithFailover(route, failover);
    exchange.target = target;
    return { source: 'provider', target, result, parsedRequest, policy, ticket };
  },
};

/** @throws Refusal when the request cannot be sent to the target; LogUnavailable */
async function callCandidate(call: TargetCall, context: Admitted, deps: ExchangeDependencies): Promise<CallResult> {
  const { exchange, parsedRequest, policy, ticket, guarded } = context;
  const { dialect, request, record, scope } = exchange;
  const { target } = call;
  exchange.target = target;
  const planned = await planFor(target, context, deps);
  const plan = limitedPlan(guardedPlan(planned, target, context), target, ticket.outputLimit(target));
  const { recordsUsage } = policy;
  const guard = guarded?.guard;
  const { hasMissedCache } = exchange;
  const spender = {
    ...{ dialect, parsedRequest, record, request, ticket, pricing: deps.pricing, recordsUsage, guard, hasMissedCache },
  };
  return callTarget({
    plan,
    target,
    record,
    client: exchange.client,
    scope,
    sent: sentRequests(context),
    attemptsBefore: call.attemptsBefore,
    kind: call.kind,
    movesOn: call.movesOn,
    requestId: request.requestId,
    stream: parsedRequest.stream,
    reservation: ticket.onLog,
    again: () => ticket.again(),
    reservedCost: () => ticket.reservedCost(),
    inputCounted:
      ticket.isMetered && providerType(target.provider.type)?.countsInputFirst === true
        ? (usage) => ticket.inputCounted(usage)
        : undefined,
    ...deps.resilienceOf(target.provider.name),
    retriesRateLimits: exchange.pendingResponse !== undefined,
    calledBy: { caller: callerName(request.caller), body: digestOnce(request.body) },
    recordBeforeCall: deps.recordBeforeCall,
    keepBodies: policy.capture === 'full',
    maxAnswerBytes: deps.maxAnswerBytes,
    streamLimits: deps.streamLimits,
    random: deps.random,
    wait: deps.wait,
    answerHeaders: (reply) => answerHeaders({ ...spender, target }, reply),
    spent: (relay, failedAttempt) => noteSpending(spender, target, relay, { isPartial: false, failedAttempt }),
  });
}

/** Computed at the first call: only breakers with failures need it. */
function digestOnce(body: unknown): () => string | undefined {
  let digest: string | undefined;
  return () => {
    if (body instanceof Uint8Array) digest ??= createHash('sha256').update(body).digest('base64');
    return digest;
  };
}

function sentRequests({ exchange, policy, guarded }: Admitted): SentRequests {
  exchange.sent ??= new SentRequests({
    keepBodies: policy.capture === 'full',
    client: exchange.request.body,
    guardrails: guarded?.guard.changedBody,
  });
  return exchange.sent;
}

/**
 * The request as it is sent to one target. The id of a background response is recorded and sent to the client first.
 */
async function planFor(target: Target, context: Admitted, deps: ExchangeDependencies): Promise<Plan<Relay>> {
  const { exchange, parsedRequest: original, policy, ticket, guarded } = context;
  const { dialect, request, record } = exchange;
  const { caller } = request;
  const { createdAt } = record;
  const { parsedRequest, body, headers, history, merged } = guarded ?? {
    ...{ parsedRequest: original, history: context.history, merged: undefined },
    ...{ body: request.body, headers: request.headers },
  };
  const input: PlanInput = {
    parsedRequest,
    body,
    original,
    merged,
    headers,
    clientHeaders: request.headers,
    target,
    sight: caller.sight,
    record,
    policy,
    history,
    ticket,
    createdAt,
  };
  const background = dialect.background?.(input);
  if (exchange.pendingResponse !== undefined && background === undefined) {
    throw refusals.backgroundOfOtherProvider(target.provider.name);
  }
  // A translation refuses what its provider cannot do: what the client itself names is checked before.
  if (dialect.name !== 'forward' && dialect.name !== 'passthrough') {
    const checking = checkBody({ body: request.body, json: original.json }, context, deps);
    if (checking !== undefined) await checking;
  }
  const plan = await checkedPlan(await dialect.plan(input), context, deps);
  if (exchange.pendingResponse === undefined && background !== undefined) {
    exchange.pendingResponse = newPendingResponse(background, {
      ...{ dialect, parsedRequest: original, target, record },
      placeholders: guarded?.guard.placeholders.recorded(),
    });
    const announced = { request, client: exchange.client, parsedRequest: original };
    exchange.client = await announcePendingResponse(exchange.pendingResponse, announced, deps.detached);
  }
  return plan;
}

/**
 * The plan, after a check of the objects that its request names, also where another plan replaces it. Earlier turns
 * and items from the store are in the request by now.
 * @throws Refusal
 */
async function checkedPlan(plan: Plan<Relay>, context: Admitted, deps: ExchangeDependencies): Promise<Plan<Relay>> {
  const { fields, call } = plan.kind === 'forward' ? plan : {};
  const checking = checkBody({ path: call?.path, body: plan.body, fields }, context, deps);
  if (checking !== undefined) await checking;
  const { instead } = plan;
  if (instead === undefined) return plan;
  return { ...plan, instead: (refusal) => instead(refusal)?.then((other) => checkedPlan(other, context, deps)) };
}

function checkBody(body: Omit<NamingRequest, 'continues'>, { exchange }: Admitted, deps: ExchangeDependencies) {
  const { dialect, request } = exchange;
  const { caller } = request;
  // On a provider's own API a user path in a header does not narrow what the caller sees.
  const sight = dialect.name === 'passthrough' && maySeeEverything(caller) ? everything : caller.sight;
  const continues = dialect.name === 'responses' || dialect.endpoint.startsWith('/v1/responses/');
  return deps.checkSent({ ...body, continues }, sight);
}

/** Every plan passes here, so that no answer reaches the client past the guardrails. */
function guardedPlan(plan: Plan<Relay>, target: Target, { exchange, parsedRequest, guarded }: Admitted): Plan {
  if (guarded === undefined || !guarded.guard.guardsAnswers || guarded.endpoint.answers === undefined) return plan;
  const { guard, endpoint, merged } = guarded;
  const { record } = exchange;
  return planWithGuard(plan, {
    guard,
    bodies: endpoint.bodies,
    answers: guarded.endpoint.answers,
    past: pastAttempt({
      parsedRequest,
      request: exchange.request,
      target,
      record,
      historyReplayed: merged !== undefined,
    }),
  });
}
