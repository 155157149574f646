/**
 * A place between two records of a topic, as text: `<offset>:<check>`. The check is the CRC-32 of the value of the record
 * before it, in 8 hexadecimal digits. Without a record before it, and in places that earlier versions stored, it is missing.
 */
import { crc32 } from 'node:zlib';
import type { KafkaMessage } from 'kafkajs';
import { type EnginePlace, PlaceLost } from '../replicated/engine.ts';

export interface KafkaPlace {
  /** Of the record after it. */
  readonly offset: bigint;
  readonly check: number | undefined;
}

export const topicStart: KafkaPlace = { offset: 0n, check: undefined };

/** @throws PlaceLost */
export function parseKafkaPlace(place: EnginePlace): KafkaPlace {
  const [, offset, check] = /^(\d{1,19})(?::([0-9a-f]{8}))?$/.exec(place) ?? [];
  if (offset === undefined) throw new PlaceLost('the place is none of Kafka');
  return { offset: BigInt(offset), check: check === undefined ? undefined : Number.parseInt(check, 16) };
}

export function formatKafkaPlace({ offset, check }: KafkaPlace): EnginePlace {
  return check === undefined ? String(offset) : `${offset}:${check.toString(16).padStart(8, '0')}`;
}

export function placeAfter({ offset, value }: Pick<KafkaMessage, 'offset' | 'value'>): KafkaPlace {
  return { offset: BigInt(offset) + 1n, check: crc32(value ?? '') };
}

/** Where reading begins, so that the record before the place is read and compared. */
export function firstOffsetOf({ offset, check }: KafkaPlace): bigint {
  return check === undefined ? offset : offset - 1n;
}
