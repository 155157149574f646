/**
 * kafkajs 2.2.4 with a faster encoding of batches. It copies each batch several times, into buffers that it fills with zeros
 * first and makes up to twice as large as needed, and computes the checksum one byte at a time. Both are replaced here, and the
 * checksum of batches that are read is compared. What is replaced is not part of the interface of kafkajs, whose version is
 * pinned. All modules of the gateway and its tests use this one.
 */
import { createRequire } from 'node:module';
import { EngineDamaged } from '../replicated/engine.ts';
import { endConnectionsWhole } from './connection-ends.ts';
import { crc32c } from './crc32c.ts';
import { planNoEmptyChecks } from './request-queue-timers.ts';

interface Encoder {
  buf: Buffer;
  readonly offset: number;
  ensureAvailable(bytes: number): void;
}

/** Room for what usually follows a large value. */
const spareBytes = 512;
const load = createRequire(import.meta.url);

// The modules that use it take it when they are loaded, so this has an effect only before kafkajs itself is loaded.
const checksum = load.resolve('kafkajs/src/protocol/recordBatch/crc32C/index.js');
load(checksum);
const checksumModule = load.cache[checksum];
if (checksumModule !== undefined) checksumModule.exports = crc32c;

const { prototype } = load('kafkajs/src/protocol/encoder.js') as { prototype: Encoder };
prototype.ensureAvailable = function (this: Encoder, bytes: number): void {
  const needed = this.offset + bytes;
  if (needed <= this.buf.length) return;
  // An encoder shows no byte that was not written.
  const larger = Buffer.allocUnsafeSlow(Math.max(needed + spareBytes, this.buf.length * 2));
  this.buf.copy(larger, 0, 0, this.offset);
  this.buf = larger;
};

planNoEmptyChecks();
endConnectionsWhole();

type FetchDecoder = { readonly buffer: Buffer; readonly offset: number };

/** Of a batch: 8 bytes offset, 4 bytes length of what follows, 4 bytes epoch, 1 byte magic, 4 bytes checksum of what follows. */
const batchHead = { length: 8, body: 12, checksum: 17, checked: 21 };

// kafkajs decodes batches without comparing their checksum.
const batchDecoder = load.resolve('kafkajs/src/protocol/recordBatch/v0/decoder.js');
const decodeBatch = load(batchDecoder) as (decoder: FetchDecoder) => Promise<unknown>;
const decoderModule = load.cache[batchDecoder];
if (decoderModule !== undefined) {
  decoderModule.exports = async (decoder: FetchDecoder): Promise<unknown> => {
    checkBatch(decoder.buffer.subarray(decoder.offset));
    return decodeBatch(decoder);
  };
}

/** @throws EngineDamaged; a batch that is not whole is the end of what was fetched */
function checkBatch(bytes: Buffer): void {
  if (bytes.length < batchHead.checked) return;
  const end = batchHead.body + bytes.readInt32BE(batchHead.length);
  if (end > bytes.length || end < batchHead.checked) return;
  if (crc32c(bytes.subarray(batchHead.checked, end)) === bytes.readUInt32BE(batchHead.checksum)) return;
  throw new EngineDamaged(`the batch of records from ${bytes.readBigInt64BE(0)} on does not have its checksum`);
}

const kafkajs = load('kafkajs') as typeof import('kafkajs');
export default kafkajs;
