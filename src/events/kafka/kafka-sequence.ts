/**
 * Whether the records that kafkajs fetches follow each other without a gap. Control records, which transactions of other
 * programs leave on the topic, take offsets, but kafkajs does not hand them over.
 */
import type { Batch, KafkaMessage } from 'kafkajs';
import { EngineUnavailable, PlaceLost } from '../replicated/engine.ts';
import { firstOffsetOf, type KafkaPlace, placeAfter } from './kafka-place.ts';
import { otherRecord } from './kafka-place-verifier.ts';

/** A batch as kafkajs reports it, also when all its records are control records. */
export interface ReportedBatch {
  readonly firstOffset: string | null;
  readonly lastOffset: string;
}

/** Not part of the interface of kafkajs, whose version is pinned: all records that the broker returned. */
interface WithControlRecords {
  readonly rawMessages?: readonly (Pick<KafkaMessage, 'offset'> & { readonly isControlRecord?: boolean })[];
}

export class RecordSequence {
  readonly #topic: string;
  /** With which record the next batch begins. */
  #expected = 0n;
  /** A place before which a record with a check is to be read first. */
  #unverified: KafkaPlace | undefined;

  constructor(topic: string) {
    this.#topic = topic;
  }

  /** @returns the offset from which records have to be fetched */
  begin(place: KafkaPlace): bigint {
    this.#expected = firstOffsetOf(place);
    this.#unverified = place.check === undefined ? undefined : place;
    return this.#expected;
  }

  /**
   * @throws EngineUnavailable when kafkajs fetched from another offset than the next one: it does so when the topic does
   *   not have that one. A reader that begins again finds out why.
   */
  startBatch({ firstOffset }: ReportedBatch): void {
    if (firstOffset === null) throw new PlaceLost(`the topic ${this.#topic} has no record ${this.#expected}`);
    if (BigInt(firstOffset) === this.#expected) return;
    throw new EngineUnavailable(
      `Kafka returned record ${firstOffset} of the topic ${this.#topic} instead of ${this.#expected}`,
      'none',
    );
  }

  endBatch({ lastOffset }: ReportedBatch): void {
    this.#expected = BigInt(lastOffset) + 1n;
  }

  /** @throws PlaceLost when a record is missing in the batch, or the record before the place is another one */
  checkRecords(batch: Batch): void {
    const { messages, rawMessages = messages }: Batch & WithControlRecords = batch;
    let expected = this.#expected;
    for (const { offset } of rawMessages) {
      const at = BigInt(offset);
      if (at < expected) continue;
      if (at > expected) throw new PlaceLost(`the topic ${this.#topic} has no record ${expected} any more`);
      expected += 1n;
    }
    this.#verifyPlace(messages[0]);
  }

  #verifyPlace(first: KafkaMessage | undefined): void {
    const place = this.#unverified;
    if (place === undefined || first === undefined) return;
    const found = placeAfter(first);
    if (found.offset !== place.offset || found.check !== place.check) {
      throw otherRecord(this.#topic, place.offset - 1n);
    }
    this.#unverified = undefined;
  }
}
