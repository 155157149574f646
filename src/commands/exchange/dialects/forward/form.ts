/**
 * A form on its way to the provider: written again part by part, with the gateway's own fields changed or left out.
 * Each part is recorded in an event after it was sent.
 */
import { createHash, type Hash, randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Busboy } from '@fastify/busboy';
import { requestBodyReceived, requestPartReceived } from '../../../../events/catalogue/exchange.ts';
import { LogUnavailable } from '../../../../events/log.ts';
import { kindOfField } from '../../../model-request/references.ts';
import { Refusal, refusals } from '../../../refusal.ts';
import type { ExchangeRecord } from '../../exchange-record.ts';
import type { Upload } from '../../plan.ts';

interface FormUploadOptions {
  readonly record: ExchangeRecord;
  /** The value that the provider gets for a field; undefined when it does not get the field. */
  change(name: string, value: string): string | undefined;
  /** Checks a field behind the file at which the target was decided. @throws Refusal when the field comes too late */
  late(name: string, value: string): void;
  /** Whether the record keeps text fields, and the bytes of files. */
  readonly keepText: boolean;
  readonly keepFiles: boolean;
}

export class FormUpload implements Upload {
  readonly #form: OpenForm;
  readonly #options: FormUploadOptions;
  readonly #boundary = `form-${randomUUID()}`;
  #pieces = 0;
  #failure: Refusal | LogUnavailable | undefined;

  constructor(form: OpenForm, options: FormUploadOptions) {
    this.#form = form;
    this.#options = options;
  }

  get contentType(): string {
    return `multipart/form-data; boundary=${this.#boundary}`;
  }

  get failure(): Refusal | LogUnavailable | undefined {
    return this.#failure;
  }

