import { createRequire } from 'node:module';
import { describe, expect, it } from 'vitest';
import { crc32c } from '../../../src/events/kafka/crc32c.ts';
// Before kafkajs itself, as in the gateway.
import kafkajs from '../../../src/events/kafka/kafkajs.ts';
import { EngineDamaged } from '../../../src/events/replicated/engine.ts';

interface Encoder {
  readonly buffer: Buffer;
  writeBuffer(bytes: Buffer): Encoder;
  writeInt32(value: number): Encoder;
  writeVarIntBytes(bytes: Buffer): Encoder;
}

const load = createRequire(import.meta.url);
const EncoderOfKafkajs = load('kafkajs/src/protocol/encoder.js') as new () => Encoder;
const { RecordBatch } = load('kafkajs/src/protocol/recordBatch/v0/index.js') as {
  RecordBatch(batch: { records: Encoder[] }): Promise<Encoder>;
};

const encodeRecord = load('kafkajs/src/protocol/recordBatch/record/v0/index.js') as (record: {
  timestampDelta: number;
  value: Buffer;
}) => Encoder;
const DecoderOfKafkajs = load('kafkajs/src/protocol/decoder.js') as new (bytes: Buffer) => object;
const decodeBatch = load('kafkajs/src/protocol/recordBatch/v0/decoder.js') as (decoder: object) => Promise<{
  records: unknown[];
}>;

function byBits(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
  }
  return ~crc >>> 0;
}

describe('crc32c', () => {
  it('returns the values of RFC 3720, appendix B.4', () => {
    const ascending = Uint8Array.from({ length: 32 }, (_, index) => index);
    expect(crc32c(new Uint8Array(32))).toBe(0x8a9136aa);
    expect(crc32c(new Uint8Array(32).fill(255))).toBe(0x62a8ab43);
    expect(crc32c(ascending)).toBe(0x46dd794e);
    expect(crc32c(ascending.toReversed())).toBe(0x113fdb5c);
    expect(crc32c(Buffer.from('123456789'))).toBe(0xe3069283);
  });

  it('equals the checksum computed bit by bit, at each length and place in memory', () => {
    const bytes = Buffer.from(Array.from({ length: 70 }, (_, index) => (index * 167 + 13) % 256));
    for (let start = 0; start < 9; start++) {
      for (let end = start; end <= bytes.length; end++) {
        expect(crc32c(bytes.subarray(start, end))).toBe(byBits(bytes.subarray(start, end)));
      }
    }
  });
});

describe('kafkajs in the gateway', () => {
  it('plans no check of an empty queue of requests, whose time would be negative', () => {
    const RequestQueue = load('kafkajs/src/network/requestQueue/index.js') as new (
      parts: object,
    ) => {
      throttleCheckTimeoutId: NodeJS.Timeout | null;
      scheduleCheckPendingRequests(): void;
    };
    const logger = { namespace: () => ({ debug() {} }) };
    const queue = new RequestQueue({ maxInFlightRequests: 1, requestTimeout: 1, clientId: '', broker: '', logger });
    queue.scheduleCheckPendingRequests();
    expect(queue.throttleCheckTimeoutId).toBe(null);
  });

  it('puts the checksum into its batches', async () => {
    expect(load('kafkajs/src/protocol/recordBatch/crc32C/index.js')).toBe(crc32c);
    expect(kafkajs.Kafka).toBe((load('kafkajs') as typeof kafkajs).Kafka);
    const { buffer } = await RecordBatch({ records: [new EncoderOfKafkajs().writeBuffer(Buffer.alloc(3_000, 'abc'))] });
    // After the offset, the length, the epoch of the leader and the version.
    expect(buffer.readUInt32BE(17)).toBe(byBits(buffer.subarray(21)));
    expect(buffer.includes('abcabc')).toBe(true);
  });

  it('refuses a batch that does not have its checksum, and reads the part that was fetched of one', async () => {
    const record = encodeRecord({ timestampDelta: 0, value: Buffer.alloc(300, 'abc') });
    const { buffer } = await RecordBatch({ records: [record] });
    const decode = (bytes: Buffer) => decodeBatch(new DecoderOfKafkajs(bytes));
    expect((await decode(buffer)).records).toHaveLength(1);
    for (let at = 17; at < buffer.length; at += 5) {
      const damaged = Buffer.from(buffer);
      damaged.writeUInt8(damaged.readUInt8(at) ^ 16, at);
      await expect(decode(damaged)).rejects.toThrow(EngineDamaged);
    }
    await expect(decode(buffer.subarray(0, -1))).rejects.toThrow('partial');
  });

  it.each([0, 1, 500, 511, 512, 513, 5_000, 70_000])('encodes values of %i bytes between others', (bytes) => {
    const value = Buffer.alloc(bytes, 'value ');
    const encoder = new EncoderOfKafkajs().writeInt32(1).writeVarIntBytes(value).writeInt32(2).writeBuffer(value);
    for (let count = 0; count < 200; count++) encoder.writeInt32(count);
    const { buffer } = encoder;
    const from = buffer.length - 800 - bytes - 4 - bytes;
    expect(buffer.readInt32BE(0)).toBe(1);
    expect(buffer.subarray(from, from + bytes)).toEqual(value);
    expect(buffer.readInt32BE(from + bytes)).toBe(2);
    expect(buffer.subarray(from + bytes + 4, from + bytes + 4 + bytes)).toEqual(value);
    expect(buffer.readInt32BE(buffer.length - 4)).toBe(199);
  });
});
