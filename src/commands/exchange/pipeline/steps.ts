/**
 * The path of every model request, for JSON and for streams, in every dialect. The effect of a step is recorded
 * before it is visible outside the gateway.
 */

import { modelResolved } from '../../../events/catalogue/exchange.ts';
import { isObject } from '../../../json/is-object.ts';
import { bodyProblem } from '../../guardrails/body/body-problem.ts';
import type { GuardrailDecision } from '../../guardrails/guardrail-type.ts';
import { type ReadResult, readJson } from '../../model-request/model-request.ts';
import { oneTarget, type Route, type Target } from '../../model-request/routing-types.ts';
import { earlyEnd } from '../../model-request/upstream-refusals.ts';
import { Refusal, refusals } from '../../refusal.ts';
import { limitsRefusal } from '../../request-limits.ts';
import type { OwnAnswer } from '../answer-source.ts';
import {
  ExchangeGuard,
  type GuardedEndpoint,
  type MergedRequest,
  refusalOfPhase,
  withoutCarried,
} from '../guarding/exchange-guard.ts';
import type { ExchangePolicy, GuardrailSteps } from '../policy.ts';
import {
  type AppliedPlugin,
  changedHeaders,
  changedSelector,
  type PluginRequestChanges,
  type RequestPlugin,
} from '../request-plugin.ts';
import { admit, claimKey, noteReceived, record, ticketFor } from './admit.ts';
import { callProviders } from './call-providers.ts';
import type { ExchangeDependencies } from './dependencies.ts';
import { cachePolicyOf, readCache } from './read-cache.ts';
import {
  type Arrived,
  type Governed,
  type Guarded,
  type GuardedRequest,
  inOrder,
  type KeyLookedUp,
  type Recorded,
  type RequestParsed,
  type Routed,
  type RunningExchange,
  type Step,
  type WithHistory,
} from './running-exchange.ts';

/**
 * Evaluates the guardrails of the prompt phase on the whole request, earlier turns included. Limits and exhausted
 * budgets refuse the request before; a request that a guardrail ends counts in the rate limits.
 */
