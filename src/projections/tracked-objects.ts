/**
 * Files and batches, each read from its own stream, like stored responses: its newest event names the provider. There
 * is no copy that could lag behind.
 */
import { batchTracked, fileDeleted, fileTracked } from '../events/catalogue/response.ts';
import { type Actor, streamName, type UserPath } from '../events/event.ts';
import { type EventLog, newestEvent } from '../events/log.ts';
import { isA } from './known-event.ts';

export interface TrackedObject {
  /** The provider's name. */
  readonly provider: string;
  /** Of a batch that was created by `/v1/messages/batches`. */
  readonly dialect?: 'messages' | undefined;
  /** Of the creator; undefined when the creator had none. */
  readonly userPath: UserPath | undefined;
  readonly createdBy: Actor;
  /** Of its newest event: the expected revision of the next append. */
  readonly revision: bigint;
}

export interface TrackedRecords {
  /** Undefined when it was not created here, was deleted, or when `id` cannot be the id of such an object. */
  load(kind: 'file' | 'batch', id: string): Promise<TrackedObject | undefined>;
  /** Whether it was created here and deleted. */
  wasDeleted(kind: 'file' | 'batch', id: string): Promise<boolean>;
}

const TOKEN = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,199}$/;

export function createTrackedRecords(log: EventLog): TrackedRecords {
  return {
    async load(kind, id) {
      if (!TOKEN.test(id)) return undefined;
      const newest = await newestEvent(streamName(kind, id), log);
      if (newest === undefined || !(isA(newest, fileTracked) || isA(newest, batchTracked))) return undefined;
      const { data, context, revision } = newest;
      const { provider, createdBy = context.actor } = data;
      const dialect = isA(newest, batchTracked) ? newest.data.dialect : undefined;
      return { provider, dialect, userPath: context.userPath, createdBy, revision };
    },
    async wasDeleted(kind, id) {
      const newest = TOKEN.test(id) ? await newestEvent(streamName(kind, id), log) : undefined;
      return newest !== undefined && isA(newest, fileDeleted);
    },
  };
}