  /** The whole form, when all of it is held in memory. */
  held(): Buffer {
    const pieces: Buffer[] = [];
    for (const part of this.#form.held) pieces.push(...this.#held(part));
    return Buffer.concat([...pieces, formEnd(this.#boundary)]);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer> {
    const { held, rest } = this.#form;
    const { record } = this.#options;
    try {
      for (const part of held) yield* this.#held(part);
      if (rest !== undefined) {
        yield* this.#file(rest.file);
        for (let next = await rest.parts.next(); next.done !== true; next = await rest.parts.next()) {
          const part = next.value;
          if (part.kind === 'file') yield* this.#file(part);
          else {
            this.#options.late(part.name, part.value);
            yield* this.#field(part);
          }
        }
      }
      await record.flush('written');
      yield formEnd(this.#boundary);
    } catch (error) {
      if (error instanceof Refusal || error instanceof LogUnavailable) this.#failure = error;
      throw error;
    } finally {
      await rest?.parts.return?.();
    }
  }

  *#held(part: FieldPart | HeldFile): Generator<Buffer> {
    if (part.kind === 'field') {
      yield* this.#field(part);
      return;
    }
    const digest = this.#digest();
    yield partHead(this.#boundary, part);
    for (const piece of part.bytes) {
      digest.take(piece);
      yield piece;
    }
    digest.end(part);
    yield PART_END;
  }

  *#field({ name, value, contentType }: FieldPart): Generator<Buffer> {
    const { record, keepText, change } = this.#options;
    const bytes = Buffer.byteLength(value);
    const facts = { name, bytes, value: keepText ? value : undefined };
    record.note(requestPartReceived.create(facts, record.context));
    const changed = change(name, value);
    if (changed === undefined) return;
    const type = contentType === 'text/plain' ? undefined : contentType;
    yield partHead(this.#boundary, { name, contentType: type });
    yield Buffer.from(changed);
    yield PART_END;
  }

  async *#file(part: FilePart): AsyncGenerator<Buffer> {
    const { record } = this.#options;
    const digest = this.#digest();
    yield partHead(this.#boundary, part);
    for await (const piece of part.bytes) {
      digest.take(piece);
      await record.flush('written');
      yield piece;
    }
    digest.end(part);
    yield PART_END;
  }

  #digest(): { take(piece: Buffer): void; end(part: Omit<FilePart, 'bytes' | 'kind'>): void } {
    const { record, keepFiles } = this.#options;
    const hash: Hash = createHash('sha256');
    let bytes = 0;
    return {
      take: (piece) => {
        hash.update(piece);
        bytes += piece.length;
        if (keepFiles) record.note(requestBodyReceived.create({ index: this.#pieces++ }, record.context, piece));
      },
      end: ({ name, filename, contentType }) => {
        const sha256 = hash.digest('hex');
        record.note(requestPartReceived.create({ name, filename, contentType, bytes, sha256 }, record.context));
      },
    };
  }
}

// Reads a form until its target is decided. The parts up to there are held in memory; the rest is read when the
// provider takes it.

/** Limit for all files before the deciding fields, which are held in memory until then. */
const HELD_BYTES = 64 * 1024 * 1024;

/** A whole file that came before the deciding fields. */
interface HeldFile extends Omit<FilePart, 'bytes'> {
  readonly bytes: readonly Buffer[];
}

export interface OpenForm {
  /** The text fields so far; of several with one name, the first. */
  readonly fields: ReadonlyMap<string, string>;
  readonly held: readonly (FieldPart | HeldFile)[];
  /** The file at which the target was decided, and the parts behind it. Undefined when the whole form is held. */
  readonly rest: { readonly file: FilePart; readonly parts: AsyncIterator<FormPart> } | undefined;
}

interface FormSource {
  readonly pieces: AsyncIterable<Buffer>;
  /** Content type of the request, with the form's boundary. */
  readonly contentType: string;
  readonly limitBytes: number;
}

/**
 * @param isDecided called when a file begins: whether the fields before it determine the target
 * @throws Refusal when the body is not a form, is too large, or breaks off
 */
export async function openForm(
  source: FormSource,
  isDecided: (fields: ReadonlyMap<string, string>) => boolean,
): Promise<OpenForm> {
  const parts = checkedParts(formParts(source.pieces, source.contentType, source.limitBytes));
  const fields = new Map<string, string>();
  const held: (FieldPart | HeldFile)[] = [];
  let heldBytes = 0;
  for (let next = await parts.next(); next.done !== true; next = await parts.next()) {
    const part = next.value;
    if (part.kind === 'file') {
      if (isDecided(fields)) return { fields, held, rest: { file: part, parts } };
      const { bytes, ...facts } = part;
      const pieces: Buffer[] = [];
      for await (const piece of bytes) {
        heldBytes += piece.length;
        if (heldBytes > HELD_BYTES) {
          await parts.return(undefined);
          throw refusals.fileBeforeFields(HELD_BYTES);
        }
        pieces.push(piece);
      }
      held.push({ ...facts, bytes: pieces });
    } else {
      if (!fields.has(part.name)) fields.set(part.name, part.value);
      held.push(part);
    }
  }
  return { fields, held, rest: undefined };
}

/** @throws Refusal for a part that a provider could interpret differently from the gateway */
async function* checkedParts(parts: AsyncIterable<FormPart>): AsyncGenerator<FormPart> {
  const values = new Map<string, string>();
  for await (const part of parts) {
    const { kind, name } = part;
    if (kind === 'file') {
      if (mayBeControlField(name)) throw refusals.controlFieldAsFile(name);
    } else if (isControlField(name)) {
      if ((values.get(name) ?? part.value) !== part.value) {
        throw refusals.invalidForm(`its field '${name}' has two values`);
      }
      values.set(name, part.value);
    }
    yield part;
  }
}

/** The form fields that the gateway uses to decide the target, the cost, and the access to files. */
const CONTROL_FIELDS: ReadonlySet<string> = new Set(['model', 'provider', 'stream', 'n']);

/** Whether a form may contain the field only once. */
function isControlField(name: string): boolean {
  return CONTROL_FIELDS.has(name);
}

/**
 * Whether a provider may take a part of this name for a control field, also when it ignores case, spaces or brackets.
 * Such a part must be text, which the gateway reads.
 */
function mayBeControlField(name: string): boolean {
  const plain = name.trim().toLowerCase();
  return CONTROL_FIELDS.has(plain.replace(/\[.*$/s, '').trim()) || kindOfField(plain) !== undefined;
}

// A multipart form, read part by part as it arrives (RFC 7578). A part is read only after the part before it has
// ended.

/** A form's fields are short options of a request. */
const MAX_FIELD_BYTES = 1024 * 1024;
const MAX_PARTS = 1000;

interface FieldPart {
  readonly kind: 'field';
  readonly name: string;
  readonly value: string;
  readonly contentType: string;
}

interface FilePart {
  readonly kind: 'file';
  readonly name: string;
  readonly filename: string | undefined;
  readonly contentType: string;
  /** The content of the file, which must be read to its end before the next part is read. */
  readonly bytes: AsyncIterable<Buffer>;
}

type FormPart = FieldPart | FilePart;

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

// Writes a multipart form (RFC 7578, names escaped as in WHATWG's HTML). Pure.

interface PartHead {
  readonly name: string;
  readonly filename?: string | undefined;
  readonly contentType?: string | undefined;
}

const LINE = '\r\n';

/** The bytes before the content of a part. */
export function partHead(boundary: string, { name, filename, contentType }: PartHead): Buffer {
  const named = `; name="${escaped(name)}"`;
  const file = filename === undefined ? '' : `; filename="${escaped(filename)}"`;
  const type = contentType === undefined ? '' : `content-type: ${contentType}${LINE}`;
  return Buffer.from(`--${boundary}${LINE}content-disposition: form-data${named}${file}${LINE}${type}${LINE}`);
}

/** The bytes after the content of a part. */
export const PART_END = Buffer.from(LINE);

/** The bytes after the last part. */
export function formEnd(boundary: string): Buffer {
  return Buffer.from(`--${boundary}--${LINE}`);
}

function escaped(text: string): string {
  return text.replaceAll('\r', '%0D').replaceAll('\n', '%0A').replaceAll('"', '%22');
}
