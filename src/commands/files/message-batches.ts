/** The operations on a batch of messages, whichever API its provider has: retrieve, cancel, delete, read results. */
import { batchDeleted } from '../../events/catalogue/response.ts';
import { streamName } from '../../events/event.ts';
import { WrongExpectedRevision } from '../../events/log.ts';
import { isObject } from '../../json/is-object.ts';
import type { Provider } from '../../providers/provider.ts';
import { messageFromChat } from '../../providers/translate/messages-to-chat/stream.ts';
import { outcomeIn } from '../deferred/open-work.ts';
import {
  answerIn,
  askProvider,
  contentPath,
  type FileQuestion,
  type ResultFile,
  readLines,
  resultFiles,
} from '../provider-objects/ask-provider.ts';
import {
  batchKindOf,
  files,
  messageBatches,
  type ObjectKind,
  type TrackedObject,
} from '../provider-objects/tracked.ts';
import { refusals } from '../refusal.ts';
import { seesEverything } from '../visibility.ts';
import { resultLines } from './batch-results.ts';
import { mayServe } from './holders.ts';
import type { ObjectRequest } from './stored-objects.ts';

/** A batch as its provider returns it now. */
interface HeldBatch {
  readonly provider: Provider;
  readonly kind: ObjectKind;
  /** The provider's own id. */
  readonly id: string;
  /** Undefined for a batch that was not created through this gateway. */
  readonly tracked: TrackedObject | undefined;
  readonly batch: Readonly<Record<string, unknown>>;
}

/** @throws Refusal 404, also for a batch that `/v1/batches` created at a provider with OpenAI's API */
export async function retrieveMessageBatch(id: string, request: ObjectRequest): Promise<MessageBatch> {
  const { kind, batch } = await heldBatch(id, request);
  return messageBatchOf(kind, batch);
}

/** @throws Refusal */
export async function cancelMessageBatch(id: string, request: ObjectRequest): Promise<MessageBatch> {
  const { kind, provider, id: own } = await holderOfBatch(id, request);
  const path = `${kind.endpoint}/${encodeURIComponent(own)}/cancel`;
  const batch = await askProvider(provider, { method: 'POST', path, ...callContext(request) });
  if (batch === undefined) throw kind.notFound(id);
  await request.deferred.settleBatch(provider, batch, request);
  return messageBatchOf(kind, batch);
}

/**
 * Deletes a batch that is over. A provider with OpenAI's API keeps its batches: there only the files are deleted.
 * @throws Refusal, 400 while it is not over
 */
export async function deleteMessageBatch(id: string, request: ObjectRequest): Promise<object> {
  const { kind, provider, id: own, tracked, batch } = await heldBatch(id, request);
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
      await request.log.append([{ stream: streamName('batch', own), events, expectedRevision: tracked.revision }]);
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
  noteRead: () => Promise<void>,
): Promise<AsyncIterable<MessageResult>> {
  const held = await heldBatch(id, request);
  if (outcomeIn(held.batch) === undefined) {
    throw refusals.batchNotReady(id, String(held.batch.processing_status ?? held.batch.status ?? 'unknown'));
  }
  await noteRead();
  return messageResults(held, resultFiles(held.kind, held.batch), request);
}

