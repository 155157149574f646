/** What the gateway knows of the files and batches that providers keep: who has them, and whose they are. */
import { batchTracked, fileTracked } from '../../events/catalogue/files.ts';
import type { EventContext, UserPath } from '../../events/event.ts';
import { streamName } from '../../events/event.ts';
import type { StreamWrite } from '../../events/log.ts';
import type { Family, Provider } from '../../providers/provider.ts';
import { type Refusal, refusals } from '../refusal.ts';

export interface ObjectKind {
  /** Category of the stream of each. */
  readonly name: 'file' | 'batch';
  readonly endpoint: '/v1/files' | '/v1/batches';
  readonly family: Family;
  /** As the subject of a sentence. */
  readonly title: string;
  notFound(id: string): Refusal;
}

export const files: ObjectKind = {
  name: 'file',
  endpoint: '/v1/files',
  family: 'files',
  title: 'File storage',
  notFound: refusals.fileNotFound,
};

export const batches: ObjectKind = {
  name: 'batch',
  endpoint: '/v1/batches',
  family: 'batches',
  title: 'Batch processing',
  notFound: refusals.batchNotFound,
};

export interface TrackedObject {
  /** The provider's name. */
  readonly provider: string;
  /** Of whoever made it; undefined when they had none. */
  readonly userPath: UserPath | undefined;
  /** Of its newest event: expected by whoever appends the next one. */
  readonly revision: bigint;
}

export interface TrackedObjects {
  /** Undefined when it was not made here, was deleted, or when `id` cannot be the id of such a thing. */
  find(kind: ObjectKind['name'], id: string): Promise<TrackedObject | undefined>;
}

/** Ids come from providers and clients: what is not a plain token of reasonable length names no stream. */
export function isObjectId(id: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9._:-]{0,199}$/.test(id);
}

/** Remembers who has an object. */
export function trackingWrite(
  kind: ObjectKind['name'],
  id: string,
  { name, type }: Pick<Provider, 'name' | 'type'>,
  context: EventContext,
  exchangeId?: string,
): StreamWrite {
  const definition = kind === 'file' ? fileTracked : batchTracked;
  const facts = { provider: name, providerType: type, exchangeId };
  return { stream: streamName(kind, id), events: [definition.create(facts, context)], expectedRevision: 'any' };
}
