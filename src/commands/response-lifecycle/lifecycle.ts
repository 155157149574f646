/** The operations on a stored response: retrieve, list its input, cancel, delete. */
import { answerCached, cacheHit } from '../../events/catalogue/cache.ts';
import { exchangeEnds } from '../../events/catalogue/exchange.ts';
import { responseCancelRequested, responseDeleted } from '../../events/catalogue/response.ts';
import { type EventContext, idOf, type Position, type StreamName, streamName } from '../../events/event.ts';
import { type EventLog, type StreamWrite, WrongExpectedRevision } from '../../events/log.ts';
import { parseExactly } from '../../json/exact-json.ts';
import type { Provider, ReplyBody } from '../../providers/provider.ts';
import type { ResponseStatus } from '../../providers/translate/chat-to-responses/response-object.ts';
import { type KeyDirectory, recordedCaller } from '../access/key-directory.ts';
import type { ModelAccess, ModelCaller } from '../access/model-access.ts';
import type { DeferredUsage } from '../deferred/deferred-usage.ts';
import { cancellationStream } from '../exchange/background/open-exchange-tracker.ts';
import { outputItemWrites, storedResponseWrite } from '../exchange/record/end-events.ts';
import type { Dialects } from '../exchange/record/read-exchange.ts';
import { isEventStream } from '../model-request/answer-body.ts';
import { askProvider, objectIn, type ProviderObjectRequest, replyTo } from '../provider-objects/ask-provider.ts';
import { Refusal, refusals } from '../refusal.ts';
import type { ResponseArchive, StoredResponse } from '../responses/archive.ts';
import { isPending, type StorableResponse, statusOf } from '../responses/storable-response.ts';
import { contextFor, everything, type VisibilityScope } from '../visibility.ts';
import { relayedStream, streamResponse } from './stream-response.ts';

export interface LifecycleDependencies {
  readonly log: EventLog;
  readonly archive: ResponseArchive;
  readonly keys: Pick<KeyDirectory, 'byId'>;
  readonly dialects: Dialects;
  provider(nameOrType: string): Provider | undefined;
  /** Every configured provider, in order. */
  providers(): readonly Provider[];
  readonly access: Pick<ModelAccess, 'allowsProvider'>;
  readonly deferred: Pick<DeferredUsage, 'responseSeen' | 'find' | 'settleAtEstimate'>;
  /**
   * Ends a background response that this gateway generates. Resolves when its end is recorded; undefined when it does
   * not generate it.
   */
  cancelRunning(id: string): Promise<void> | undefined;
  /** Whether other gateways use the log, which may generate a response. */
  hasOtherGateways(): boolean;
  /** Resolves when the index of the response cache has processed everything up to the position. Undefined without a cache. */
  whenCacheProcessed?: ((position: Position) => Promise<void>) | undefined;
  /** How long another gateway may take to end a response, in milliseconds: longer than a takeover. */
  readonly endElsewhereMs: number;
}

export interface LifecycleRequest {
  readonly id: string;
  /** The `provider` query parameter: the provider of a response that is not stored here. */
  readonly provider: string | undefined;
  /** The other query parameters, passed on to a provider. */
  readonly query: string;
  readonly requestId: string;
  readonly context: EventContext;
  readonly caller: ModelCaller & { readonly visibility: VisibilityScope };
  readonly signal: AbortSignal;
}

/** The bytes of an event stream. */
export type EventStream = AsyncIterable<Buffer> | Pick<ReplyBody, 'pieces'>;

/** @throws Refusal */
export async function retrieveResponse(request: LifecycleRequest, deps: LifecycleDependencies): Promise<object> {
  const stored = await load(request, deps);
  if (stored !== undefined) return isPending(stored) ? refreshed(stored, request, deps) : stored.response;
  return askNatively('GET', '', request, deps, 'Native retrieval of responses is not available for this provider.');
}

/**
 * The provider's current state of a response that had not ended; once it has ended, that state is stored. If the
 * provider cannot be reached, the stored snapshot is returned unchanged.
 */
async function refreshed(
  stored: StoredResponse,
  request: LifecycleRequest,
  deps: LifecycleDependencies,
): Promise<object> {
  const provider = stored.native ? deps.provider(stored.provider) : undefined;
  if (provider === undefined) return stored.response;
  let found: Record<string, unknown> | undefined;
  try {
    found = await callAboutResponse(provider, 'GET', '', request);
  } catch (error) {
    if (error instanceof Refusal) return stored.response;
    throw error;
  }
  return found === undefined ? stored.response : keepIfEnded(stored, found, request, deps);
}

