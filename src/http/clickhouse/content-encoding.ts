/** `Content-Encoding` of answers and bodies for ClickHouse's clients. */
import { Transform } from 'node:stream';
import * as zlib from 'node:zlib';
import { ClickHouseException } from './embedded-clickhouse.ts';
import { lz4Compress } from './lz4.ts';

/** The cheapest for the processor first. LZ4 is last: it is not part of Node. */
const encoders: Readonly<Record<string, () => Transform>> = {
  zstd: () => zlib.createZstdCompress({ params: { [zlib.constants.ZSTD_c_compressionLevel]: 1 } }),
  gzip: () => zlib.createGzip({ level: 1 }),
  deflate: () => zlib.createDeflate({ level: 1 }),
  br: () => zlib.createBrotliCompress({ params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 1 } }),
  lz4: () => new Lz4Frame(),
};

const decoders: Readonly<Record<string, () => Transform>> = {
  // At most 8 MiB of memory for a frame's window, whatever the frame demands (RFC 9659).
  zstd: () => zlib.createZstdDecompress({ params: { [zlib.constants.ZSTD_d_windowLogMax]: 23 } }),
  gzip: zlib.createGunzip,
  'x-gzip': zlib.createGunzip,
  deflate: zlib.createInflate,
  br: zlib.createBrotliDecompress,
};

export interface Encoding {
  readonly name: string;
  readonly encoder: Transform;
}

/** The encoding of an answer; undefined when the client accepts none of the available ones. */
export function encodingFor(accepted: string | undefined): Encoding | undefined {
  const acceptable = new Set<string>();
  for (const one of (accepted ?? '').split(',')) {
    const [name = '', ...parameters] = one.split(';').map((part) => part.trim().toLowerCase());
    if (!parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter))) acceptable.add(name);
  }
  for (const [name, encoder] of Object.entries(encoders)) if (acceptable.has(name)) return { name, encoder: encoder() };
  return undefined;
}

/** Undefined for a body that is not encoded. @throws ClickHouseException for an unsupported encoding */
export function decoderOf(encoding: string | undefined): Transform | undefined {
  const name = (encoding ?? '').trim().toLowerCase();
  if (name === '' || name === 'identity') return undefined;
  const decoder = decoders[name];
  if (decoder === undefined) {
    const offered = Object.keys(decoders).join(', ');
    throw new ClickHouseException(
      89,
      `Code: 89. DB::Exception: Unknown HTTP content encoding: ${name}; there is ${offered}. (UNKNOWN_COMPRESSION_METHOD)`,
    );
  }
  return decoder();
}

/** The LZ4 frame (github.com/lz4/lz4, doc/lz4_Frame_format.md): blocks of at most 64 KiB, without checksums. */
class Lz4Frame extends Transform {
  static readonly #head = Buffer.from([0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82]);
  static readonly #blockBytes = 64 * 1024;
  #begun = false;

  override _transform(piece: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.#begin();
    for (let at = 0; at < piece.length; at += Lz4Frame.#blockBytes) {
      const bytes = piece.subarray(at, at + Lz4Frame.#blockBytes);
      const compressed = lz4Compress(bytes);
      // The highest bit marks uncompressed bytes: a block must not be larger than its content.
      const isSmaller = compressed.length < bytes.length;
      const size = Buffer.alloc(4);
      size.writeUInt32LE(isSmaller ? compressed.length : bytes.length + 0x80000000);
      this.push(size);
      this.push(isSmaller ? compressed : bytes);
    }
    done();
  }

  override _flush(done: () => void): void {
    this.#begin();
    this.push(Buffer.alloc(4));
    done();
  }

  #begin(): void {
    if (this.#begun) return;
    this.#begun = true;
    this.push(Lz4Frame.#head);
  }
}
