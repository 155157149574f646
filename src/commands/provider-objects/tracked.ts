/** The recorded facts of files and batches at providers: their provider and their owner. */
import { batchTracked, fileTracked } from '../../events/catalogue/response.ts';
import { type EventContext, streamName } from '../../events/event.ts';
import type { StreamWrite } from '../../events/log.ts';
import type { Family, Provider } from '../../providers/provider.ts';
import { speaksMessages } from '../exchange/dialects/messages/messages-dialect.ts';
import { type Refusal, refusals } from '../refusal.ts';
import { contextFor, creatorFact, type Owner, sees, seesEverything, type VisibilityScope } from '../visibility.ts';

export interface ObjectKind {
  /** Category of the stream of each object. */
  readonly name: 'file' | 'batch';
  readonly endpoint: '/v1/files' | '/v1/batches' | '/v1/messages/batches';
  readonly family: Family;
  /** Title as the subject of a sentence. */
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

/** Batches of Anthropic's own API. */
export const messageBatches: ObjectKind = {
  name: 'batch',
  endpoint: '/v1/messages/batches',
  family: 'message_batches',
  title: 'Batch processing of messages',
  notFound: refusals.batchNotFound,
};

/** The kind of batches that this type of provider has. */
export function batchKindOf({ type }: Pick<Provider, 'type'>): ObjectKind {
  return speaksMessages(type) ? messageBatches : batches;
}

export interface TrackedObject extends Owner {
  /** The provider's name. */
  readonly provider: string;
  /** Set for a batch that was created by `/v1/messages/batches`. */
  readonly dialect?: 'messages' | undefined;
  /** Revision of the newest event, expected by the next append. */
  readonly revision: bigint;
}

/** Implemented by a projection. It does not check callers, so only `trackedObjects` uses it. */
export interface TrackedRecords {
  /** Undefined when the object was not created through this gateway, was deleted, or when `id` cannot be such an id. */
  load(kind: ObjectKind['name'], id: string): Promise<TrackedObject | undefined>;
  /** Whether it was created through this gateway and then deleted. */
  wasDeleted(kind: ObjectKind['name'], id: string): Promise<boolean>;
}

export interface TrackedObjects {
  /** Undefined also when the caller may not see it. */
  find(kind: ObjectKind['name'], id: string, visibility: VisibilityScope): Promise<TrackedObject | undefined>;
  /**
   * Whether a provider may be queried for an object that `find` did not find. An object that is not recorded here has
   * no known owner: only callers who see everything may query it. A deleted object does not exist anywhere.
   */
  mayBeOnlyAtProvider(kind: ObjectKind['name'], id: string, visibility: VisibilityScope): Promise<boolean>;
}

export function trackedObjects(records: TrackedRecords): TrackedObjects {
  return {
    async find(kind, id, visibility) {
      const tracked = await records.load(kind, id);
      return tracked !== undefined && sees(visibility, tracked) ? tracked : undefined;
    },
    mayBeOnlyAtProvider: async (kind, id, visibility) =>
      seesEverything(visibility) && !(await records.wasDeleted(kind, id)),
  };
}

/** Ids come from providers and clients: an id that is not a plain token of reasonable length has no stream. */
export function isObjectId(id: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9._:-]{0,199}$/.test(id);
}

/** The owner and the origin of an object. */
export interface ObjectOrigin {
  readonly owner: Owner;
  readonly exchangeId?: string;
  readonly dialect?: 'messages';
}

/** Records the provider of an object. @param by context of the event; its actor need not be the owner */
export function trackingWrite(
  kind: ObjectKind['name'],
  id: string,
  { name, type }: Pick<Provider, 'name' | 'type'>,
  { owner, exchangeId, dialect }: ObjectOrigin,
  by: EventContext,
): StreamWrite {
  const definition = kind === 'file' ? fileTracked : batchTracked;
  const made = dialect === undefined ? {} : { dialect };
  const facts = { provider: name, providerType: type, exchangeId, ...made, ...creatorFact(owner, by) };
  const event = definition.create(facts, contextFor(owner, by));
  return { stream: streamName(kind, id), events: [event], expectedRevision: 'any' };
}
