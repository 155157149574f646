/** A multipart form, read part by part as it arrives (RFC 7578). No part is read before the one in front of it was. */
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Busboy } from '@fastify/busboy';
import { Refusal, refusals } from '../../refusal.ts';

/** A form's fields are options of a request, and an option is no novel. */
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
  /** To be read to its end before the next part is asked for. */
  readonly bytes: AsyncIterable<Buffer>;
}

export type FormPart = FieldPart | FilePart;

/**
 * @param contentType of the request, with the form's boundary
 * @throws Refusal when it is no form, is too large, or breaks off
 */
export async function* formParts(
  pieces: AsyncIterable<Buffer>,
  contentType: string,
  limitBytes: number,
): AsyncGenerator<FormPart> {
  const parser = createParser(contentType);
  const parts = new Readable({ objectMode: true, read() {} });
  // Whoever reads on is told; a form that nobody reads to its end may break off unheard.
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
