/**
 * A form on its way to the provider: written again part by part, with the gateway's own fields changed or left out.
 * Each part is recorded in an event after it was sent.
 */
import { createHash, type Hash, randomUUID } from 'node:crypto';
import { requestBodyReceived, requestPartReceived } from '../../../events/catalogue/exchange.ts';
import { LogUnavailable } from '../../../events/log.ts';
import { Refusal } from '../../refusal.ts';
import type { ExchangeRecord } from '../exchange-record.ts';
import type { Upload } from '../plan.ts';
import { formEnd, PART_END, partHead } from './form-encoding.ts';
import type { FieldPart, FilePart } from './form-parts.ts';
import type { HeldFile, OpenForm } from './open-form.ts';

export interface FormUploadOptions {
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
