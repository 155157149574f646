/**
 * Reads a form until its target is decided. The parts up to there are held in memory; the rest is read when the
 * provider takes it.
 */

import { kindOfField } from '../../model-request/references.ts';
import { refusals } from '../../refusal.ts';
import { type FieldPart, type FilePart, type FormPart, formParts } from './form-parts.ts';

/** Limit for all files before the deciding fields, which are held in memory until then. */
const HELD_BYTES = 64 * 1024 * 1024;

/** A whole file that came before the deciding fields. */
export interface HeldFile extends Omit<FilePart, 'bytes'> {
  readonly bytes: readonly Buffer[];
}

export interface OpenForm {
  /** The text fields so far; of several with one name, the first. */
  readonly fields: ReadonlyMap<string, string>;
  readonly held: readonly (FieldPart | HeldFile)[];
  /** The file at which the target was decided, and the parts behind it. Undefined when the whole form is held. */
  readonly rest: { readonly file: FilePart; readonly parts: AsyncIterator<FormPart> } | undefined;
}

export interface FormSource {
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
