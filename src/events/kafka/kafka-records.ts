/**
 * How appends lie on Kafka. A record has the appends of one call, as many as fit into a batch; its value is their frames
 * (`append-frame.ts`), one after the other. The frame of an append that is too large for one record is cut into parts, a
 * record for each; the last part completes the append. Headers are:
 *
 *   append    `<writer>/<number>` of the append, the first one of several
 *   appends   only of several: how many
 *   part      only of parts: `<call>/<index>/<count>`; `call` is a new one for each repetition
 *   ce_…      only of a single append with one event, in one record: that event
 *
 * The key of a record with one append is the stream of its first write, unless that name is longer than `maxKeyBytes`;
 * others have none. Readers use the value, and of parts `append` and `part`. Key and further headers are for other programs.
 */
import type { IHeaders, KafkaMessage, Message } from 'kafkajs';
import { recordId, recordTime, recordType } from '../embedded/event-record.ts';
import { isoTime } from '../event-json.ts';
import { frameAppends, framedBytes, isAppend, unframeAppend, unframeAppends } from '../replicated/append-frame.ts';
import { EngineDamaged, type SequencedAppend } from '../replicated/engine.ts';
import { type KafkaPlace, placeAfter, topicStart } from './kafka-place.ts';

/**
 * A part that lies further from the part before it than this is ignored by every reader: appends whose writer ended
 * between two parts do not hold back the place where reading goes on.
 */
export const maxPartDistance = 10_000n;
/** Of a record in a batch, with the headers of its append. */
const overheadBytes = 200;
const headerOverheadBytes = 10;
const maxKeyBytes = 512;

export interface BatchForm {
  /** Names this call among all calls of the gateways. */
  readonly call: string;
  readonly maxBatchBytes: number;
  /** The `source` of CloudEvents. */
  readonly source: string;
}

/** The records of the appends, each of which fits into a batch of the broker. */
export function messagesOf(appends: readonly SequencedAppend[], form: BatchForm): Message[] {
  const messages: Message[] = [];
  let group: SequencedAppend[] = [];
  let room = 0;
  for (const append of appends) {
    const bytes = framedBytes(append);
    if (group.length > 0 && bytes > room) {
      messages.push(...messagesOfGroup(group, form));
      group = [];
    }
    if (group.length === 0) room = form.maxBatchBytes - overheadBytes;
    group.push(append);
    room -= bytes;
  }
  messages.push(...messagesOfGroup(group, form));
  return messages;
}

function messagesOfGroup(group: readonly SequencedAppend[], form: BatchForm): Message[] {
  const [first, ...further] = group;
  if (first === undefined) return [];
  if (further.length === 0) return messagesOfAppend(first, form);
  const headers = { append: headerFor(first), appends: String(group.length) };
  return [{ key: null, value: frameAppends(group), headers, partition: 0 }];
}

function messagesOfAppend(append: SequencedAppend, { call, maxBatchBytes, source }: BatchForm): Message[] {
  const value = frameAppends([append]);
  const own = { append: headerFor(append) };
  const key = keyOf(append);
  const withKeyBytes = overheadBytes + (key?.length ?? 0);
  const described = cloudEventHeaders(append, source);
  if (withKeyBytes + value.length + headerBytes(described) <= maxBatchBytes) {
    return [{ key, value, headers: { ...own, ...described }, partition: 0 }];
  }
  const partBytes = maxBatchBytes - withKeyBytes;
  const count = Math.ceil(value.length / partBytes);
  return Array.from({ length: count }, (_, index) => {
    const part = value.subarray(index * partBytes, (index + 1) * partBytes);
    return { key, value: part, headers: { ...own, part: `${call}/${index}/${count}` }, partition: 0 };
  });
}

function headerFor({ writer, number }: SequencedAppend): string {
  return `${writer}/${number}`;
}

function keyOf({ writes: [first] }: SequencedAppend): Buffer | null {
  if (first === undefined) return null;
  const key = Buffer.from(first.stream);
  return key.length <= maxKeyBytes ? key : null;
}

function headerBytes(headers: Readonly<Record<string, string>>): number {
  let bytes = 0;
  for (const [name, value] of Object.entries(headers))
    bytes += name.length + Buffer.byteLength(value) + headerOverheadBytes;
  return bytes;
}

interface Incomplete {
  readonly call: string;
  /** Before its first part. */
  readonly place: KafkaPlace;
  last: bigint;
  readonly parts: Buffer[];
}

/** Puts the records of a topic together to appends. */
export class AppendAssembler {
  /** By writer, which sends one append after the other. */
  readonly #incomplete = new Map<string, Incomplete>();
  readonly #start: KafkaPlace;
  #last: KafkaMessage | undefined;

