/**
 * One model request, from its bytes to its answer, for JSON and for streams, in every dialect. Read top to bottom it
 * is the whole pipeline; each step is told in events before anybody outside sees its effect.
 */
import { modelResolved, requestReceived } from '../../../events/catalogue/exchange.ts';
import { type EventLog, LogUnavailable } from '../../../events/log.ts';
import type { Provider } from '../../../providers/provider.ts';
import type { Admission, Ticket } from '../../model-request/admission.ts';
import type { Client } from '../../model-request/client.ts';
import type { ModelRequest } from '../../model-request/model-request.ts';
import type { Asked, ReadResult } from '../../model-request/parsed-request.ts';
import { readJson } from '../../model-request/read-json.ts';
import { oneTarget, type Route, type Router } from '../../model-request/route.ts';
import type { Sessions } from '../../model-request/session.ts';
import type { Target } from '../../model-request/target.ts';
import type { TokenUsage } from '../../model-request/usage.ts';
import type { Pricing } from '../../pricing/pricing.ts';
import { Refusal, refusals } from '../../refusal.ts';
import { limitsRefusal } from '../../request-limits.ts';
import type { ResponseArchive } from '../../responses/archive.ts';
import { attempts } from '../attempts/attempts.ts';
import type { CircuitBreaker } from '../attempts/circuit-breaker.ts';
import { type Asking, askInTurn } from '../attempts/failover.ts';
import type { RetryPolicy } from '../attempts/retry-policy.ts';
import { newPromise, noteOutcome, type PromisedResponse, promiseResponse } from '../background/background.ts';
import type { OpenRecords } from '../background/open-records.ts';
import type { DetachedClients } from '../delivery/detached-client.ts';
import type { ExchangeDialect, PlanInput } from '../dialect.ts';
import { ExchangeRecord } from '../exchange-record.ts';
import type { Outcome } from '../outcome.ts';
import * as events from '../record/end-events.ts';
import type { Dialects } from '../record/recorded-exchange.ts';
import { isOfRequest } from '../record/refused-content.ts';
import type { RefusedRequests } from '../record/refused-requests.ts';
import { noteSpending } from '../record/spending.ts';
import { answerUnderKey } from './idempotency.ts';
import type { Admitted, Run } from './run.ts';
import { answerHeaders, settle, tell } from './settle.ts';

export interface ExchangeDependencies {
  readonly log: EventLog;
  readonly archive: ResponseArchive;
  /** Every dialect by its name, for what is read again from the record. */
  readonly dialects: Dialects;
  /** The exchanges that go on without their clients. */
  readonly detached: DetachedClients;
  readonly router: Router;
  readonly admission: Admission;
  /** Finds the session that a body names. */
  readonly sessions?: Pick<Sessions, 'inBody'>;
  readonly pricing: Pricing;
  /** How patient to be with a provider. */
  resilienceOf(provider: string): Resilience;
  readonly recordBeforeCall: 'written' | 'durable';
  readonly capture: 'full' | 'metadata';
  readonly maxAnswerBytes: number;
  newId(): string;
  random(): number;
  wait(ms: number, signal: AbortSignal): Promise<void>;
  /** Told once about every exchange, after it ended. Must not throw. */
  ended(summary: ExchangeSummary): void;
  readonly open: Pick<OpenRecords, 'begun' | 'over' | 'leftOpen'>;
  /** Decides which refusals are recorded one by one, and counts the others. */
  readonly refused: Pick<RefusedRequests, 'recordsAlone'>;
  /** Told of a response that was made and could not be recorded. */
  responseNotStored(provider: Provider | undefined): void;
  /** Told of what should not have happened, for the operator's own log. */
  failed(error: unknown): void;
}

export interface Resilience {
  readonly retry: RetryPolicy;
  readonly breaker: CircuitBreaker;
}

export interface ExchangeSummary {
  readonly endpoint: string;
  readonly provider: string | undefined;
  readonly model: string | undefined;
  readonly status: number;
  readonly stream: boolean;
  readonly durationMs: number;
  readonly firstByteMs: number | undefined;
  readonly usage: TokenUsage | undefined;
}

