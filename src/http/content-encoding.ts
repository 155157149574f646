/** Encoded request bodies (RFC 9110 §8.4): decoded up to the limit of their route, or refused. */
import type { IncomingHttpHeaders } from 'node:http';
import { pipeline, type Readable } from 'node:stream';
import * as zlib from 'node:zlib';
import { type Refusal, refusals } from '../commands/refusal.ts';

type Decoded = (error: Error | null, decoded: Buffer) => void;

interface Coding {
  whole(body: Buffer, options: { readonly maxOutputLength: number }, decoded: Decoded): void;
  stream(): Readable & NodeJS.WritableStream;
}

/** At most 8 MiB of memory for a frame's window, whatever the frame demands (RFC 9659). */
const zstdWindow = { params: { [zlib.constants.ZSTD_d_windowLogMax]: 23 } };
const gzip: Coding = { whole: zlib.gunzip, stream: () => zlib.createGunzip() };
const codings: ReadonlyMap<string, Coding> = new Map([
  ['gzip', gzip],
  ['x-gzip', gzip],
  ['deflate', { whole: zlib.inflate, stream: () => zlib.createInflate() }],
  ['br', { whole: zlib.brotliDecompress, stream: () => zlib.createBrotliDecompress() }],
  [
    'zstd',
    {
      whole: (body, options, decoded) => zlib.zstdDecompress(body, { ...zstdWindow, ...options }, decoded),
      stream: () => zlib.createZstdDecompress(zstdWindow),
    },
  ],
]);

/** The encodings that a client may send: the value of `Accept-Encoding` on a 415 (RFC 9110 §12.5.3). */
export const ACCEPTED_ENCODINGS = 'gzip, deflate, br, zstd';
/** Each further encoding costs a pass over the body and saves nothing. */
const MAX_CODINGS = 2;

/**
 * @returns the decoders of the body, for the last coding first; empty for a body that is not encoded
 * @throws Refusal 415 for an unknown coding
 */
function codingsIn(encoding: string): readonly Coding[] {
  const found: Coding[] = [];
  for (const name of encoding.toLowerCase().split(',')) {
    const coding = name.trim();
    if (coding === '' || coding === 'identity') continue;
    const known = codings.get(coding);
    if (known === undefined) throw refusals.unsupportedEncoding(coding, ACCEPTED_ENCODINGS);
    found.unshift(known);
  }
  if (found.length > MAX_CODINGS) throw refusals.unsupportedEncoding(encoding, ACCEPTED_ENCODINGS);
  return found;
}

/** @throws Refusal 415 before any of the body is read */
export function checkEncoding(headers: IncomingHttpHeaders): void {
  const encoding = headers['content-encoding'];
  if (encoding !== undefined) codingsIn(encoding);
}

/**
 * A body that is completely in memory. Removes the headers of its encoding and its encoded length. Decoding stops at
 * the limit, so a small body cannot become a large one in memory.
 * @throws Refusal 400 for a body that is not encoded as stated, 413 beyond the limit, 415
 */
export async function decodedRequestBody(
  headers: IncomingHttpHeaders,
  body: Buffer,
  limitBytes: number,
): Promise<Buffer> {
  let decoded = body;
  for (const { whole } of takeCodings(headers)) {
    const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
    whole(decoded, { maxOutputLength: limitBytes }, (error, output) =>
      error === null ? resolve(output) : reject(refusalOf(error, limitBytes)),
    );
    decoded = await promise;
  }
  return decoded;
}

/**
 * The same for a streamed body; its reader applies the limit. A body that is not encoded is returned unchanged.
 * @throws Refusal 415
 */
export function decodedStream<Body extends Readable>(headers: IncomingHttpHeaders, body: Body): Body | Readable {
  let decoded: Readable = body;
  for (const { stream } of takeCodings(headers)) {
    const decoder = stream();
    // The reader receives the error.
    pipeline(decoded, decoder, () => {});
    decoded = decoder;
  }
  return decoded;
}

function takeCodings(headers: IncomingHttpHeaders): readonly Coding[] {
  const encoding = headers['content-encoding'];
  if (encoding === undefined) return [];
  const found = codingsIn(encoding);
  delete headers['content-encoding'];
  delete headers['content-length'];
  return found;
}

function refusalOf(error: Error & { code?: string }, limitBytes: number): Refusal {
  if (error.code === 'ERR_BUFFER_TOO_LARGE') return refusals.bodyTooLarge(limitBytes);
  return refusals.malformedEncoding(error.message);
}

/** Without the byte order mark that some clients put in front of JSON; a reader may ignore it (RFC 8259 §8.1). */
export function withoutByteOrderMark(body: Buffer): Buffer {
  return body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf ? body.subarray(3) : body;
}
