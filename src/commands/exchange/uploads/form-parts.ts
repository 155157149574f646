/**
 * A multipart form, read part by part as it arrives (RFC 7578). A part is read only after the part before it has
 * ended.
 */
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Busboy } from '@fastify/busboy';
import { Refusal, refusals } from '../../refusal.ts';

/** A form's fields are short options of a request. */
const MAX_FIELD_BYTES = 1024 * 1024;
const MAX_PARTS = 1000;

export interface FieldPart {
  readonly kind: 'field';
  readonly name: string;
  readonly value: string;
  readonly contentType: string;
}

export interface FilePart {
  readonly kind: 'file';
  readonly name: string;
  readonly filename: string | undefined;
  readonly contentType: string;
  /** The content of the file, which must be read to its end before the next part is read. */
  readonly bytes: AsyncIterable<Buffer>;
}

export type FormPart = FieldPart | FilePart;

/**
 * @param contentType content type of the request, with the form's boundary
 * @throws Refusal when the body is not a form, is too large, or breaks off
 */
export async function* formParts(
  pieces: AsyncIterable<Buffer>,
  contentType: string,
  limitBytes: number,
): AsyncGenerator<FormPart> {
  const parser = createParser(contentType);
  const parts = new Readable({ objectMode: true, read() {} });
  // A reader gets the error from its iteration. Without a reader, an error must not end the process.
  parts.on('error', () => {});
  let open: Readable | undefined;
  parser.on('file', (name, bytes, filename, _encoding, type) => {
    open = bytes;
    bytes.on('error', () => {});
    const part: FilePart = { kind: 'file', name: name ?? '', filename, contentType: type, bytes: bytesOf(bytes) };
    parts.push(part);
  });
  parser.on('field', (name, value, _nameTruncated, truncated, _encoding, type) => {
    if (truncated) return parser.destroy(refusals.invalidForm(`its field '${name}' is too long`));
    const part: FieldPart = { kind: 'field', name: name ?? '', value, contentType: type };
    parts.push(part);
  });
  parser.on('partsLimit', () => parser.destroy(refusals.invalidForm(`it has more than ${MAX_PARTS} parts`)));

  pipeline(within(limitBytes, pieces), parser).then(
    () => parts.push(null),
    (error: unknown) => {
      const refusal = error instanceof Refusal ? error : refusals.invalidForm(reasonOf(error));
      open?.destroy(refusal);
      parts.destroy(refusal);
    },
  );
  try {
    for await (const part of parts) yield part;
  } finally {
    parser.destroy();
  }
}

/** @throws Refusal */
async function* bytesOf(file: Readable): AsyncGenerator<Buffer> {
  try {
    for await (const piece of file) yield piece;
  } catch (error) {
    throw error instanceof Refusal ? error : refusals.invalidForm(reasonOf(error));
  }
}

/** @throws Refusal */
function createParser(contentType: string) {
  if (!/^multipart\/form-data\b/i.test(contentType)) throw refusals.formExpected(contentType);
  try {
    return new Busboy({
      headers: { 'content-type': contentType },
      preservePath: true,
      limits: { fieldSize: MAX_FIELD_BYTES, parts: MAX_PARTS, headerSize: 16 * 1024 },
    });
  } catch (error) {
    throw refusals.invalidForm(reasonOf(error));
  }
}

async function* within(limitBytes: number, pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let bytes = 0;
  for await (const piece of pieces) {
    bytes += piece.length;
    if (bytes > limitBytes) throw refusals.bodyTooLarge(limitBytes);
    yield piece;
  }
}

function reasonOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return message.charAt(0).toLowerCase() + message.slice(1);
}