/** Never throws: whatever happens, the client is told and the log knows. */
export function runExchange(
  dialect: ExchangeDialect,
  request: ModelRequest,
  client: Client,
  deps: ExchangeDependencies,
): Promise<void> {
  const record = new ExchangeRecord(deps.log, deps.newId(), contextOf(request));
  deps.open.begun(record.stream);
  const run = { dialect, request, client, record };
  // Only what can be read back from the record can be given again.
  const isKeyed = request.headers['idempotency-key'] !== undefined && deps.dialects.has(dialect.name);
  return isKeyed ? answerOnce(run, deps) : answer(run, deps);
}

/** A request under an idempotency key: the answer that there is, or else a new one. */
async function answerOnce(run: Run, deps: ExchangeDependencies): Promise<void> {
  const { dialect, request, client, record } = run;
  let asked: Asked | undefined;
  let admission: KeyedAdmission | undefined;
  let status: number | undefined;
  try {
    asked = heard(run, readJson(dialect, request.body), deps);
    admission = new KeyedAdmission(run, asked, deps);
    status = await answerUnderKey({ endpoint: dialect.endpoint, request, record, client, admission }, deps);
  } catch (error) {
    status = await refuse(run, client, error, undefined, deps);
  }
  if (asked !== undefined && status === undefined) {
    // Whoever tries again under the key is to find the answer, also when this client does not wait for it.
    const detached = deps.detached.detach(client);
    const begun = { asked, attempts: 0, admitted: admission?.admitted };
    await answer({ ...run, client: detached, begun }, deps);
    detached.over();
    return;
  }
  admission?.giveBack();
  deps.open.over(record.stream);
  conclude(run, { asked, status: status ?? 500 }, deps);
}

/** Admits a request under an idempotency key before its key is claimed, so that nothing is on record when it is refused. */
class KeyedAdmission {
  readonly #run: Run;
  readonly #asked: Asked;
  readonly #deps: ExchangeDependencies;
  #route: Route | undefined;
  #ticket: Ticket | undefined;

  constructor(run: Run, asked: Asked, deps: ExchangeDependencies) {
    this.#run = run;
    this.#asked = asked;
    this.#deps = deps;
  }

  get admitted(): Admitted | undefined {
    const route = this.#route;
    const ticket = this.#ticket;
    return route === undefined || ticket === undefined ? undefined : { route, ticket };
  }

  async admit(): Promise<void> {
    const route = this.#route ?? (await findRoute(this.#run, this.#asked, this.#deps));
    this.#route = route;
    this.#ticket ??= this.#deps.admission.admit(admissionOf(this.#run, this.#asked, route));
  }

  giveBack(): void {
    this.#ticket?.settle(false);
    this.#ticket = undefined;
  }
}

