/** A multipart body, read with Node's own parser. */
import { type Json, type JsonObject, parseJson } from './json.ts';
import { Refused } from './refused.ts';

export interface FormFile {
  /** The name of its field, without the `[]` of a list. */
  readonly field: string;
  readonly filename: string;
  readonly contentType: string;
  readonly bytes: Buffer;
}

export interface Form {
  /** As from a JSON body: `name[]` is a list, `simulate` an object, every other field a string. */
  readonly fields: JsonObject;
  readonly files: readonly FormFile[];
}

export function isForm(contentType: string | undefined): contentType is string {
  return contentType?.toLowerCase().startsWith('multipart/form-data') === true;
}

export async function readForm(bytes: Buffer, contentType: string): Promise<Form> {
  const fields: Record<string, Json> = {};
  const files: FormFile[] = [];
  for (const [name, value] of await entriesOf(bytes, contentType)) {
    const field = name.replace(/\[\d*\]$/, '');
    if (typeof value !== 'string') {
      const content = Buffer.from(await value.arrayBuffer());
      files.push({ field, filename: value.name, contentType: value.type, bytes: content });
    } else if (field !== name) {
      const before = fields[field];
      fields[field] = [...(Array.isArray(before) ? before : []), value];
    } else {
      fields[field] = field === 'simulate' ? (parseJson(value) ?? value) : value;
    }
  }
  return { fields, files };
}

async function entriesOf(bytes: Buffer, contentType: string) {
  try {
    const form = await new Response(new Uint8Array(bytes), { headers: { 'content-type': contentType } }).formData();
    return [...form.entries()];
  } catch (error) {
    throw new Refused(400, `The multipart body cannot be read: ${error instanceof Error ? error.message : error}`);
  }
}
