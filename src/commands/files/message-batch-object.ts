/** A batch in the form of Anthropic's API ("Message Batches"), whichever API its provider has. Pure. */
import { isObject } from '../../json/is-object.ts';
import { messageBatches, type ObjectKind } from '../provider-objects/tracked.ts';

export interface MessageBatch {
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