const guardPrompt: Step<WithHistory, Guarded> = {
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

/** Lets plugins read and change the request, one after the other. Without such a plugin the step does nothing. */
const applyPlugins: Step<RequestParsed, RequestParsed> = {
  name: 'applyPlugins',
  run(context, { requestPlugins }) {
    const { resumed, request } = context.exchange;
    // Calls that guardrails and plugins make would cause further ones.
    const isOwn = request.caller.origin !== undefined;
    return requestPlugins.length === 0 || resumed !== undefined || isOwn
      ? context
      : afterPlugins(context, requestPlugins);
  },
};

/** @throws Refusal when a plugin refuses the request, or fails and fails closed */
async function afterPlugins(
  { exchange, parsedRequest: original }: RequestParsed,
  plugins: readonly RequestPlugin[],
): Promise<RequestParsed> {
  const { headers } = exchange.request;
  const applied: AppliedPlugin[] = [];
  exchange.beforePlugins = { headers, model: original.model, applied };
  let parsedRequest = original;
  for (const plugin of plugins) {
    const started = process.hrtime.bigint();
    const note = (facts: Omit<AppliedPlugin, 'plugin' | 'digest' | 'durationNs'>): AppliedPlugin => {
      const durationNs = Number(process.hrtime.bigint() - started);
      const one = { plugin: plugin.name, digest: plugin.digest, ...facts, durationNs };
      applied.push(one);
      return one;
    };
    const changes = await changesOf(plugin, exchange, parsedRequest).catch((error: unknown) => {
      // The end of the call is then no failure of the plugin.
      if (exchange.client.ended.aborted) throw earlyEnd(exchange.client.ended.reason).refusal;
      note({ error: error instanceof Error ? error.message : String(error), failMode: plugin.failMode });
      if (plugin.failMode === 'closed') throw refusals.pluginFailed(plugin.name);
      return undefined;
    });
    if (changes?.refuse !== undefined) {
      const { status, code, message } = changes.refuse;
      note({ refused: { status, code } });
      throw refusals.pluginRefused(status, code, message);
    }
    const facts = changes === undefined ? undefined : factsOf(changes, exchange);
    if (facts === undefined) continue;
    const one = note(facts);
    parsedRequest = changedSelector(parsedRequest, one);
    const { request } = exchange;
    exchange.request = {
      ...request,
      headers: changedHeaders(request.headers, one),
      labels: one.labels === undefined ? request.labels : [...(request.labels ?? []), ...one.labels],
    };
  }
  return { exchange, parsedRequest };
}

async function changesOf(
  plugin: RequestPlugin,
  { dialect, request, client, record }: RunningExchange,
  { model, provider, stream }: RequestParsed['parsedRequest'],
): Promise<PluginRequestChanges | undefined> {
  const { method, path, headers, labels = [], clientIp, requestId, caller } = request;
  const { endpoint } = dialect;
  const changes = await plugin.run(
    { endpoint, method, path, headers, model, provider, stream, labels, clientIp },
    { requestId, exchangeId: record.id, userPath: caller.userPath ?? '/', signal: client.ended },
  );
  const selects = changes?.model !== undefined || changes?.provider !== undefined;
  if (selects && (model === '' || dialect.target !== undefined)) {
    throw new Error('it selected a model for a request whose model cannot be changed');
  }
  return changes;
}

/** Only what differs from the request; undefined when nothing does. */
function factsOf(
  { labels = [], setHeaders, removeHeaders = [], model, provider }: PluginRequestChanges,
  { request }: RunningExchange,
): Omit<AppliedPlugin, 'plugin' | 'digest' | 'durationNs'> | undefined {
  const added = [...new Set(labels)].filter((label) => request.labels?.includes(label) !== true);
  const removed = removeHeaders.filter((name) => request.headers[name] !== undefined);
  const facts = {
    ...(added.length > 0 && { labels: added }),
    ...(setHeaders !== undefined && Object.keys(setHeaders).length > 0 && { headersSet: setHeaders }),
    ...(removed.length > 0 && { headersRemoved: removed }),
    ...(model !== undefined && { model }),
    ...(provider !== undefined && { provider }),
  };
  return Object.keys(facts).length === 0 ? undefined : facts;
}

/**
 * Selects the policy of the request by its caller and its first candidate. Failover keeps this policy, and leaves out candidates under
 * other guardrails. A request that
 * is resumed keeps the workflow with which it was recorded.
 */
const selectPolicy: Step<Routed, Governed> = {
  name: 'selectPolicy',
  run(context, { policyOf, policyAgain, guardedEndpoints }) {
    const { exchange, route } = context;
    const { request, resumed } = exchange;
    const first = route.candidates[0];
    if (resumed?.workflow === undefined)
      return governed(context, policyOf(request, first), { guardedEndpoints, policyOf });
    return policyAgain(resumed.workflow).then((again) =>
      governed(context, again ?? policyOf(request, first), { guardedEndpoints, policyOf }),
    );
  },
};

/** @throws Refusal 500 when the guardrails of the workflow cannot run; 403 when they read no requests to this endpoint */
function governed(
  context: Routed,
  policy: ExchangePolicy,
  { guardedEndpoints, policyOf }: Pick<ExchangeDependencies, 'guardedEndpoints' | 'policyOf'>,
): Governed {
  const { workflow, guardrails } = policy;
  const { dialect } = context.exchange;
  const isRead = guardrails === undefined || (dialect.take === undefined && guardedEndpoints.has(dialect.endpoint));
  if (!isRead || policy.problem !== undefined) {
    noteReceived(context.exchange, context.parsedRequest, policy);
    const scope = workflow?.scope ?? '';
    throw policy.problem === undefined
      ? refusals.endpointNotGuarded(dialect.endpoint, scope)
      : refusals.workflowUnusable(scope, policy.problem);
  }
  return { ...context, route: routeUnder(policy, context, policyOf), policy };
}

/** Other candidates are called only when the guardrails of the selected workflow are theirs too. */
function routeUnder(
  policy: ExchangePolicy,
  { route, exchange }: Routed,
  policyOf: ExchangeDependencies['policyOf'],
): Route {
  const [first, ...others] = route.candidates;
  if (first === undefined || others.length === 0) return route;
  if (!policy.failsOver) return { ...route, candidates: [first], ready: Math.min(route.ready, 1) };
  const isUnderOther = (target: Target) => {
    const { guardrails, problem } = policyOf(exchange.request, target);
    return guardrails !== policy.guardrails || problem !== undefined;
  };
  if (!others.some(isUnderOther)) return route;
  const candidates = route.candidates.filter((target, place) => place === 0 || !isUnderOther(target));
  const ready = route.candidates.slice(0, route.ready).filter((target) => candidates.includes(target)).length;
  return { ...route, candidates, ready };
}

/** The body of the request, parsed once. */
const receive: Step<Arrived, RequestParsed> = {
  name: 'receive',
  run({ exchange }, deps) {
    const { dialect, request, resumed } = exchange;
    if (resumed !== undefined) {
      if (resumed.refused !== undefined) throw resumed.refused;
      return { exchange, parsedRequest: resumed.parsedRequest };
    }
    const read = dialect.take === undefined ? readJson(dialect, request.body) : dialect.take(request);
    return read instanceof Promise
      ? read.then((parsed) => received(exchange, parsed, deps))
      : received(exchange, read, deps);
  },
};

/** @throws Refusal for a body that is malformed, or whose values are out of range */
function received(exchange: RunningExchange, read: ReadResult, deps: ExchangeDependencies): RequestParsed {
  const { dialect, request } = exchange;
  if (!read.ok) {
    if (read.known !== undefined) {
      const { parsedRequest: refused, provider } = read.known;
      noteReceived(exchange, refused, deps.policyOf(request, undefined));
      if (provider !== undefined) {
        const facts = {
          requested: refused.model,
          model: refused.model,
          provider: provider.name,
          providerType: provider.type,
        };
        exchange.record.note(modelResolved.create(facts, exchange.record.context));
      }
    }
    throw read.refusal;
  }
  const { parsedRequest } = read;
  request.sessionId ??= deps.sessions?.inBody(parsedRequest.json, request.caller.userPath);
  // Values of a passthrough request are checked by its provider.
  const refusal = dialect.name === 'passthrough' ? undefined : limitsRefusal(dialect.endpoint, parsedRequest.json);
  if (refusal !== undefined) {
    noteReceived(exchange, parsedRequest, deps.policyOf(request, undefined));
    throw refusal;
  }
  return { exchange, parsedRequest };
}

/** The candidates for a request, determined by its route or by the model that it names. */
const resolveRoute: Step<KeyLookedUp, Routed> = {
  name: 'resolveRoute',
  run(context, { router }) {
    const { parsedRequest, exchange } = context;
    const { dialect, request } = exchange;
    const given = dialect.target?.(parsedRequest);
    if (given !== undefined) {
      const routed = (route: Route): Routed => ({ ...context, route, isByModel: false });
      return given instanceof Promise ? given.then((target) => routed(oneTarget(target))) : routed(oneTarget(given));
    }
    const routed = (route: Route): Routed => {
      if (route.candidates.length === 0) throw refusals.modelNotFound(parsedRequest.model);
      return { ...context, route, isByModel: true };
    };
    const { caller, labels, sessionId } = request;
    const { model: selector, provider, stream } = parsedRequest;
    const found = router.route({ selector, provider, caller, labels, sessionId, stream });
    return found instanceof Promise ? found.then(routed) : routed(found);
  },
};

/** Loads the conversation, or the turns before a response, that the request continues. Read once for all candidates. */
const loadHistory: Step<Recorded, WithHistory> = {
  name: 'loadHistory',
  run(context) {
    const { exchange, parsedRequest } = context;
    const loading = exchange.dialect.loadHistory?.({ parsedRequest, sight: exchange.request.caller.sight });
    if (loading === undefined) return { ...context, history: undefined };
    return loading.then((history) => ({ ...context, history }));
  },
};

/** An answer ends the list early. `deliver` sends it, and `complete` records the end before the last bytes are sent. */
export const steps = inOrder(
  receive, //        parses the body, once
  applyPlugins, //   plugins may change or refuse the request
  claimKey, //       looks up the idempotency key → answer from the record
  resolveRoute, //   selectors and virtual models → candidates
  selectPolicy, //   the workflow of this request: capture level, features, guardrails
  record, //         request.received, model.resolved
  loadHistory, //    the conversation or response that the request continues
  guardPrompt, //    guardrails of the prompt phase → the request to send, or an answer in place of a provider's
  readCache, //      an equal request → answer from the cache
  admit, //          limits and budgets → reservation, released by the scope; claims the idempotency key
  callProviders, //  failover × retry × attempt → answer
);
