/** What can be done with a response after it was made: fetched, its input listed, deleted. */
import { responseDeleted } from '../../events/catalogue/response.ts';
import { type EventContext, streamName } from '../../events/event.ts';
import { type EventLog, WrongExpectedRevision } from '../../events/log.ts';
import { type Provider, ProviderFailure } from '../../providers/provider.ts';
import { mapUpstreamError } from '../../providers/upstream-error.ts';
import { storedResponseWrite } from '../exchange/end-events.ts';
import { refusalFromFailure, refusalFromUpstream } from '../exchange/refusal-from-upstream.ts';
import { statusOf } from '../exchange/relay.ts';
import { isObject } from '../exchange/usage.ts';
import { Refusal, refusals } from '../refusal.ts';
import type { ResponseArchive, StoredResponse } from './archive.ts';

const MAX_ANSWER_BYTES = 64 * 1024 * 1024;

/** States that only the provider can tell the end of. */
const PENDING: ReadonlySet<string> = new Set(['queued', 'in_progress']);

export interface LifecycleDependencies {
  readonly log: EventLog;
  readonly archive: ResponseArchive;
  provider(nameOrType: string): Provider | undefined;
  /** Every configured provider, in order. */
  providers(): readonly Provider[];
}

export interface LifecycleRequest {
  readonly id: string;
  /** The `provider` query parameter: who is asked for a response that is not stored here. */
  readonly provider: string | undefined;
  /** The other query parameters, passed on to a provider. */
  readonly query: string;
  readonly requestId: string;
  readonly context: EventContext;
  readonly signal: AbortSignal;
}

/** @throws Refusal */
export async function retrieveResponse(request: LifecycleRequest, deps: LifecycleDependencies): Promise<object> {
  const stored = await deps.archive.load(request.id);
  if (stored !== undefined) return PENDING.has(stored.status) ? refreshed(stored, request, deps) : stored.response;
  return askNatively('GET', '', request, deps, 'Native retrieval of responses is not available for this provider.');
}

/**
 * What the provider says of a response that had not ended; once it has, that is kept. A provider that cannot say
 * leaves the stored snapshot as it is.
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
    found = await callProvider(provider, 'GET', '', request);
  } catch (error) {
    if (error instanceof Refusal) return stored.response;
    throw error;
  }
  if (found === undefined) return stored.response;
  const { previousResponseId, exchangeId, model, providerType, native } = stored;
  const response = {
    ...found,
    id: stored.id,
    object: 'response',
    previous_response_id: found.previous_response_id ?? previousResponseId,
  };
  const status = statusOf(found);
  if (status === undefined || PENDING.has(status)) return response;
  const write = storedResponseWrite(
    exchangeId,
    // It still belongs to whoever made it, whoever it is that asks.
    { ...request.context, userPath: stored.userPath },
    { id: stored.id, status, json: JSON.stringify(response) },
    { provider: stored.provider, providerType, model, native, previousResponseId },
    JSON.stringify(stored.inputItems),
  );
  try {
    await deps.log.append([{ ...write, expectedRevision: stored.revision }]);
  } catch (error) {
    // Somebody else was told of its end first: their word stands.
    if (!(error instanceof WrongExpectedRevision)) throw error;
    return (await deps.archive.load(stored.id))?.response ?? response;
  }
  return response;
}

/** The stored items, or the provider's own list when the response is not stored here. @throws Refusal */
export async function inputItemsOf(
  request: LifecycleRequest,
  deps: LifecycleDependencies,
): Promise<{ stored: StoredResponse['inputItems'] } | { native: object }> {
  const stored = await deps.archive.load(request.id);
  if (stored !== undefined) return { stored: stored.inputItems };
  const refusal = 'Native retrieval of input items is not available for this provider.';
  return { native: await askNatively('GET', '/input_items', request, deps, refusal) };
}

/** @throws Refusal */
export async function deleteResponse(request: LifecycleRequest, deps: LifecycleDependencies): Promise<object> {
  const { id, context } = request;
  const stored = await deps.archive.load(id);
  if (stored === undefined) {
    return askNatively('DELETE', '', request, deps, 'Native deletion of responses is not available for this provider.');
  }
  const provider = stored.native ? deps.provider(stored.provider) : undefined;
  // Gone there already is as good as deleted; any other trouble is told before anything is dropped here.
  if (provider !== undefined) await callProvider(provider, 'DELETE', '', request);
  const events = [responseDeleted.create({}, context)];
  try {
    await deps.log.append([{ stream: streamName('response', id), events, expectedRevision: stored.revision }]);
  } catch (error) {
    if (error instanceof WrongExpectedRevision) return deleteResponse(request, deps);
    throw error;
  }
  return { id, object: 'response', deleted: true };
}

/** Asks the named provider, or each that keeps responses in turn. */
async function askNatively(
  method: 'GET' | 'DELETE',
  path: string,
  request: LifecycleRequest,
  deps: LifecycleDependencies,
  unsupported: string,
): Promise<object> {
  const { id, provider: name } = request;
  if (name !== undefined && name !== '') {
    const provider = deps.provider(name);
    if (provider === undefined) throw refusals.unknownProvider(name);
    if (provider.capabilities.responseLifecycle !== 'yes') throw refusals.unsupportedOperation(unsupported);
    const found = await callProvider(provider, method, path, request);
    if (found === undefined) throw refusals.responseNotFound(id);
    return found;
  }
  for (const provider of deps.providers()) {
    if (provider.capabilities.responseLifecycle !== 'yes') continue;
    const found = await callProvider(provider, method, path, request);
    if (found !== undefined) return found;
  }
  throw refusals.responseNotFound(id);
}

/** Undefined when the provider does not have it. */
async function callProvider(
  provider: Provider,
  method: 'GET' | 'DELETE',
  path: string,
  request: LifecycleRequest,
): Promise<Record<string, unknown> | undefined> {
  const { id, query, requestId, signal } = request;
  try {
    const reply = await provider.forward({
      method,
      path: `/responses/${encodeURIComponent(id)}${path}${query}`,
      headers: {},
      requestId,
      signal,
    });
    const body = await reply.body.bytes(MAX_ANSWER_BYTES);
    if (reply.status === 404) return undefined;
    if (reply.status >= 400) {
      const { status, headers } = reply;
      throw refusalFromUpstream(mapUpstreamError({ status, headers, body, provider }));
    }
    const parsed: unknown = JSON.parse(body.toString());
    if (!isObject(parsed)) throw new SyntaxError('not an object');
    return parsed;
  } catch (error) {
    if (error instanceof ProviderFailure) throw refusalFromFailure(error);
    if (error instanceof SyntaxError)
      throw refusals.badAnswer(provider.name, `'${provider.name}' did not answer with JSON.`);
    throw error;
  }
}