/** Stores a response as its own provider returned it, if it has ended. @returns the response for the client */
export async function keepIfEnded(
  stored: StoredResponse,
  found: Readonly<Record<string, unknown>>,
  request: Pick<LifecycleRequest, 'context'>,
  deps: KeepDependencies,
): Promise<object> {
  const response = {
    ...found,
    id: stored.id,
    object: 'response',
    previous_response_id: found.previous_response_id ?? stored.previousResponseId,
    conversation: stored.response.conversation,
  };
  const status = statusOf(found);
  return status === undefined || isPending({ status }) ? response : keep(stored, status, response, request, deps);
}

/** The dependencies for storing the end of a response. */
export type KeepDependencies = Pick<LifecycleDependencies, 'archive' | 'keys' | 'dialects' | 'deferred'>;

/** Stores the final state of a response, as its provider returned it. @returns the stored response */
async function keep(
  stored: StoredResponse,
  status: ResponseStatus,
  response: Readonly<Record<string, unknown>>,
  request: Pick<LifecycleRequest, 'context'>,
  deps: KeepDependencies,
): Promise<object> {
  const { previousResponseId, exchangeId, model, providerType, native } = stored;
  const storable: StorableResponse = { id: stored.id, status, json: JSON.stringify(response) };
  const { context } = request;
  const inputItems = JSON.stringify(stored.inputItems);
  const facts = { provider: stored.provider, providerType, model, native, previousResponseId, inputItems };
  // The owner of the response stays the same, whichever caller retrieves it.
  const write = storedResponseWrite(storable, facts, { exchangeId, owner: stored }, context);
  const others = [...outputItemWrites(storable, stored, context), ...(await turnOf(stored, storable, context, deps))];
  try {
    const writes = [{ ...write, expectedRevision: stored.revision }, ...others];
    await deps.deferred.responseSeen(stored.provider, stored.id, response, writes);
  } catch (error) {
    // Another request recorded the end first; its version is kept.
    if (!(error instanceof WrongExpectedRevision)) throw error;
    return (await deps.archive.find(stored.id, everything))?.response ?? response;
  }
  return response;
}

/** The turn that an ended response adds to its conversation. */
async function turnOf(
  stored: StoredResponse,
  storable: StorableResponse,
  context: EventContext,
  { dialects, keys }: Pick<LifecycleDependencies, 'dialects' | 'keys'>,
): Promise<readonly StreamWrite[]> {
  const json = { conversation: stored.response.conversation, input: stored.inputItems };
  const { visibility } = recordedCaller(stored, keys);
  const by = { id: stored.exchangeId, context: contextFor(stored, context), visibility };
  return (await dialects.get('responses')?.turn?.({ json }, { response: () => storable }, by)) ?? [];
}

/** The stored items, or the provider's own list when the response is not stored here. @throws Refusal */
export async function inputItemsOf(
  request: LifecycleRequest,
  deps: LifecycleDependencies,
): Promise<{ stored: StoredResponse['inputItems'] } | { native: object }> {
  const stored = await load(request, deps);
  if (stored !== undefined) return { stored: stored.inputItems };
  const refusal = 'Native retrieval of input items is not available for this provider.';
  return { native: await askNatively('GET', '/input_items', request, deps, refusal) };
}

/** @throws Refusal */
export async function deleteResponse(request: LifecycleRequest, deps: LifecycleDependencies): Promise<object> {
  const { id, context } = request;
  const stored = await load(request, deps);
  if (stored === undefined) {
    return askNatively('DELETE', '', request, deps, 'Native deletion of responses is not available for this provider.');
  }
  // A deleted response cannot be retrieved, so its generation ends.
  await endGeneration(stored, request, deps);
  await endBeforeDeletion(stored, request, deps);
  const provider = stored.native ? deps.provider(stored.provider) : undefined;
  // A response that the provider no longer has counts as deleted; any other error is returned before the stored
  // response is deleted.
  if (provider !== undefined) await callAboutResponse(provider, 'DELETE', '', request);
  const cached = await cachedAnswerOf(stored.exchangeId, deps.log);
  const events = [responseDeleted.create(cached === undefined ? {} : { cached }, context)];
  try {
    const write = { stream: streamName('response', id), events, expectedRevision: stored.revision };
    const { position } = await deps.log.append([write]);
    if (cached !== undefined) await deps.whenCacheProcessed?.(position);
  } catch (error) {
    if (error instanceof WrongExpectedRevision) return deleteResponse(request, deps);
    throw error;
  }
  return { id, object: 'response', deleted: true };
}

/** The cached answer that the exchange gave or got; the last events of the exchange name it. */
async function cachedAnswerOf(exchangeId: string, log: Pick<EventLog, 'readStream'>) {
  const last = log.readStream(streamName('exchange', exchangeId), { direction: 'backwards', maxCount: LAST_EVENTS });
  for await (const { type, data } of last) {
    if (type === answerCached.type) return { digest: answerCached.data.parse(data).digest, exchangeId };
    if (type === cacheHit.type) {
      const hit = cacheHit.data.parse(data);
      return { digest: hit.digest, exchangeId: hit.exchangeId };
    }
  }
  return undefined;
}

