/** A script for a scripted provider that keeps files and batches, as OpenAI does. */
import type { Script, ScriptedRequest } from './scripted-provider.ts';

export interface StoredObject {
  readonly id: string;
  readonly created_at: number;
  readonly [member: string]: unknown;
}

export interface ObjectStore {
  readonly script: Script;
  readonly files: Map<string, StoredObject & { readonly content?: Buffer }>;
  readonly batches: Map<string, StoredObject>;
  /** Every request, as `METHOD path`. */
  readonly requests: string[];
}

/** @param name begins its ids, so that they show their provider */
export function objectStore(name: string, now: () => number): ObjectStore {
  const files: ObjectStore['files'] = new Map();
  const batches: ObjectStore['batches'] = new Map();
  const requests: string[] = [];

  async function answer({ method, path, headers, body }: ScriptedRequest): Promise<[number, object | Buffer]> {
    requests.push(`${method} ${path}`);
    const url = new URL(path, 'http://provider');
    const [, , collection = '', id = '', below = ''] = url.pathname.split('/');
    const created_at = now();
    if (collection === 'files' && method === 'POST') {
      const type = headers['content-type'] ?? '';
      const form = await new Response(new Uint8Array(body), { headers: { 'content-type': type } }).formData();
      const file = form.get('file');
      if (!(file instanceof File)) return [400, { error: { message: 'no file', param: 'file' } }];
      const content = Buffer.from(await file.arrayBuffer());
      const made = { id: `file-${name}${files.size}`, object: 'file', created_at, purpose: form.get('purpose') };
      const facts = { ...made, filename: file.name, bytes: content.length, fields: [...form.keys()] };
      files.set(made.id, { ...facts, content });
      return [200, facts];
    }
    if (collection === 'batches' && method === 'POST' && id === '') {
      const made = { id: `batch_${name}${batches.size}`, object: 'batch', created_at, status: 'validating' };
      const batch = { ...JSON.parse(body.toString()), ...made };
      batches.set(made.id, batch);
      return [200, batch];
    }
    const kept: Map<string, StoredObject> | undefined =
      collection === 'files' ? files : collection === 'batches' ? batches : undefined;
    if (kept === undefined) return [404, { error: { message: 'Unknown request URL', code: 'unknown_url' } }];
    if (id === '') return [200, page([...kept.values()], url.searchParams)];
    const found = kept.get(id);
    if (found === undefined) return [404, { error: { message: `No such object: ${id}`, code: null } }];
    const { content, ...facts } = found;
    if (method === 'DELETE') {
      kept.delete(id);
      return [200, { id, object: 'file', deleted: true }];
    }
    if (below === 'content' && content instanceof Buffer) return [200, content];
    if (below === 'cancel') {
      const cancelled = { ...found, status: 'cancelling' };
      batches.set(id, cancelled);
      return [200, cancelled];
    }
    return [200, facts];
  }

  return {
    files,
    batches,
    requests,
    script(request, response) {
      void answer(request).then(([status, said]) => {
        const isBytes = said instanceof Buffer;
        response.writeHead(status, { 'content-type': isBytes ? 'application/octet-stream' : 'application/json' });
        response.end(isBytes ? said : JSON.stringify(said));
      });
    },
  };
}

function page(all: readonly StoredObject[], query: URLSearchParams): object {
  const order = query.get('order') === 'asc' ? 1 : -1;
  const purpose = query.get('purpose');
  const sorted = all
    .filter((entry) => purpose === null || entry['purpose'] === purpose)
    .sort((a, b) => order * (a.created_at - b.created_at));
  const after = query.get('after');
  const from = after === null ? 0 : sorted.findIndex(({ id }) => id === after) + 1;
  const limit = Number(query.get('limit') ?? 20);
  const data = sorted.slice(from, from + limit).map(({ content: _content, ...facts }) => facts);
  return { object: 'list', data, has_more: from + limit < sorted.length };
}
