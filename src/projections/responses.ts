/**
 * Stored responses, read from their own streams: the newest event of `response-<id>` is the snapshot. There is no
 * copy that could lag behind, so a response is found as soon as its append has returned, also after a crash.
 */
import { z } from 'zod';
import {
  batchTracked,
  fileDeleted,
  fileTracked,
  itemStored,
  responseDeleted,
  responseStored,
} from '../events/catalogue/response.ts';
import { type Actor, type EpochMs, type RecordedEvent, streamName, type UserPath } from '../events/event.ts';
import { type EventLog, newestEvent } from '../events/log.ts';
import { parseExactly } from '../json/exact-json.ts';
import { isA } from './projection.ts';

/**
 * Files and batches, each read from its own stream, like stored responses: its newest event names the provider. There
 * is no copy that could lag behind.
 */
interface TrackedObject {
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

interface TrackedRecords {
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

/** The index of items, read from its own streams: `item-<id>` names the holder as soon as that event is appended. */
interface HeldItem {
  readonly kind: 'response' | 'conversation';
  readonly id: string;
  /** Of the request that stored the item. */
  readonly requestId: string | undefined;
  /** Of the holder. */
  readonly owner: { readonly userPath: UserPath | undefined; readonly createdBy: Actor };
}

export interface ItemIndex {
  /** All recorded holders of the item, the newest first. Some may have been deleted. */
  holdersOf(itemId: string): AsyncIterable<HeldItem>;
}

/** Most events read in search of a holder, so that storing the same id many times cannot slow down readers. */
const MAX_EVENTS = 1024;

export function createItemIndex(log: EventLog): ItemIndex {
  return {
    async *holdersOf(itemId) {
      const stream = streamName('item', itemId);
      for await (const event of log.readStream(stream, { direction: 'backwards', maxCount: MAX_EVENTS })) {
        if (!isA(event, itemStored)) continue;
        const { holder, holderId, createdBy = event.context.actor } = event.data;
        const { requestId } = event.context;
        yield { kind: holder, id: holderId, requestId, owner: { userPath: event.context.userPath, createdBy } };
      }
    },
  };
}

const storedItem = z.looseObject({ id: z.string(), type: z.string() });

const storedPlaceholder = z.object({ placeholder: z.string(), value: z.string() });

const storedBody = z.object({
  response: z.record(z.string(), z.unknown()),
  input_items: z.array(storedItem),
  placeholders: z.array(storedPlaceholder).default([]),
});

export interface StoredResponse {
  readonly id: string;
  readonly status: z.infer<typeof responseStored.data>['status'];
  readonly exchangeId: string;
  readonly provider: string;
  readonly providerType: string;
  readonly model: string;
  /** Whether the provider stores this response too, under the same id. */
  readonly native: boolean;
  readonly previousResponseId: string | null;
  /** Of the creator; undefined when the creator had none. */
  readonly userPath: UserPath | undefined;
  readonly createdBy: Actor;
  readonly storedAt: EpochMs;
  /** Of the snapshot in its stream: the expected revision of the next append. */
  readonly revision: bigint;
  /** The stored bytes: JSON `{"response": …, "input_items": […], "placeholders": […]}`. */
  readonly bytes: Uint8Array;
  /** The response that the client got. Parsed at the first access. @throws when the stored bytes are damaged */
  readonly response: Readonly<Record<string, unknown>>;
  /** The client's input, normalised, oldest first. Parsed at the first access. */
  readonly inputItems: readonly Readonly<{ id: string; type: string; [member: string]: unknown }>[];
  /** The values that guardrails kept from providers in this turn and the turns before. Parsed at the first access. */
  readonly placeholders: readonly Readonly<z.infer<typeof storedPlaceholder>>[];
}

export interface ResponseRecords {
  /** Undefined when it was never stored, was deleted, or when `id` cannot be the id of a response. */
  load(id: string): Promise<StoredResponse | undefined>;
  /** Whether it was stored here and deleted. */
  wasDeleted(id: string): Promise<boolean>;
}

/** Ids come from providers and clients: only a plain token of limited length can be part of a stream name. */
export function isResponseId(id: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9._:-]{0,199}$/.test(id);
}

export function createResponseRecords(log: EventLog): ResponseRecords {
  return {
    async load(id) {
      if (!isResponseId(id)) return undefined;
      const newest = await newestEvent(streamName('response', id), log);
      return newest !== undefined && isA(newest, responseStored) ? fromEvent(id, newest) : undefined;
    },
    async wasDeleted(id) {
      if (!isResponseId(id)) return false;
      const newest = await newestEvent(streamName('response', id), log);
      return newest !== undefined && isA(newest, responseDeleted);
    },
  };
}

function fromEvent(id: string, event: RecordedEvent<string, z.infer<typeof responseStored.data>>): StoredResponse {
  const bytes = event.body ?? new Uint8Array();
  let parsed: z.infer<typeof storedBody> | undefined;
  const body = () => {
    parsed ??= storedBody.parse(parseExactly(new TextDecoder().decode(bytes)));
    return parsed;
  };
  return {
    id,
    ...event.data,
    userPath: event.context.userPath,
    createdBy: event.data.createdBy ?? event.context.actor,
    storedAt: event.at,
    revision: event.revision,
    bytes,
    // A provider's own stream is stored as it was sent, without this member.
    get response() {
      return { ...body().response, provider: event.data.provider };
    },
    get inputItems() {
      return body().input_items;
    },
    get placeholders() {
      return body().placeholders;
    },
  };
}
