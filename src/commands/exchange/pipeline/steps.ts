/**
 * The path of every model request, for JSON and for streams, in every dialect. The effect of a step is recorded
 * before it is visible outside the gateway.
 */

import { modelResolved } from '../../../events/catalogue/exchange.ts';
import { isObject } from '../../../json/is-object.ts';
import { bodyProblem } from '../../guardrails/body/body-problem.ts';
import type { GuardrailDecision } from '../../guardrails/guardrail-type.ts';
import { type ReadResult, readJson } from '../../model-request/model-request.ts';
import type { Route, Target } from '../../model-request/routing-types.ts';
import { earlyEnd } from '../../model-request/upstream-refusals.ts';
import { Refusal, refusals } from '../../refusal.ts';
import { limitsRefusal } from '../../request-check.ts';
import { oneTarget } from '../../virtual-models/router.ts';
import type { Answer, OwnAnswer } from '../answer-source.ts';
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
import { admit, claimKey, holdLimits, noteReceived, record } from './admit.ts';
import { callProviders } from './call-providers.ts';
import { readCache } from './read-cache.ts';
import {
  cachedEndpoints,
  type Governed,
  type GuardedRequest,
  type RequestParsed,
  type Routed,
  type RunningExchange,
} from './running-exchange.ts';

/** Evaluates the guardrails of the prompt phase on the whole request, earlier turns included. @throws Refusal */
async function guardPrompt(exchange: Governed, steps: GuardrailSteps): Promise<GuardedRequest> {
  const { dialect, parsedRequest, history, route, request, record, deps } = exchange;
  const endpoint = deps.guardedEndpoints.get(dialect.endpoint);
  if (endpoint === undefined) throw new Error(`guardrails cannot read requests to ${dialect.endpoint}`);
  if (steps.prompt.length === 0) {
    const { body, headers } = request;
    const unchanged = { parsedRequest, body, headers, history, merged: undefined, answer: undefined };
    return { ...unchanged, guard: guardOf(exchange, steps, undefined), endpoint };
  }
  const { candidates } = route;
  const { visibility } = request.caller;
  const merged = await endpoint.merged?.({ parsedRequest, history, candidates, visibility, record });
  const guard = guardOf(exchange, steps, merged);
  const sent = merged?.json ?? parsedRequest.json;
  const problem = bodyProblem(sent, true);
  if (problem !== undefined) {
    throw problem.kind === 'too deep' ? refusals.nestedTooDeeply() : refusals.ambiguousMember(problem.path);
  }
  const kept = withoutCarried(sent);
  const given = isObject(kept) ? kept : sent;
  const outcome = await guard.prompt(given, endpoint.bodies.request);
  const answer = refusalOfPhase(outcome, 'prompt') ?? ownAnswer(outcome.decision, endpoint.answers, dialect.endpoint);
  if (answer instanceof Refusal) {
    // The verdict is recorded with the whole request, however often the caller is refused.
    await record.flush('written');
    throw answer;
  }
  exchange.releaseHeld?.();
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

function guardOf(exchange: Governed, steps: GuardrailSteps, merged: MergedRequest | undefined): ExchangeGuard {
  const { record, request, parsedRequest, policy, route } = exchange;
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

/**
 * Lets plugins read and change the request, one after the other.
 * @throws Refusal when a plugin refuses the request, or fails and fails closed
 */
async function applyPlugins(exchange: RequestParsed, plugins: readonly RequestPlugin[]): Promise<void> {
  const original = exchange.parsedRequest;
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
    const changing = waitFor(exchange, `plugin ${plugin.name}`, changesOf(plugin, exchange, parsedRequest));
    const changes = await changing.catch((error: unknown) => {
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
  exchange.parsedRequest = parsedRequest;
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
 * Selects the policy of the request by its caller and its first candidate. Failover keeps this policy, and leaves out
 * candidates under other guardrails.
 * @param again the policy with which a request that is resumed was recorded
 * @throws Refusal 500 when the guardrails of the workflow cannot run; 403 when they read no requests to this endpoint
 */
function selectPolicy(exchange: Routed, again: ExchangePolicy | undefined): Governed {
  const { dialect, route, request, deps } = exchange;
  const policy = again ?? deps.policyOf(request, route.candidates[0]);
  const { workflow, guardrails } = policy;
  const isRead =
    guardrails === undefined || (dialect.take === undefined && deps.guardedEndpoints.has(dialect.endpoint));
  if (!isRead || policy.problem !== undefined) {
    noteReceived(exchange, policy);
    const scope = workflow?.scope ?? '';
    throw policy.problem === undefined
      ? refusals.endpointNotGuarded(dialect.endpoint, scope)
      : refusals.workflowUnusable(scope, policy.problem);
  }
  if (route.candidates.length <= 1) return Object.assign(exchange, { policy });
  // Other candidates are called only when the guardrails of the selected workflow are theirs too.
  const isCalled = (target: Target, place: number) => {
    if (place === 0 || !policy.failsOver) return place === 0;
    const other = deps.policyOf(request, target);
    return other.guardrails === guardrails && other.problem === undefined;
  };
  const candidates = route.candidates.filter(isCalled);
  const ready = route.candidates.slice(0, route.ready).filter((target) => candidates.includes(target)).length;
  return Object.assign(exchange, { policy, route: { ...route, candidates, ready } });
}

/** @throws Refusal for a body that is malformed, or whose values are out of range */
function receive(exchange: RunningExchange, read: ReadResult): RequestParsed {
  const { dialect, request, deps, record } = exchange;
  if (!read.ok) {
    if (read.known !== undefined) {
      const { parsedRequest: refused, provider } = read.known;
      noteReceived(exchange, deps.policyOf(request, undefined), refused);
      if (provider !== undefined) {
        const facts = {
          requested: refused.model,
          model: refused.model,
          provider: provider.name,
          providerType: provider.type,
        };
        record.note(modelResolved.create(facts, record.context));
      }
    }
    throw read.refusal;
  }
  const { parsedRequest } = read;
  request.sessionId ??= deps.sessions?.inBody(parsedRequest.json, request.caller.userPath);
  // Values of a passthrough request are checked by its provider.
  const refusal = dialect.name === 'passthrough' ? undefined : limitsRefusal(dialect.endpoint, parsedRequest.json);
  if (refusal === undefined) return Object.assign(exchange, { parsedRequest });
  noteReceived(exchange, deps.policyOf(request, undefined), parsedRequest);
  throw refusal;
}

/** A step that waits has a span in the trace of its exchange, if there is one. */
function waitFor<Result>({ record: { trace } }: RunningExchange, step: string, result: Promise<Result>) {
  return trace === undefined ? result : trace.step(step, result);
}

/** The candidates for a request, determined by its route or by the model that it names. @throws Refusal */
function resolveRoute({ dialect, request, parsedRequest, deps }: RequestParsed): Route | Promise<Route> {
  if (dialect.target !== undefined) {
    const target = dialect.target(parsedRequest);
    return target instanceof Promise ? target.then(oneTarget) : oneTarget(target);
  }
  const { caller, labels, sessionId } = request;
  const { model: selector, provider, stream } = parsedRequest;
  return deps.router.route({ selector, provider, caller, labels, sessionId, stream });
}

/**
 * The answer to a request, of which no byte has been sent. `deliver` sends it, and `complete` records the end before the
 * last bytes are sent. @throws Refusal, LogUnavailable
 */
export async function answerTo(exchange: RunningExchange): Promise<Answer> {
  const { dialect, resumed, deps } = exchange;
  let parsed: RequestParsed;
  if (resumed !== undefined) {
    if (resumed.refused !== undefined) throw resumed.refused;
    parsed = Object.assign(exchange, { parsedRequest: resumed.parsedRequest });
  } else {
    const { request } = exchange;
    parsed = receive(
      exchange,
      dialect.take === undefined ? readJson(dialect, request.body) : await dialect.take(request),
    );
    // Calls that guardrails and plugins make would cause further ones.
    const isOwn = request.caller.origin !== undefined;
    if (deps.requestPlugins.length > 0 && !isOwn) await applyPlugins(parsed, deps.requestPlugins);
    // Only answers of the known dialects can be generated again from the record.
    if (exchange.request.headers['idempotency-key'] !== undefined && deps.dialects.has(dialect.name)) {
      const recorded = await waitFor(exchange, 'idempotency key', claimKey(parsed));
      if (recorded !== undefined) return recorded;
    }
  }
  // Only what is a promise is waited for.
  const resolved = resolveRoute(parsed);
  const route = resolved instanceof Promise ? await waitFor(exchange, 'route', resolved) : resolved;
  if (route.candidates.length === 0) throw refusals.modelNotFound(parsed.parsedRequest.model);
  const routed = Object.assign(parsed, { route, isByModel: dialect.target === undefined });
  const again = resumed?.workflow === undefined ? undefined : await deps.policyAgain(resumed.workflow);
  const governed = selectPolicy(routed, again);
  record(governed);
  const { parsedRequest, request, policy } = governed;
  const history = dialect.loadHistory?.({ parsedRequest, visibility: request.caller.visibility });
  // Read once for all candidates.
  if (history !== undefined) governed.history = await waitFor(exchange, 'history', history);
  if (policy.guardrails !== undefined) {
    await waitFor(exchange, 'limits', holdLimits(governed, policy.guardrails));
    governed.guarded = await waitFor(exchange, 'guardrails', guardPrompt(governed, policy.guardrails));
  }
  if (cachedEndpoints.has(dialect.endpoint) && resumed === undefined) {
    const looked = readCache(governed);
    const cached = looked instanceof Promise ? await waitFor(exchange, 'cache', looked) : looked;
    if (cached !== undefined) return cached;
  }
  const reserved = admit(governed);
  const admitted = reserved instanceof Promise ? await waitFor(exchange, 'admission', reserved) : reserved;
  return 'source' in admitted ? admitted : await callProviders(admitted);
}