/** From its request, or from where it was left, to its end. Never throws. */
export async function answer(run: Run, deps: ExchangeDependencies): Promise<void> {
  const { dialect, request, record, begun } = run;
  let { client } = run;
  let asked = begun?.asked;
  let target: Target | undefined;
  let promise = begun?.promise;
  let outcome: Outcome | undefined;
  let ticket: Ticket | undefined;
  let status: number;
  try {
    if (begun?.refused !== undefined) throw begun.refused;
    asked ??= heard(
      run,
      dialect.take === undefined ? readJson(dialect, request.body) : await dialect.take(request),
      deps,
    );
    const heardOf = asked;
    const found = begun?.admitted?.route ?? findRoute(run, asked, deps);
    const route = found instanceof Promise ? await found : found;
    const admitted = begun?.admitted?.ticket ?? deps.admission.admit(admissionOf(run, asked, route));
    ticket = admitted;
    const { pricing } = deps;
    const spender = { dialect, asked, record, request, ticket, pricing };
    const ask = async (candidate: Target, asking: Asking): Promise<Outcome> => {
      target = candidate;
      const { body, headers } = request;
      const { createdAt } = record;
      const { sight } = request.caller;
      const input: PlanInput = {
        asked: heardOf,
        body,
        headers,
        target: candidate,
        sight,
        record,
        ticket: admitted,
        createdAt,
      };
      const background = dialect.background?.(input);
      if (promise !== undefined && background === undefined)
        throw refusals.backgroundElsewhere(candidate.provider.name);
      const plan = await dialect.plan(input);
      if (promise === undefined && background !== undefined) {
        promise = newPromise(background, { dialect, asked: heardOf, target: candidate, record });
        client = await promiseResponse(promise, { request, client, asked: heardOf }, deps.detached);
      }
      return attempts({
        plan,
        target: candidate,
        record,
        client,
        ...asking,
        requestId: request.requestId,
        stream: heardOf.stream,
        ...deps.resilienceOf(candidate.provider.name),
        retriesRateLimits: promise !== undefined,
        recordBeforeCall: deps.recordBeforeCall,
        keepBodies: deps.capture === 'full',
        maxAnswerBytes: deps.maxAnswerBytes,
        random: deps.random,
        wait: deps.wait,
        answerHeaders: (reply) => answerHeaders(spender, reply),
        spent: (relay, failedAttempt) => noteSpending(spender, candidate, relay, { isPartial: false, failedAttempt }),
      });
    };
    const attemptsBefore = begun?.attempts ?? 0;
    const answering = await askInTurn(route, { ticket, attemptsBefore, elapsed: () => record.elapsed(), ask });
    ({ target, outcome } = answering);
    const keepBodies = deps.capture === 'full';
    const { open, archive, log, responseNotStored } = deps;
    const exchange = { ...spender, target, client, keepBodies, promise, open, archive, log, responseNotStored };
    status = await settle(outcome, exchange);
    ticket.settle(true);
  } catch (error) {
    ticket?.settle(false);
    if (outcome !== undefined && asked !== undefined && error instanceof LogUnavailable && dialect.keeps?.(asked)) {
      deps.responseNotStored(target?.provider);
    }
    status = await refuse(run, client, error, promise, deps);
  }
  deps.open.over(record.stream);
  if (promise !== undefined) deps.detached.over(promise.id);
  conclude(run, { asked, target, outcome, status }, deps);
}

/** The request is noted, whatever is to be said about it. @throws Refusal */
function heard({ dialect, request, record }: Run, read: ReadResult, deps: ExchangeDependencies): Asked {
  if (read.ok) request.sessionId ??= deps.sessions?.inBody(read.asked.json, request.caller.userPath);
  noteReceived(record, dialect, request, read, deps.capture);
  if (!read.ok) throw read.refusal;
  // What is passed through is for its provider to judge.
  const refusal = dialect.name === 'passthrough' ? undefined : limitsRefusal(dialect.endpoint, read.asked.json);
  if (refusal !== undefined) throw refusal;
  return read.asked;
}

function conclude(
  { dialect, record }: Run,
  end: { asked: Asked | undefined; target?: Target | undefined; outcome?: Outcome | undefined; status: number },
  deps: ExchangeDependencies,
): void {
  const { asked, target, outcome, status } = end;
  const answered = outcome === undefined || outcome.kind === 'refused' ? undefined : outcome;
  deps.ended({
    endpoint: dialect.endpoint,
    provider: target?.provider.name,
    model: target?.model || undefined,
    status,
    stream: asked?.stream ?? false,
    durationMs: record.elapsed(),
    firstByteMs: answered?.received.firstByteMs,
    usage: answered?.relay.usage(),
  });
}

function contextOf(request: ModelRequest) {
  const { caller, requestId, traceparent } = request;
  return { actor: caller.actor, userPath: caller.userPath, requestId, traceparent };
}