/** `cache.stored` and `cache.hit` are in the append of the end of their exchange. */
const LAST_EVENTS = 32;

/**
 * Ends a background response early. One that has ended is returned unchanged.
 * @throws Refusal
 */
export async function cancelResponse(request: LifecycleRequest, deps: LifecycleDependencies): Promise<object> {
  for (;;) {
    const stored = await load(request, deps);
    if (stored === undefined) {
      const refusal = 'Native cancellation of responses is not available for this provider.';
      return askNatively('POST', '/cancel', request, deps, refusal);
    }
    if (stored.response.background !== true) throw refusals.notCancellable();
    if (!isPending(stored)) return stored.response;
    if (stored.native) return cancelNatively(stored, request, deps);
    // The result is read again: recording the end may have failed, or the response may just have been resumed.
    if (await endGeneration(stored, request, deps)) continue;
    await keep(stored, 'cancelled', { ...stored.response, status: 'cancelled', completed_at: null }, request, deps);
  }
}

/**
 * Ends the generation of a response, here or in another gateway.
 * @returns whether it was generated until now
 * @throws Refusal when another gateway does not end it
 */
async function endGeneration(
  stored: StoredResponse,
  { context }: LifecycleRequest,
  { log, cancelRunning, hasOtherGateways, endElsewhereMs }: LifecycleDependencies,
): Promise<boolean> {
  const here = cancelRunning(stored.id);
  if (here !== undefined) {
    await here;
    return true;
  }
  const isElsewhere = hasOtherGateways() && stored.response.background === true && isPending(stored) && !stored.native;
  return isElsewhere && (await cancelElsewhere(stored, context, log, endElsewhereMs));
}

async function cancelNatively(
  stored: StoredResponse,
  request: LifecycleRequest,
  deps: LifecycleDependencies,
): Promise<object> {
  const provider = deps.provider(stored.provider);
  const found = provider === undefined ? undefined : await callAboutResponse(provider, 'POST', '/cancel', request);
  if (found === undefined) throw refusals.responseNotFound(stored.id);
  return keepIfEnded(stored, found, request, deps);
}

/** Ends the work before the deletion, because its cost is known only as long as its provider has it. */
async function endBeforeDeletion(
  stored: StoredResponse,
  request: LifecycleRequest,
  deps: LifecycleDependencies,
): Promise<void> {
  if (deps.deferred.find('response', stored.provider, stored.id) === undefined) return;
  try {
    await cancelNatively(stored, request, deps);
  } catch (error) {
    // The response may just have ended, or its provider cannot be reached.
    if (!(error instanceof Refusal)) throw error;
    await refreshed(stored, request, deps);
  }
  const work = deps.deferred.find('response', stored.provider, stored.id);
  if (work !== undefined) await deps.deferred.settleAtEstimate(work, 'deleted');
}

/** The stored response; undefined when a provider may have it. @throws Refusal (404) */
async function load(request: LifecycleRequest, deps: LifecycleDependencies): Promise<StoredResponse | undefined> {
  const { id, caller } = request;
  const stored = await deps.archive.find(id, caller.visibility);
  if (stored === undefined && !(await deps.archive.mayBeOnlyAtProvider(id, caller.visibility))) {
    throw refusals.responseNotFound(id);
  }
  return stored;
}

/**
 * The response as a stream, from the record, or from its provider when only the provider has it.
 * @param after the sequence number after which events are returned; -1 for all events
 * @throws Refusal
 */
export async function openResponseStream(
  request: LifecycleRequest,
  after: number,
  deps: LifecycleDependencies,
): Promise<EventStream> {
  const stored = await load(request, deps);
  const streamed = { ...question('GET', '', request), accept: 'text/event-stream' };
  const provider = stored?.native === true && isPending(stored) ? deps.provider(stored.provider) : undefined;
  if (provider !== undefined) {
    const reply = await replyTo(streamed, provider);
    if (reply.status === 200 && isEventStream(reply.headers)) {
      return relayedStream(reply.body, provider, request.signal);
    }
    reply.body.cancel();
  }
  if (stored !== undefined) return streamResponse(stored, after, deps, request.signal);
  const unsupported = 'Native retrieval of responses is not available for this provider.';
  return findAtProviders(request, deps, unsupported, async (one) => {
    const reply = await replyTo(streamed, one);
    if (reply.status === 200 && isEventStream(reply.headers)) return relayedStream(reply.body, one, request.signal);
    await objectIn(reply, one);
    return undefined;
  });
}

