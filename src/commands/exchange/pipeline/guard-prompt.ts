/**
 * Evaluates the guardrails of the prompt phase on the whole request, earlier turns included. Limits and exhausted
 * budgets refuse the request before; a request that a guardrail ends counts in the rate limits.
 */
import { isObject } from '../../../json/is-object.ts';
import { bodyProblem } from '../../guardrails/body/body-problem.ts';
import type { GuardrailDecision } from '../../guardrails/guardrail-decision.ts';
import { Refusal, refusals } from '../../refusal.ts';
import type { OwnAnswer } from '../answer-source.ts';
import { ExchangeGuard, refusalOfPhase } from '../guarding/exchange-guard.ts';
import type { GuardedEndpoint, MergedRequest } from '../guarding/guarded-endpoint.ts';
import { withoutCarried } from '../guarding/without-carried.ts';
import type { GuardrailSteps } from '../guardrail-steps.ts';
import { ticketFor } from './admit.ts';
import type { Guarded, WithHistory } from './context.ts';
import type { ExchangeDependencies } from './dependencies.ts';
import type { GuardedRequest } from './guarded-request.ts';
import { cachePolicyOf } from './read-cache.ts';
import type { Step } from './step.ts';

export const guardPrompt: Step<WithHistory, Guarded> = {
  name: 'guardPrompt',
  run(context, deps) {
    const { exchange, policy } = context;
    if (policy.guardrails === undefined) return context;
    return guardedRequest(context, policy.guardrails, deps).then((guarded) => {
      exchange.guarded = guarded;
      return { ...context, guarded };
    });
  },
};

/** @throws Refusal */
async function guardedRequest(
  context: WithHistory,
  steps: GuardrailSteps,
  deps: ExchangeDependencies,
): Promise<GuardedRequest> {
  const { exchange, parsedRequest, history, route } = context;
  const { dialect, request, record } = exchange;
  const endpoint = deps.guardedEndpoints.get(dialect.endpoint);
  if (endpoint === undefined) throw new Error(`guardrails cannot read requests to ${dialect.endpoint}`);
  const { candidates } = route;
  endpoint.check?.({ parsedRequest, candidates });
  if (steps.prompt.length === 0) {
    const { body, headers } = request;
    const unchanged = { parsedRequest, body, headers, history, merged: undefined, answer: undefined };
    return { ...unchanged, guard: guardOf(context, steps, undefined), endpoint };
  }
  const release = await holdLimits(context, deps);
  const { sight } = request.caller;
  const merged = await endpoint.merged?.({ parsedRequest, history, candidates, sight, record });
  const passed = await evaluated(context, steps, endpoint, merged);
  release();
  return passed;
}

/**
 * Takes the place of the request in its limits and budgets while guardrails run; `admit` takes it again for the request
 * that they let pass. @throws Refusal (429)
 */
async function holdLimits(context: WithHistory, deps: ExchangeDependencies): Promise<() => void> {
  // A hit of the cache is free of budgets; without one, `admit` checks them.
  const checksBudgets = context.policy.checksBudgets && cachePolicyOf(context, deps) === undefined;
  const ticket = await ticketFor(context, deps, { checksBudgets });
  let counts = true;
  context.exchange.scope.atEnd(() => ticket.settle(false, counts));
  return () => {
    counts = false;
    ticket.settle(false, counts);
  };
}

async function evaluated(
  context: WithHistory,
  steps: GuardrailSteps,
  endpoint: GuardedEndpoint,
  merged: MergedRequest | undefined,
): Promise<GuardedRequest> {
  const { exchange, parsedRequest, history } = context;
  const { record, request } = exchange;
  const guard = guardOf(context, steps, merged);
  const sent = merged?.json ?? parsedRequest.json;
  const problem = bodyProblem(sent, true);
  if (problem !== undefined) {
    throw problem.kind === 'too deep' ? refusals.nestedTooDeeply() : refusals.ambiguousMember(problem.path);
  }
  const kept = withoutCarried(sent);
  const given = isObject(kept) ? kept : sent;
  const outcome = await guard.prompt(given, endpoint.bodies.request);
  const refusal = refusalOfPhase(outcome, 'prompt');
  if (refusal !== undefined) {
    // The verdict is recorded with the whole request, however often the caller is refused.
    await record.flush('written');
    throw refusal;
  }
  const answer = ownAnswer(outcome.decision, endpoint.answers, exchange.dialect.endpoint);
  if (answer instanceof Refusal) {
    await record.flush('written');
    throw answer;
  }
  const json = isObject(outcome.body) ? withRouting(outcome.body, given) : given;
  return {
    guard,
    endpoint,
    parsedRequest: { ...parsedRequest, json },
    // Written again: guardrails have read each member once, and a provider might take the other of two.
    body: Buffer.from(JSON.stringify(json)),
    headers: guard.requestHeaders(request.headers),
    merged: merged === undefined ? undefined : { earlier: merged.earlier },
    history: merged === undefined ? history : merged.history,
    answer,
  };
}

/** The answer of a guardrail that responds; a refusal where answers have no text. */
function ownAnswer(
  decision: GuardrailDecision,
  answers: GuardedEndpoint['answers'],
  endpoint: string,
): OwnAnswer['given'] | Refusal | undefined {
  if (decision.action !== 'respond') return undefined;
  const { code, text } = decision;
  if (answers === undefined) return refusals.guardrailResponded(endpoint, code, text);
  return (past) => answers.ofText(text, past);
}

/** Members that routing has read: guardrails may hide values in them, and never select another model. */
const routingMembers = ['model', 'provider', 'stream'] as const;

function withRouting(changed: Record<string, unknown>, given: Readonly<Record<string, unknown>>) {
  if (routingMembers.every((name) => changed[name] === given[name])) return changed;
  const restored = { ...changed };
  for (const name of routingMembers) {
    if (name in given) restored[name] = given[name];
    else delete restored[name];
  }
  return restored;
}

function guardOf(
  { exchange, parsedRequest, policy, route }: WithHistory,
  steps: GuardrailSteps,
  merged: MergedRequest | undefined,
): ExchangeGuard {
  const { record, request } = exchange;
  const { caller, requestId, labels = [] } = request;
  const first = route.candidates[0];
  return new ExchangeGuard({
    steps,
    record,
    keepBodies: policy.capture === 'full',
    facts: {
      requestId,
      exchangeId: record.id,
      userPath: caller.userPath ?? '/',
      model: first?.model ?? parsedRequest.model,
      provider: first?.provider.name ?? '',
      labels,
    },
    placeholders: merged?.placeholders ?? [],
    signal: () => exchange.client.ended,
  });
}
