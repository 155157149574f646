/** The operations on a batch of messages, whichever API its provider has: retrieve, cancel, delete, read results. */
import { batchDeleted } from '../../events/catalogue/files.ts';
import { streamName } from '../../events/event.ts';
import { WrongExpectedRevision } from '../../events/log.ts';
import type { Provider } from '../../providers/provider.ts';
import { outcomeIn } from '../deferred/work-end.ts';
import { askProvider } from '../provider-objects/ask-provider.ts';
import { resultFiles } from '../provider-objects/batch-files.ts';
import {
  batchKindOf,
  files,
  messageBatches,
  type ObjectKind,
  type TrackedObject,
} from '../provider-objects/tracked.ts';
import { refusals } from '../refusal.ts';
import { seesEverything } from '../visibility.ts';
import { mayServe } from './holders.ts';
import { type MessageBatch, messageBatchOf, providersIds } from './message-batch-object.ts';
import { type MessageResult, messageResults } from './message-results.ts';
import type { ObjectDependencies, ObjectRequest } from './stored-objects.ts';

/** A batch as its provider returns it now. */
export interface HeldBatch {
  readonly provider: Provider;
  readonly kind: ObjectKind;
  /** The provider's own id. */
  readonly id: string;
  /** Undefined for a batch that was not created through this gateway. */
  readonly tracked: TrackedObject | undefined;
  readonly batch: Readonly<Record<string, unknown>>;
}

/** @throws Refusal 404, also for a batch that `/v1/batches` created at a provider with OpenAI's API */
export async function retrieveMessageBatch(
  id: string,
  request: ObjectRequest,
  deps: ObjectDependencies,
): Promise<MessageBatch> {
  const { kind, batch } = await heldBatch(id, request, deps);
  return messageBatchOf(kind, batch);
}

/** @throws Refusal */
export async function cancelMessageBatch(
  id: string,
  request: ObjectRequest,
  deps: ObjectDependencies,
): Promise<MessageBatch> {
  const { kind, provider, id: own } = await holderOfBatch(id, request, deps);
  const path = `${kind.endpoint}/${encodeURIComponent(own)}/cancel`;
  const batch = await askProvider(provider, { method: 'POST', path, ...callContext(request) });
  if (batch === undefined) throw kind.notFound(id);
  await deps.deferred.settleBatch(provider, batch, request);
  return messageBatchOf(kind, batch);
}

/**
 * Deletes a batch that is over. A provider with OpenAI's API keeps its batches: there only the files are deleted.
 * @throws Refusal, 400 while it is not over
 */
export async function deleteMessageBatch(
  id: string,
  request: ObjectRequest,
  deps: ObjectDependencies,
): Promise<object> {
  const { kind, provider, id: own, tracked, batch } = await heldBatch(id, request, deps);
  if (outcomeIn(batch) === undefined) {
    const message = `The batch '${id}' has not ended. Cancel it first, and delete it when it has ended.`;
    throw refusals.invalidRequest(message, null, 'batch_not_ended');
  }
  const paths =
    kind === messageBatches
      ? [`${kind.endpoint}/${encodeURIComponent(own)}`]
      : [batch.input_file_id, batch.output_file_id, batch.error_file_id]
          .filter((file) => typeof file === 'string')
          .map((file) => `${files.endpoint}/${encodeURIComponent(file)}`);
  // A file that no longer exists counts as deleted.
  for (const path of paths) await askProvider(provider, { method: 'DELETE', path, ...callContext(request) });
  if (tracked !== undefined) {
    const events = [batchDeleted.create({}, request.context)];
    try {
      await deps.log.append([{ stream: streamName('batch', own), events, expectedRevision: tracked.revision }]);
    } catch (error) {
      if (!(error instanceof WrongExpectedRevision)) throw error;
    }
  }
  return { id, type: 'message_batch_deleted' };
}

/** The result of each request. @throws Refusal 404, or 409 while the batch is not over */
export async function messageBatchResults(
  id: string,
  request: ObjectRequest,
  deps: ObjectDependencies,
  noteRead: () => Promise<void>,
): Promise<AsyncIterable<MessageResult>> {
  const held = await heldBatch(id, request, deps);
  if (outcomeIn(held.batch) === undefined) {
    throw refusals.batchNotReady(id, String(held.batch.processing_status ?? held.batch.status ?? 'unknown'));
  }
  await noteRead();
  return messageResults(held, resultFiles(held.kind, held.batch), request);
}

async function heldBatch(id: string, request: ObjectRequest, deps: ObjectDependencies): Promise<HeldBatch> {
  const holder = await holderOfBatch(id, request, deps);
  const { kind, provider, id: own } = holder;
  const path = `${kind.endpoint}/${encodeURIComponent(own)}`;
  const batch = holder.batch ?? (await askProvider(provider, { method: 'GET', path, ...callContext(request) }));
  if (batch === undefined) throw kind.notFound(id);
  // The usage is recorded before the client can have the output deleted.
  await deps.deferred.settleBatch(provider, { ...batch, id: own }, request);
  return { kind, provider, id: own, tracked: holder.tracked, batch };
}

interface Holder extends Omit<HeldBatch, 'batch'> {
  /** The batch, when it was fetched to find its provider. */
  readonly batch?: Readonly<Record<string, unknown>>;
}

/**
 * The provider of a batch: from the log; for callers who see everything, also by querying the providers with
 * Anthropic's API.
 */
async function holderOfBatch(id: string, request: ObjectRequest, deps: ObjectDependencies): Promise<Holder> {
  const { tracked: records, providers } = deps;
  for (const own of providersIds(id)) {
    const tracked = await records.find('batch', own, request.sight);
    if (tracked === undefined) continue;
    const provider = providers.named(tracked.provider);
    if (provider === undefined) break;
    const kind = batchKindOf(provider);
    if (kind !== messageBatches && tracked.dialect !== 'messages') break;
    return { provider, kind, id: own, tracked };
  }
  if (!seesEverything(request.sight)) throw messageBatches.notFound(id);
  const named = request.provider === undefined ? undefined : providers.named(request.provider);
  const able = (named === undefined ? providers.all() : [named]).filter(
    (provider) => batchKindOf(provider) === messageBatches && mayServe(provider, messageBatches),
  );
  for (const provider of able) {
    const path = `${messageBatches.endpoint}/${encodeURIComponent(id)}`;
    const batch = await askProvider(provider, { method: 'GET', path, ...callContext(request) });
    if (batch !== undefined) return { provider, kind: messageBatches, id, tracked: undefined, batch };
  }
  throw messageBatches.notFound(id);
}

function callContext({ requestId, signal }: ObjectRequest) {
  return { requestId, signal };
}