async function heldBatch(id: string, request: ObjectRequest): Promise<HeldBatch> {
  const holder = await holderOfBatch(id, request);
  const { kind, provider, id: own } = holder;
  const path = `${kind.endpoint}/${encodeURIComponent(own)}`;
  const batch = holder.batch ?? (await askProvider(provider, { method: 'GET', path, ...callContext(request) }));
  if (batch === undefined) throw kind.notFound(id);
  // The usage is recorded before the client can have the output deleted.
  await request.deferred.settleBatch(provider, { ...batch, id: own }, request);
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
async function holderOfBatch(id: string, request: ObjectRequest): Promise<Holder> {
  const { tracked: records, providers } = request;
  for (const own of providersIds(id)) {
    const tracked = await records.find('batch', own, request.visibility);
    if (tracked === undefined) continue;
    const provider = providers.named(tracked.provider);
    if (provider === undefined) break;
    const kind = batchKindOf(provider);
    if (kind !== messageBatches && tracked.dialect !== 'messages') break;
    return { provider, kind, id: own, tracked };
  }
  if (!seesEverything(request.visibility)) throw messageBatches.notFound(id);
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

/** A batch in the form of Anthropic's API ("Message Batches"), whichever API its provider has. Pure. */
interface MessageBatch {
  readonly id: string;
  readonly type: 'message_batch';
  readonly processing_status: 'in_progress' | 'canceling' | 'ended';
  readonly request_counts: Readonly<Record<'processing' | 'succeeded' | 'errored' | 'canceled' | 'expired', number>>;
  readonly ended_at: string | null;
  readonly created_at: string;
  readonly expires_at: string;
  readonly archived_at: string | null;
  readonly cancel_initiated_at: string | null;
  readonly results_url: string | null;
  readonly [member: string]: unknown;
}

type ProviderObjectMembers = Readonly<Record<string, unknown>>;

const DAY_SECONDS = 86_400;
const PREFIX = 'msg';

/** OpenAI's `batch_…` becomes `msgbatch_…`, the prefix that clients of Anthropic's API expect. */
export function messageBatchId(kind: ObjectKind, id: string): string {
  return kind !== messageBatches && id.startsWith('batch_') ? `${PREFIX}${id}` : id;
}

/** The ids that the batch may have at a provider, the more likely one first. */
export function providersIds(id: string): readonly string[] {
  return id.startsWith(`${PREFIX}batch_`) ? [id, id.slice(PREFIX.length)] : [id];
}

/**
 * @param batch as its provider returns it; the results are at this gateway, under a path that clients resolve against
 *   its URL
 */
export function messageBatchOf(kind: ObjectKind, batch: ProviderObjectMembers): MessageBatch {
  return kind === messageBatches ? fromMessages(batch) : fromOpenAi(batch);
}

function fromMessages(batch: ProviderObjectMembers): MessageBatch {
  const id = String(batch.id);
  const results_url = typeof batch.results_url === 'string' ? resultsUrl(id) : null;
  return { ...(batch as MessageBatch), id, type: 'message_batch', results_url };
}

function fromOpenAi(batch: ProviderObjectMembers): MessageBatch {
  const id = messageBatchId({ ...messageBatches, endpoint: '/v1/batches' }, String(batch.id));
  const created = secondsIn(batch.created_at) ?? 0;
  const ended = firstOf(batch, ['completed_at', 'failed_at', 'expired_at', 'cancelled_at']);
  const status = statusOf(batch);
  const isOver = status === 'ended';
  return {
    id,
    type: 'message_batch',
    processing_status: status,
    request_counts: countsOf(batch, isOver),
    ended_at: isOver ? timeText(ended ?? created) : null,
    created_at: timeText(created),
    expires_at: timeText(secondsIn(batch.expires_at) ?? created + DAY_SECONDS),
    archived_at: null,
    cancel_initiated_at: nullable(secondsIn(batch.cancelling_at)),
    results_url: isOver ? resultsUrl(id) : null,
  };
}

function statusOf({ status }: ProviderObjectMembers): MessageBatch['processing_status'] {
  if (status === 'cancelling') return 'canceling';
  const over = ['completed', 'failed', 'expired', 'cancelled', 'canceled'];
  return over.includes(String(status)) ? 'ended' : 'in_progress';
}

/** Counts as Anthropic does: every request is `processing` until the batch is over. */
function countsOf({ request_counts, status }: ProviderObjectMembers, isOver: boolean): MessageBatch['request_counts'] {
  const counts = isObject(request_counts) ? request_counts : {};
  const [total, completed, failed] = [counts.total, counts.completed, counts.failed].map((n) => Number(n) || 0);
  const none = { processing: 0, succeeded: 0, errored: 0, canceled: 0, expired: 0 };
  if (!isOver) return { ...none, processing: total ?? 0 };
  const rest = Math.max(0, (total ?? 0) - (completed ?? 0) - (failed ?? 0));
  const known = { ...none, succeeded: completed ?? 0, errored: failed ?? 0 };
  if (status === 'expired') return { ...known, expired: rest };
  if (status === 'cancelled' || status === 'canceled') return { ...known, canceled: rest };
  return { ...known, errored: (failed ?? 0) + rest };
}

function resultsUrl(id: string): string {
  return `${messageBatches.endpoint}/${encodeURIComponent(id)}/results`;
}

function firstOf(batch: ProviderObjectMembers, names: readonly string[]): number | undefined {
  return names.map((name) => secondsIn(batch[name])).find((at) => at !== undefined);
}

function secondsIn(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined;
}

function nullable(seconds: number | undefined): string | null {
  return seconds === undefined ? null : timeText(seconds);
}

function timeText(seconds: number): string {
  return new Date(seconds * 1000).toISOString();
}

/** The results of a batch of messages, one line per request ("Message Batches: results"). */
export interface MessageResult {
  readonly custom_id: string | null;
  readonly result: Readonly<Record<string, unknown>>;
}

/** A batch that is over, as its provider returns it. */
interface EndedBatch {
  readonly kind: ObjectKind;
  readonly provider: Provider;
  readonly batch: Readonly<Record<string, unknown>>;
}

interface RequestedChat {
  readonly stopSequences: readonly string[];
  /** Whether the client requested the model's thinking. */
  readonly thinks: boolean;
}

/** @throws Refusal, before the first line */
async function messageResults(
  held: EndedBatch,
  made: readonly ResultFile[],
  question: FileQuestion,
): Promise<AsyncIterable<MessageResult>> {
  const { kind, provider, batch } = held;
  if (kind === messageBatches) return resultLines(made, resultAsSent, provider, question);
  const waiting = new Map<string, RequestedChat>();
  if (typeof batch.input_file_id === 'string') {
    await readLines(provider, contentPath(batch.input_file_id), question, (line) => noteRequestedLine(line, waiting));
  }
  const turn = (line: unknown): MessageResult | undefined => {
    const id = isObject(line) && typeof line.custom_id === 'string' ? line.custom_id : null;
    const chat = waiting.get(id ?? '');
    waiting.delete(id ?? '');
    return { custom_id: id, result: resultOf(line, id, chat) };
  };
  // Requests without a line were not made: the batch was cancelled or expired before.
  const outcome = outcomeIn(batch);
  const type = outcome === 'cancelled' ? 'canceled' : outcome === 'expired' ? 'expired' : undefined;
  function* rest(): Generator<MessageResult> {
    for (const id of waiting.keys()) {
      const result = type === undefined ? errored('api_error', 'The provider did not answer the request.') : { type };
      yield { custom_id: id, result };
    }
  }
  return resultLines(made, turn, provider, question, rest);
}

function resultAsSent(line: unknown): MessageResult | undefined {
  if (!isObject(line) || !isObject(line.result)) return undefined;
  return { custom_id: typeof line.custom_id === 'string' ? line.custom_id : null, result: line.result };
}

function noteRequestedLine(line: unknown, waiting: Map<string, RequestedChat>): void {
  if (!isObject(line) || typeof line.custom_id !== 'string') return;
  const body = isObject(line.body) ? line.body : {};
  const stops = [body.stop].flat().filter((stop) => typeof stop === 'string');
  const thinks = ['reasoning_effort', 'reasoning', 'thinking'].some((name) => (body[name] ?? null) !== null);
  waiting.set(line.custom_id, { stopSequences: stops, thinks });
}

function resultOf(line: unknown, id: string | null, chat: RequestedChat | undefined): MessageResult['result'] {
  const { status, body } = answerIn(line) ?? {};
  if (Number(status) < 400) {
    const completion = isObject(body) ? body : {};
    const shell = {
      id: `msg_${String(completion.id ?? id ?? '').replace(/^chatcmpl-/, '')}`,
      model: typeof completion.model === 'string' ? completion.model : '',
      stopSequences: chat?.stopSequences ?? [],
      thoughts: chat?.thinks === true ? ('shown' as const) : ('left_out' as const),
    };
    const message = messageFromChat(body, shell);
    return message === undefined
      ? errored('api_error', 'The provider gave an answer without a choice, or one that was interrupted.')
      : { type: 'succeeded', message };
  }
  const error = isObject(line) && isObject(line.error) ? line.error : isObject(body) ? body.error : undefined;
  const message = isObject(error) && typeof error.message === 'string' ? error.message : 'The provider gave no reason.';
  return errored(errorType(Number(status)), message);
}

function errored(type: string, message: string): MessageResult['result'] {
  return { type: 'errored', error: { type: 'error', error: { type, message } } };
}

/** Anthropic's error types for these statuses. */
function errorType(status: number): string {
  if (status === 404) return 'not_found_error';
  if (status === 429) return 'rate_limit_error';
  return status >= 400 && status < 500 ? 'invalid_request_error' : 'api_error';
}
