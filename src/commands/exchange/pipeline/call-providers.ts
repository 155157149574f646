/** Calls the candidates, one attempt at a time, until one begins to answer. */
import type { Target } from '../../model-request/target.ts';
import { refusals } from '../../refusal.ts';
import type { ProviderAnswer } from '../answer-source.ts';
import { callWithFailover, type TargetCall } from '../attempts/failover.ts';
import { callTarget } from '../attempts/retry-loop.ts';
import { announcePendingResponse, newPendingResponse } from '../background/announce-pending-response.ts';
import { answerHeaders } from '../delivery/answer-headers.ts';
import type { PlanInput } from '../dialect.ts';
import type { CallResult } from '../outcome.ts';
import type { Plan } from '../plan.ts';
import { noteSpending } from '../record/spending.ts';
import type { Admitted } from './context.ts';
import type { ExchangeDependencies } from './dependencies.ts';
import type { Step } from './step.ts';

export const callProviders: Step<Admitted, ProviderAnswer> = {
  name: 'callProviders',
  async run(context, deps) {
    const { exchange, parsedRequest, policy, route, ticket } = context;
    const { record, resumed } = exchange;
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
  const { exchange, parsedRequest, policy, ticket } = context;
  const { dialect, request, record, scope } = exchange;
  const { target } = call;
  exchange.target = target;
  const plan = await planFor(target, context, deps);
  const { recordsUsage } = policy;
  const spender = { dialect, parsedRequest, record, request, ticket, pricing: deps.pricing, recordsUsage };
  return callTarget({
    plan,
    target,
    record,
    client: exchange.client,
    scope,
    attemptsBefore: call.attemptsBefore,
    kind: call.kind,
    movesOn: call.movesOn,
    requestId: request.requestId,
    stream: parsedRequest.stream,
    ...deps.resilienceOf(target.provider.name),
    retriesRateLimits: exchange.pendingResponse !== undefined,
    recordBeforeCall: deps.recordBeforeCall,
    keepBodies: policy.capture === 'full',
    maxAnswerBytes: deps.maxAnswerBytes,
    random: deps.random,
    wait: deps.wait,
    answerHeaders: (reply) => answerHeaders(spender, reply),
    spent: (relay, failedAttempt) => noteSpending(spender, target, relay, { isPartial: false, failedAttempt }),
  });
}

/**
 * The request as it is sent to one target. The id of a background response is recorded and sent to the client first.
 */
async function planFor(target: Target, context: Admitted, deps: ExchangeDependencies): Promise<Plan> {
  const { exchange, parsedRequest, policy, history, ticket } = context;
  const { dialect, request, record } = exchange;
  const { body, headers, caller } = request;
  const { createdAt } = record;
  const input: PlanInput = {
    parsedRequest,
    body,
    headers,
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
  const checked = dialect.checkFiles?.(input);
  if (checked !== undefined) await checked;
  const plan = await dialect.plan(input);
  if (exchange.pendingResponse === undefined && background !== undefined) {
    exchange.pendingResponse = newPendingResponse(background, { dialect, parsedRequest, target, record });
    const announced = { request, client: exchange.client, parsedRequest };
    exchange.client = await announcePendingResponse(exchange.pendingResponse, announced, deps.detached);
  }
  return plan;
}
