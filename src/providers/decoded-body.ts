/** Decodes compressed answers: some providers compress although the requests accept only uncompressed ones. */
import { type Transform, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { constants, createBrotliDecompress, createUnzip, createZstdDecompress } from 'node:zlib';
import { ProviderFailure, type ReplyBody } from './provider.ts';
import { tooLarge } from './transport-failure.ts';

const decoders: Readonly<Record<string, () => Transform>> = {
  gzip: createUnzip,
  'x-gzip': createUnzip,
  deflate: createUnzip,
  br: createBrotliDecompress,
  // At most 8 MiB of memory for a frame's window, whatever the frame demands (RFC 9659).
  zstd: () => createZstdDecompress({ params: { [constants.ZSTD_d_windowLogMax]: 23 } }),
};

/** The same answer decoded, or undefined when `encoding` names no supported encoding. */
export function decodedBody(body: ReplyBody, encoding: string | undefined, provider: string): ReplyBody | undefined {
  const create = encoding === undefined ? undefined : decoders[encoding.trim().toLowerCase()];
  if (create === undefined) return undefined;
  return {
    pieces: (onPiece) => decodePieces(body, create(), provider, onPiece),
    async bytes(maxBytes) {
      const pieces: Buffer[] = [];
      let bytes = 0;
      await decodePieces(body, create(), provider, (piece) => {
        bytes += piece.length;
        if (bytes > maxBytes) throw tooLarge(provider, maxBytes);
        pieces.push(piece);
      });
      return Buffer.concat(pieces, bytes);
    },
    get arrived() {
      return body.arrived;
    },
    cancel: () => body.cancel(),
  };
}

/** Holds one encoded and one decoded piece at a time, so a large decoded answer never accumulates in memory. */
async function decodePieces(
  body: ReplyBody,
  decoder: Transform,
  provider: string,
  onPiece: (piece: Buffer) => void | Promise<unknown>,
): Promise<void> {
  let thrown: unknown;
  const consumer = new Writable({
    highWaterMark: 1,
    write(piece: Buffer, _encoding, done) {
      const failed = (error: unknown): void => {
        thrown = error;
        done(new Error('the reader of the answer failed', { cause: error }));
      };
      try {
        const pending = onPiece(piece);
        if (pending === undefined) done();
        else pending.then(() => done(), failed);
      } catch (error) {
        failed(error);
      }
    },
  });
  const delivered = pipeline(decoder, consumer);
  // A failed decoder reads no further input: cancelling ends the wait below.
  delivered.catch(() => body.cancel());

  let received = false;
  try {
    await body.pieces((piece) => {
      received = true;
      return new Promise<void>((resolve) => decoder.write(piece, () => resolve()));
    });
    if (!received) {
      decoder.destroy();
      return;
    }
    decoder.end();
  } catch (error) {
    decoder.destroy(error instanceof Error ? error : new Error(String(error)));
  }
  try {
    await delivered;
  } catch (error) {
    if (thrown !== undefined) throw thrown;
    if (error instanceof ProviderFailure) throw error;
    throw new ProviderFailure(provider, 'broken', 'it sent an answer that cannot be decoded', error);
  }
}