function noteReceived(
  record: ExchangeRecord,
  dialect: ExchangeDialect,
  request: ModelRequest,
  read: ReadResult,
  capture: 'full' | 'metadata',
): void {
  const { method, path, headers, clientIp, caller, labels, sessionId, body } = request;
  const { model, stream } = read.ok ? read.asked : { model: undefined, stream: false };
  record.noteReceived(
    requestReceived.create(
      {
        dialect: dialect.name,
        method,
        path,
        headers,
        model: model || undefined,
        stream,
        clientIp,
        authMethod: caller.authMethod,
        capture,
        labels,
        sessionId,
      },
      record.context,
      capture === 'full' && (dialect.take === undefined || body.length > 0) ? body : undefined,
    ),
  );
}

/** @throws Refusal when nobody is to be asked */
function findRoute(run: Run, asked: Asked, deps: ExchangeDependencies): Route | Promise<Route> {
  const { dialect, request, record } = run;
  const chosen = dialect.target?.(asked);
  if (chosen !== undefined) return chosen instanceof Promise ? chosen.then(oneTarget) : oneTarget(chosen);
  const { caller, labels, sessionId } = request;
  const { model: selector, provider, stream } = asked;
  const found = deps.router.route({ selector, provider, caller, labels, sessionId, stream });
  const noted = (route: Route) => noteRoute(record, asked, route);
  return found instanceof Promise ? found.then(noted) : noted(found);
}

function noteRoute(record: ExchangeRecord, asked: Asked, route: Route): Route {
  const { candidates, through } = route;
  const [first] = candidates;
  if (first === undefined) throw refusals.modelNotFound(asked.model);
  const { provider, model } = first;
  record.note(
    modelResolved.create(
      {
        requested: asked.model,
        provider: provider.name,
        providerType: provider.type,
        model,
        ...(through.length === 0 ? {} : { through }),
      },
      record.context,
    ),
  );
  return route;
}

function admissionOf({ dialect, request, record }: Run, asked: Asked, { candidates }: Route) {
  const { caller, labels, body } = request;
  return {
    caller,
    labels,
    endpoint: dialect.endpoint,
    asked,
    candidates,
    units: dialect.units?.(asked),
    bodyBytes: body.length,
    exchangeId: record.id,
  };
}

async function refuse(
  { dialect, record, request }: Run,
  client: Client,
  error: unknown,
  promise: PromisedResponse | undefined,
  deps: ExchangeDependencies,
): Promise<number> {
  const refusal = refusalOf(error, record);
  if (refusal.type === 'internal_error' && refusal.status === 500) deps.failed(error);
  if (!record.flushed && isOfRequest(refusal)) {
    const refused = { caller: request.caller, endpoint: dialect.endpoint, durationMs: record.elapsed() };
    if (!deps.refused.recordsAlone(refused, refusal)) {
      client.refuse(refusal, { 'x-request-id': request.requestId });
      return refusal.status;
    }
  }
  const { reason } = client.ended;
  // What was promised, and not refused for its own sake, is made another time.
  const isForNextStart = promise !== undefined && reason === 'gateway_stopping';
  if (refusal.code === 'log_unavailable' || isForNextStart) {
    if (record.flushed) deps.open.leftOpen(record.stream);
  } else {
    if (!record.flushed || error instanceof Refusal) events.noteRefused(record, refusal);
    else events.noteFailed(record, refusal, { status: refusal.status, reason: 'internal_error', chunks: 0 });
    if (promise !== undefined)
      noteOutcome(promise, reason === 'cancelled' ? 'cancelled' : 'failed', refusal, undefined);
    try {
      await record.flush('durable');
    } catch (lost) {
      deps.open.leftOpen(record.stream);
      return tell({ record, request, client }, refusalOf(lost, record));
    }
  }
  return tell({ record, request, client }, refusal);
}

function refusalOf(error: unknown, { called }: ExchangeRecord): Refusal {
  if (error instanceof Refusal) return error;
  // Nothing of ours recurses but over what a client sent.
  if (error instanceof RangeError && error.message.includes('call stack')) return refusals.nestedTooDeeply();
  if (!(error instanceof LogUnavailable)) return refusals.internal(error);
  return called ? refusals.answerNotRecorded(error) : refusals.logUnavailable(error);
}