  constructor(start: KafkaPlace = topicStart) {
    this.#start = start;
  }

  /** @returns the appends that this record completes. @throws EngineDamaged */
  add(message: KafkaMessage): readonly SequencedAppend[] {
    const appends = this.#complete(message);
    this.#last = message;
    return appends;
  }

  /** The place after which all that is incomplete can be read again. */
  resume(): KafkaPlace {
    const next = this.#next();
    let from = next;
    for (const [writer, { place, last }] of this.#incomplete) {
      if (next.offset - last > maxPartDistance) this.#incomplete.delete(writer);
      else if (place.offset < from.offset) from = place;
    }
    return from;
  }

  /** After the last record. */
  #next(): KafkaPlace {
    return this.#last === undefined ? this.#start : placeAfter(this.#last);
  }

  #complete({ value, headers = {}, offset }: KafkaMessage): readonly SequencedAppend[] {
    const at = BigInt(offset);
    const part = headerOf(headers, 'part');
    if (part !== undefined) {
      const frame = this.#addPart(value, headerOf(headers, 'append') ?? '', part, at);
      return frame !== undefined && isAppend(frame) ? this.#named(() => [unframeAppend(frame)], at) : [];
    }
    // Records of other programs are not part of the log.
    return value !== null && isAppend(value) ? this.#named(() => unframeAppends(value), at) : [];
  }

  /** @returns the frame that this part completes */
  #addPart(value: Buffer | null, append: string, part: string, at: bigint): Buffer | undefined {
    const [call = '', index, count] = part.split('/');
    const [writer = ''] = append.split('/');
    const key = `${append}/${call}`;
    if (value === null) return undefined;
    if (index === '0') {
      // A request that was given up can arrive between the parts of its repetition.
      if (isEarlierCall(key, this.#incomplete.get(writer)?.call)) return undefined;
      this.#incomplete.set(writer, { call: key, place: this.#next(), last: at, parts: [value] });
      return undefined;
    }
    const begun = this.#incomplete.get(writer);
    if (begun === undefined || begun.call !== key || begun.parts.length !== Number(index)) return undefined;
    if (at - begun.last > maxPartDistance) return undefined;
    begun.parts.push(value);
    begun.last = at;
    if (begun.parts.length < Number(count)) return undefined;
    this.#incomplete.delete(writer);
    return Buffer.concat(begun.parts);
  }

  #named(unframe: () => SequencedAppend[], at: bigint): SequencedAppend[] {
    try {
      return unframe();
    } catch (error) {
      if (!(error instanceof EngineDamaged)) throw error;
      throw new EngineDamaged(
        `record ${at} of the topic: ${error.message}. A gateway that has everything goes on until it is restarted; its log ` +
          'can be copied to another topic: chancery log copy --from <its DATA_DIR>/log --to kafka://…/<new topic>',
        { cause: error },
      );
    }
  }
}

/** Calls of one engine are `<instance>-<number>`, in the order of their numbers. */
function isEarlierCall(key: string, begun: string | undefined): boolean {
  if (begun === undefined) return false;
  const [instance, number] = callOf(key);
  const [begunInstance, begunNumber] = callOf(begun);
  return instance === begunInstance && Number(number) < Number(begunNumber);
}

function callOf(key: string): string[] {
  return key.slice(key.lastIndexOf('/') + 1).split('-');
}

function headerOf(headers: IHeaders, name: string): string | undefined {
  const value = headers[name];
  return typeof value === 'string' || value instanceof Buffer ? value.toString() : undefined;
}

/**
 * The headers of the binary mode of CloudEvents 1.0 ("Kafka Protocol Binding for CloudEvents", 3.2) for an append with one
 * event, so that other programs can select records without reading their values. The value is the append, not the data of
 * the event; `content-type` says so.
 */
const maxSubjectBytes = 512;
/** The last time that a `Date` can have. */
const maxTime = 8.64e15;

/**
 * @returns none for an append with another number of events, with a longer stream name than 512 bytes, or with a time that
 *   has no text
 */
function cloudEventHeaders({ writes, records }: SequencedAppend, source: string): Record<string, string> {
  const [write, ...further] = writes.filter(({ count }) => count > 0);
  if (write?.count !== 1 || further.length > 0 || Buffer.byteLength(write.stream) > maxSubjectBytes) return {};
  const at = recordTime(records, 0);
  if (!(Math.abs(at) < maxTime)) return {};
  return {
    ce_specversion: '1.0',
    ce_id: recordId(records, 0),
    ce_source: source,
    ce_type: recordType(records, 0),
    ce_time: isoTime(at),
    ce_subject: write.stream,
    'content-type': 'application/vnd.chancery.append',
  };
}
