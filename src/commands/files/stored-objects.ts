/** The operations on a file or a batch at a provider: retrieve, delete, cancel. */
import { fileDeleted } from '../../events/catalogue/files.ts';
import { type EventContext, streamName } from '../../events/event.ts';
import { type EventLog, WrongExpectedRevision } from '../../events/log.ts';
import type { Provider } from '../../providers/provider.ts';
import type { DeferredUsage } from '../deferred/deferred-usage.ts';
import { isRouteMissing, notServed } from '../model-request/forward-operations.ts';
import { askProvider } from '../provider-objects/ask-provider.ts';
import {
  batches,
  files,
  isObjectId,
  type ObjectKind,
  type TrackedObject,
  type TrackedObjects,
  trackingWrite,
} from '../provider-objects/tracked.ts';
import { Refusal } from '../refusal.ts';
import { everything, type Sight } from '../visibility.ts';
import type { BatchInputRules } from './batch-input.ts';
import { ableProvider, candidates, type Providers } from './holders.ts';

export interface ObjectDependencies {
  readonly log: EventLog;
  readonly tracked: TrackedObjects;
  readonly providers: Providers;
  readonly deferred: Pick<DeferredUsage, 'settleBatch'>;
  readonly forecast: BatchInputRules['forecast'];
}

export interface ObjectRequest {
  readonly context: EventContext;
  readonly sight: Sight;
  readonly requestId: string;
  /** The `provider` query parameter: the provider of an object that was not created through this gateway. */
  readonly provider: string | undefined;
  readonly signal: AbortSignal;
}

export interface Holder {
  readonly provider: Provider;
  /** Undefined for an object that was not created through this gateway. */
  readonly tracked: TrackedObject | undefined;
  /** The object, when it was fetched to find its provider. */
  readonly object?: Record<string, unknown>;
}

/**
 * The provider of an object: the recorded one, else the one that the caller names, else the first candidate that has
 * it.
 * @throws Refusal when no provider has it, or the caller may not see it
 */
export async function holderOf(
  kind: ObjectKind,
  id: string,
  request: ObjectRequest,
  deps: ObjectDependencies,
): Promise<Holder> {
  const tracked = await remembered(kind, id, request.sight, deps);
  if (tracked !== undefined) {
    const provider = deps.providers.named(tracked.provider);
    if (provider === undefined) throw kind.notFound(id);
    return { provider, tracked };
  }
  if (request.provider !== undefined) {
    return { provider: ableProvider(kind, request.provider, deps.providers), tracked };
  }
  for (const provider of candidates(kind, deps.providers)) {
    try {
      const object = await askProvider(provider, question('GET', kind, id, '', request));
      if (object !== undefined) return { provider, tracked, object };
    } catch (error) {
      // The caller did not name this provider, so its failure does not decide whether the object exists.
      if (!(error instanceof Refusal)) throw error;
    }
  }
  throw kind.notFound(id);
}

/**
 * The recorded facts of an object; undefined when there are none but a provider may have it.
 * @throws Refusal when the caller may not see it, or it was deleted
 */
export async function remembered(
  kind: ObjectKind,
  id: string,
  sight: Sight,
  { tracked }: Pick<ObjectDependencies, 'tracked'>,
): Promise<TrackedObject | undefined> {
  const found = await tracked.find(kind.name, id, sight);
  if (found === undefined && !(await tracked.mayBeOnlyAtProvider(kind.name, id, sight))) throw kind.notFound(id);
  return found;
}

/** @throws Refusal */
export async function retrieveObject(
  kind: ObjectKind,
  id: string,
  request: ObjectRequest,
  deps: ObjectDependencies,
): Promise<object> {
  const holder = await holderOf(kind, id, request, deps);
  const object = holder.object ?? (await requestObject('GET', kind, id, '', holder, request));
  return presentObject(kind, object, holder, request, deps);
}

/** @throws Refusal */
export async function cancelBatch(id: string, request: ObjectRequest, deps: ObjectDependencies): Promise<object> {
  const holder = await holderOf(batches, id, request, deps);
  const object = await requestObject('POST', batches, id, '/cancel', holder, request);
  return presentObject(batches, object, holder, request, deps);
}

/** @throws Refusal */
export async function deleteFile(id: string, request: ObjectRequest, deps: ObjectDependencies): Promise<object> {
  const { provider, tracked } = await holderOf(files, id, request, deps);
  const deleted = await askProvider(provider, question('DELETE', files, id, '', request));
  if (tracked === undefined) {
    if (deleted === undefined) throw files.notFound(id);
    return deleted;
  }
  // A file that no longer exists counts as deleted.
  const events = [fileDeleted.create({}, request.context)];
  try {
    await deps.log.append([{ stream: streamName('file', id), events, expectedRevision: tracked.revision }]);
  } catch (error) {
    if (!(error instanceof WrongExpectedRevision)) throw error;
  }
  return deleted ?? { id, object: 'file', deleted: true };
}

async function requestObject(
  method: 'GET' | 'POST',
  kind: ObjectKind,
  id: string,
  below: string,
  { provider, tracked }: Holder,
  request: ObjectRequest,
): Promise<Record<string, unknown>> {
  let found: Record<string, unknown> | undefined;
  try {
    found = await askProvider(provider, question(method, kind, id, below, request));
  } catch (error) {
    const isKnown = provider.capabilities.serves !== undefined || tracked !== undefined;
    if (!isKnown && error instanceof Refusal && isRouteMissing(error, id)) throw notServed(kind);
    throw error;
  }
  if (found === undefined) throw kind.notFound(id);
  return found;
}

function question(
  method: 'GET' | 'POST' | 'DELETE',
  kind: ObjectKind,
  id: string,
  below: string,
  { requestId, signal }: ObjectRequest,
) {
  return { method, path: `${kind.endpoint}/${encodeURIComponent(id)}${below}`, requestId, signal };
}

/**
 * The object as the client gets it. A batch's result files belong to the owner of the batch, which is recorded before
 * the client learns their ids.
 */
async function presentObject(
  kind: ObjectKind,
  object: Record<string, unknown>,
  { provider, tracked }: Holder,
  request: ObjectRequest,
  deps: ObjectDependencies,
): Promise<object> {
  const { context } = request;
  // The usage is recorded before the client can have the output deleted.
  if (kind.name === 'batch') await deps.deferred.settleBatch(provider, object, request);
  if (kind.name === 'batch' && tracked !== undefined) {
    for (const id of [object.output_file_id, object.error_file_id]) {
      if (typeof id !== 'string' || !isObjectId(id)) continue;
      if ((await deps.tracked.find('file', id, everything)) !== undefined) continue;
      await deps.log.append([trackingWrite('file', id, provider, { owner: tracked }, context)]);
    }
  }
  return { ...object, provider: provider.name };
}