async function askNatively(
  method: ProviderObjectRequest['method'],
  path: string,
  request: LifecycleRequest,
  deps: LifecycleDependencies,
  unsupported: string,
): Promise<object> {
  return findAtProviders(request, deps, unsupported, (one) => callAboutResponse(one, method, path, request));
}

/**
 * Queries the named provider, or in turn each provider that keeps responses. The failure of a provider that was not
 * named is ignored, because the caller did not select it.
 * @throws Refusal (404) when none has it
 */
async function findAtProviders<Found>(
  request: LifecycleRequest,
  deps: LifecycleDependencies,
  unsupported: string,
  ask: (provider: Provider) => Promise<Found | undefined>,
): Promise<Found> {
  const isNamed = request.provider !== undefined && request.provider !== '';
  for (const provider of nativeProviders(request, deps, unsupported)) {
    try {
      const found = await ask(provider);
      if (found !== undefined) return found;
    } catch (error) {
      if (isNamed || !(error instanceof Refusal)) throw error;
    }
  }
  throw refusals.responseNotFound(request.id);
}

/**
 * The providers that may have a response that is not recorded here. @throws Refusal when the named provider cannot
 * have it
 */
function nativeProviders(
  { provider: name, caller }: LifecycleRequest,
  deps: LifecycleDependencies,
  unsupported: string,
): readonly Provider[] {
  const keeps = ({ capabilities }: Provider) => capabilities.responseLifecycle === 'yes';
  const mayUse = (provider: Provider) => deps.access.allowsProvider(caller, provider.name, 'any');
  if (name === undefined || name === '') return deps.providers().filter((one) => keeps(one) && mayUse(one));
  const provider = deps.provider(name);
  if (provider === undefined) throw refusals.unknownProvider(name);
  if (!mayUse(provider)) throw refusals.providerAccessDenied(name);
  if (!keeps(provider)) throw refusals.unsupportedOperation(unsupported);
  return [provider];
}

/** Undefined when the provider does not have it. @throws Refusal */
export async function callAboutResponse(
  provider: Provider,
  method: ProviderObjectRequest['method'],
  path: string,
  request: Pick<LifecycleRequest, 'id' | 'query' | 'requestId' | 'signal'>,
) {
  const answer = await askProvider(provider, question(method, path, request));
  const found = answer?.status === 'failed' ? withoutCredentials(answer, provider) : answer;
  return found?.object === 'response' && found.deleted === undefined ? { ...found, provider: provider.name } : found;
}

/** Some providers repeat the credential in their error messages. */
function withoutCredentials(response: Record<string, unknown>, provider: Provider): Record<string, unknown> {
  const text = JSON.stringify(response);
  const clean = provider.redact(text);
  return clean === text ? response : (parseExactly(clean) as Record<string, unknown>);
}

function question(
  method: ProviderObjectRequest['method'],
  path: string,
  request: Pick<LifecycleRequest, 'id' | 'query' | 'requestId' | 'signal'>,
): ProviderObjectRequest {
  const { id, query, requestId, signal } = request;
  return { method, path: `/v1/responses/${encodeURIComponent(id)}${path}${query}`, requestId, signal };
}

// Cancelling a background response that another gateway generates: by an event, which that gateway follows.

/**
 * Asks the gateway that generates the response to end it, and waits for the end. One that takes over from a gateway that has
 * ended does so as well.
 * @param waitMs longer than a takeover
 * @returns whether it was generated until now; false when its exchange has ended already
 * @throws Refusal when it does not end
 */
export async function cancelElsewhere(
  { id, exchangeId }: Pick<StoredResponse, 'id' | 'exchangeId'>,
  context: EventContext,
  log: EventLog,
  waitMs: number,
): Promise<boolean> {
  const exchange = streamName('exchange', exchangeId);
  const after = await log.head();
  if (await hasEnded(exchange, log)) return false;
  const events = [responseCancelRequested.create({}, context)];
  await log.append([{ stream: cancellationStream(id), events, expectedRevision: 'any' }]);
  const signal = AbortSignal.timeout(waitMs);
  const filter = { streams: [exchange], types: [...exchangeEnds] };
  for await (const { type } of log.subscribe({ after, filter, signal })) {
    if (type !== '$caughtUp') return true;
  }
  throw refusals.notCancelledYet();
}

async function hasEnded(exchange: StreamName, log: EventLog): Promise<boolean> {
  for await (const { type } of log.readStream(exchange, { direction: 'backwards' })) {
    if (exchangeEnds.has(type)) return true;
  }
  return false;
}

/** Ends the responses that clients of other gateways cancel. Runs until the signal is aborted. */
export async function followCancellations(
  log: EventLog,
  cancel: (responseId: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const filter = { types: [responseCancelRequested.type] };
  for await (const item of log.subscribe({ after: await log.head(), filter, signal })) {
    if (item.type !== '$caughtUp' && 'stream' in item) cancel(idOf(item.stream));
  }
}
