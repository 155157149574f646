/** `/v1/files`: kept in memory. */
import type { Form } from './form.ts';
import { type JsonObject, textIn } from './json.ts';
import { pageOf } from './page.ts';
import { Refused } from './refused.ts';
import type { Reply } from './reply.ts';

const PURPOSES = ['assistants', 'batch', 'fine-tune', 'vision', 'user_data', 'evals'];

export interface StoredFile {
  readonly about: JsonObject;
  readonly bytes: Buffer;
}

export interface NewFile {
  readonly filename: string;
  readonly purpose: string;
  readonly bytes: Buffer;
}

/** An id and the time, in Unix seconds, at which it was made. */
export interface Stamp {
  readonly id: string;
  readonly at: number;
}

export class Files {
  readonly #keep: number;
  readonly #stored = new Map<string, StoredFile>();

  /** @param keep number of files above which the oldest are removed */
  constructor(keep: number) {
    this.#keep = keep;
  }

  upload({ fields, files }: Form, stamp: Stamp): Reply {
    const file = files.find(({ field }) => field === 'file');
    if (file === undefined) throw missing('file');
    const purpose = textIn(fields.purpose);
    if (purpose === undefined) throw missing('purpose');
    if (!PURPOSES.includes(purpose))
      throw new Refused(400, `'${purpose}' is not one of [${PURPOSES.join(', ')}] - 'purpose'`, { param: 'purpose' });
    return { status: 200, json: this.add({ filename: file.filename, purpose, bytes: file.bytes }, stamp) };
  }

  add({ filename, purpose, bytes }: NewFile, { id, at }: Stamp): JsonObject {
    const about = {
      id,
      object: 'file',
      bytes: bytes.length,
      created_at: at,
      expires_at: null,
      filename,
      purpose,
      status: 'processed',
      status_details: null,
    };
    this.#stored.set(id, { about, bytes });
    const [oldest] = this.#stored.keys();
    if (this.#stored.size > this.#keep && oldest !== undefined) this.#stored.delete(oldest);
    return about;
  }

  list(query: URLSearchParams): Reply {
    const purpose = query.get('purpose');
    const all = [...this.#stored.values()].map(({ about }) => about);
    const wanted = purpose === null ? all : all.filter((about) => about.purpose === purpose);
    return { status: 200, json: pageOf(wanted, query, { usual: 10_000, most: 10_000 }) };
  }

  retrieve(id: string): Reply {
    return { status: 200, json: this.find(id).about };
  }

  content(id: string): Reply {
    const { about, bytes } = this.find(id);
    const headers = { 'content-disposition': `attachment; filename="${about.filename}"` };
    return { status: 200, bytes, contentType: 'application/octet-stream', headers };
  }

  delete(id: string): Reply {
    this.find(id);
    this.#stored.delete(id);
    return { status: 200, json: { id, object: 'file', deleted: true } };
  }

  find(id: string): StoredFile {
    const stored = this.#stored.get(id);
    if (stored === undefined) throw new Refused(404, `No such File object: ${id}`, { param: 'id' });
    return stored;
  }
}

export function missing(param: string): Refused {
  return new Refused(400, `Missing required parameter: '${param}'.`, { param, code: 'missing_required_parameter' });
}
