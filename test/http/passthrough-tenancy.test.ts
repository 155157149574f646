/**
 * A provider stores objects of all callers under the gateway's one account. A caller that does not see everything
 * reaches the provider's own API only where no stored object is involved.
 */

import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { withBothKinds } from '../support/both-kinds.ts';
import { type ManagedKey, newKey } from '../support/managed-keys.ts';
import { type ScriptedProvider, startScriptedProvider } from '../support/scripted-provider.ts';
import { errorOf, json, user, withGateway } from '../support/with-gateway.ts';

/** Every provider answers, so that each refusal comes from the gateway. */
let upstream: ScriptedProvider;
const scripted = withGateway(async () => {
  upstream = await startScriptedProvider();
  upstream.script(({ path }, response) => {
    // A local server that cannot be listed would be probed again between the requests that are checked.
    const body = path === '/api/tags' ? '{"models":[]}' : '{}';
    response.writeHead(200, { 'content-type': 'application/json' }).end(body);
  });
  return {
    register: () => ({
      LLAMACPP_BASE_URL: upstream.url,
      OPENAI_BASE_URL: upstream.url,
      OPENAI_API_KEY: 'sk',
      ANTHROPIC_BASE_URL: upstream.url,
      ANTHROPIC_API_KEY: 'sk',
      OLLAMA_BASE_URL: upstream.url.replace(/\/v1$/, ''),
      PASSTHROUGH_STATELESS_ROUTES: 'POST /v1/own/classify, GET /status',
    }),
  };
}, 3);
afterAll(() => upstream.close());

const restricted: Record<string, { user_path?: string; dashboard_access?: boolean }> = {
  'a key of a team': { user_path: '/team/alpha' },
  'an administrator of a subtree': { user_path: '/team', dashboard_access: true },
  'a plain key without a path': {},
  'a plain key of the root': { user_path: '/' },
};

/** A provider's own API has many more: a path that is not known to be harmless is refused. */
const stateful = [
  ['GET', 'openai', 'v1/files'],
  ['POST', 'openai', 'v1/files'],
  ['GET', 'openai', 'v1/files/file-of-beta'],
  ['GET', 'openai', 'files/file-of-beta'],
  ['HEAD', 'openai', 'v1/files/file-of-beta'],
  ['DELETE', 'openai', 'v1/files/file-of-beta'],
  ['GET', 'openai', 'v1/files/file-of-beta/content'],
  ['GET', 'openai', 'v1/f%69les/file-of-beta'],
  ['GET', 'openai', 'v1//files'],
  ['GET', 'openai', 'V1/FILES'],
  ['POST', 'openai', 'v1/uploads'],
  ['GET', 'openai', 'v1/batches'],
  ['POST', 'openai', 'v1/batches'],
  ['POST', 'openai', 'v1/batches/b/cancel'],
  ['GET', 'openai', 'v1/responses/resp_of_beta'],
  ['DELETE', 'openai', 'v1/responses/resp_of_beta'],
  ['POST', 'openai', 'v1/responses'],
  ['POST', 'openai', 'v1/responses/input_tokens'],
  ['GET', 'openai', 'v1/conversations/c'],
  ['POST', 'openai', 'v1/conversations'],
  ['GET', 'openai', 'v1/chat/completions'],
  ['GET', 'openai', 'v1/chat/completions/of-beta/messages'],
  ['DELETE', 'openai', 'v1/chat/completions/of-beta'],
  ['GET', 'openai', 'v1/assistants'],
  ['POST', 'openai', 'v1/threads'],
  ['GET', 'openai', 'v1/threads/t/messages'],
  ['GET', 'openai', 'v1/vector_stores'],
  ['POST', 'openai', 'v1/vector_stores/v/search'],
  ['GET', 'openai', 'v1/containers/c/files'],
  ['GET', 'openai', 'v1/fine_tuning/jobs'],
  ['DELETE', 'openai', 'v1/models/ft:of-beta'],
  ['GET', 'openai', 'v1/organization/admin_api_keys'],
  ['GET', 'anthropic', 'v1/messages/batches'],
  ['GET', 'anthropic', 'v1/files'],
  ['GET', 'llamacpp', 'slots'],
  ['GET', 'llamacpp', 'slots?x=y'],
  ['POST', 'llamacpp', 'slots/0?action=save'],
  ['POST', 'llamacpp', 'slots/0?action=restore'],
  ['POST', 'llamacpp', 'props'],
  ['POST', 'llamacpp', 'lora-adapters'],
  ['GET', 'llamacpp', 'metrics'],
  ['POST', 'llamacpp', 'models/unload'],
  ['POST', 'ollama', 'api/pull'],
  ['DELETE', 'ollama', 'api/delete'],
  ['OPTIONS', 'openai', 'v1/files'],
  ['GET', 'openai', 'something/new'],
] as const;

const stateless = [
  ['GET', 'openai', 'v1/models'],
  ['GET', 'openai', 'models/gpt-5'],
  ['GET', 'openai', 'v1/models/org/model?x=y'],
  ['POST', 'openai', 'v1/chat/completions'],
  ['POST', 'openai', 'chat/completions'],
  ['POST', 'openai', 'v1/completions'],
  ['POST', 'openai', 'v1/embeddings'],
  ['POST', 'openai', 'v1/moderations'],
  ['POST', 'openai', 'v1/audio/speech'],
  ['POST', 'openai', 'v1/images/generations'],
  ['POST', 'anthropic', 'v1/messages'],
  ['POST', 'anthropic', 'v1/messages/count_tokens'],
  ['GET', 'llamacpp', 'health'],
  ['GET', 'llamacpp', 'v1/health'],
  ['HEAD', 'llamacpp', 'health'],
  ['GET', 'llamacpp', 'props'],
  ['POST', 'llamacpp', 'tokenize'],
  ['POST', 'llamacpp', 'detokenize'],
  ['POST', 'llamacpp', 'apply-template'],
  ['POST', 'llamacpp', 'infill'],
  ['POST', 'llamacpp', 'completion'],
  ['POST', 'llamacpp', 'rerank'],
  ['POST', 'llamacpp', 'v1/rerank'],
  ['POST', 'ollama', 'api/chat'],
  ['POST', 'ollama', 'api/generate'],
  ['POST', 'ollama', 'api/embed'],
  ['GET', 'ollama', 'api/tags'],
  ['POST', 'ollama', 'v1/chat/completions'],
  ['POST', 'openai', 'v1/own/classify'],
  ['GET', 'openai', 'status'],
] as const;

function ask(key: Pick<ManagedKey, 'fetch'>, method: string, provider: string, path: string) {
  const body = method === 'POST' ? { body: '{}', headers: { 'content-type': 'application/json' } } : {};
  return key.fetch(`/p/${provider}/${path}`, { method, ...body });
}

describe.each(Object.entries(restricted))('%s', (_name, body) => {
  let key: ManagedKey;
  beforeAll(async () => {
    key = await newKey(scripted, body);
  });

  it.each(stateful)('may not %s /p/%s/%s', async (method, provider, path) => {
    await ask(scripted, 'GET', 'openai', 'v1/marker');
    const refused = await ask(key, method, provider, path);
    expect(refused.status).toBe(403);
    expect(refused.headers.get('x-should-retry')).toBe('false');
    if (method !== 'HEAD') {
      expect(await errorOf(refused, 403)).toMatchObject({
        code: 'passthrough_scope_denied',
        type: 'permission_error',
        param: null,
      });
    }
    expect(upstream.last().path).toBe('/v1/marker');
  });

  it.each(stateless)('may %s /p/%s/%s', async (method, provider, path) => {
    const answer = await ask(key, method, provider, path);
    expect(answer.status, await answer.text()).toBe(200);
    expect(upstream.last()).toMatchObject({ method });
  });
});

it.each([...stateful, ...stateless])('callers that see everything may %s /p/%s/%s', async (method, provider, path) => {
  const global = await newKey(scripted, { dashboard_access: true });
  for (const caller of [scripted, global]) expect((await ask(caller, method, provider, path)).status).toBe(200);
  // The header narrows what they see on /v1; it does not make another caller of them.
  const headers = { 'x-gateway-user-path': '/team/alpha' };
  expect((await scripted.fetch(`/p/${provider}/${path}`, { method, headers })).status).toBe(200);
});

describe('a body under /p', () => {
  const { gateway } = withBothKinds();
  let alpha: ManagedKey;
  const files = { alpha: '', beta: '', untracked: '' };

  async function uploaded(by: Pick<ManagedKey, 'fetch'>, path = '/v1/files'): Promise<string> {
    const form = new FormData();
    form.append('purpose', 'user_data');
    if (path === '/v1/files') form.append('provider', 'openai');
    form.append('file', new Blob(['a secret\n']), 'in.txt');
    return (await json(await by.fetch(path, { method: 'POST', body: form }))).id;
  }

  beforeAll(async () => {
    alpha = await newKey(gateway, { user_path: '/team/alpha' });
    files.alpha = await uploaded(alpha);
    files.beta = await uploaded(await newKey(gateway, { user_path: '/team/beta' }));
    files.untracked = await uploaded(gateway, '/p/openai/v1/files');
  });

  const asking = (id: string) => ({
    model: 'simulated-small',
    messages: [
      {
        role: 'user',
        content: [
          { type: 'file', file: { file_id: id } },
          { type: 'text', text: 'Read it' },
        ],
      },
    ],
  });
  const send = (body: string | Buffer, headers: Record<string, string> = {}) =>
    alpha.fetch('/p/openai/v1/chat/completions', {
      method: 'POST',
      body: typeof body === 'string' ? body : new Uint8Array(body),
      headers: { 'content-type': 'application/json', ...headers },
    });

  it('may name a file that the caller sees', async () => {
    const answer = await send(JSON.stringify(asking(files.alpha)));
    expect(answer.status, await answer.text()).toBe(200);
  });

  it.each(['beta', 'untracked'] as const)('may not name another file (%s)', async (whose) => {
    const missing = await errorOf(await send(JSON.stringify(asking('file-none'))), 404);
    const refused = await errorOf(await send(JSON.stringify(asking(files[whose]))), 404);
    expect({ ...refused, message: refused.message.replace(files[whose], 'file-none') }).toEqual(missing);
  });

  it.each([
    (id: string) => [{ type: 'image_file', image_file: { file_id: id } }],
    (id: string) => [{ type: 'of tomorrow', nested: [{ deeply: { file_ids: [id] } }] }],
  ])('may not name it in a part of any other type (%#)', async (content) => {
    const body = (id: string) => JSON.stringify({ ...asking(''), messages: [{ role: 'user', content: content(id) }] });
    expect((await send(body(files.alpha))).status).toBe(200);
    expect((await send(body(files.beta))).status).toBe(404);
  });

  it.each<(id: string) => object>([
    (id) => ({ file_ids: [[id]] }),
    (id) => ({ file_id: { id } }),
    (id) => ({ x_file_ids: { a: { b: [id] } } }),
    (id) => ({ fileId: id }),
    (id) => ({ cached_content: id }),
    (id) => ({ cachedContent: id }),
    (id) => ({ file_uri: id }),
    (id) => ({ fileData: { fileUri: `https://generativelanguage.googleapis.com/v1beta/files/${id}` } }),
    (id) => ({ voice: { id } }),
    (id) => ({ '\u017fkill_id': id }),
    (id) => ({ 's\u212aill_ids': [id] }),
    (id) => ({ properties: { file_id: id } }),
  ])('may not name it in another form (%#), as on /v1', async (reference) => {
    const send = (path: string, model: string, more: object) =>
      alpha.fetch(path, { json: { model, messages: user('hi'), ...more } });
    for (const more of [reference(files.beta), { tools: [{ type: 'new', ...reference(files.beta) }] }]) {
      const answers = [
        await send('/p/openai/v1/chat/completions', 'simulated-small', more),
        await send('/v1/chat/completions', 'openai/simulated-small', more),
      ];
      for (const answer of answers) expect([403, 404], await answer.clone().text()).toContain(answer.status);
      expect(await answers[0]?.text()).toMatch(/not_found|stored_reference_denied/);
    }
  });

  it('may have names of its own in schemas, and public videos', async () => {
    const parameters = { type: 'object', properties: { file_id: { type: 'string' }, fileUri: { type: 'string' } } };
    const more = { tools: [{ type: 'function', function: { name: 'f', parameters } }] };
    const video = { fileUri: 'https://www.youtube.com/watch?v=x', voice: 'alloy' };
    for (const one of [more, video]) {
      const answer = await send(JSON.stringify({ ...asking(files.alpha), ...one }));
      expect(answer.status, await answer.text()).toBe(200);
    }
  });

  it('has a query that names only files that the caller sees', async () => {
    const status = async (query: string) => (await alpha.fetch(`/p/openai/v1/models?${query}`)).status;
    expect(await status(`file_id=${files.alpha}&limit=1`)).toBe(200);
    expect(await status(`limit=1&file_id=${files.beta}`)).toBe(404);
    expect(await status(`file%5Fids%5B0%5D=${files.beta}`)).toBe(404);
    expect(await status('vector_store_id=vs_1')).toBe(403);
  });

  it('may not name it in another spelling, encoding or size', async () => {
    const text = JSON.stringify(asking(files.beta));
    const escaped = text.replaceAll('file_id', '\\u0066ile_id');
    expect((await send(escaped)).status).toBe(404);
    expect((await send(Buffer.from(text, 'utf16le'))).status).toBe(400);
    expect((await send(gzipSync(text), { 'content-encoding': 'gzip' })).status).toBe(404);
    expect((await send(`${text.slice(0, -1)}, "pad": "${'x'.repeat(100_000)}"}`)).status).toBe(404);
    expect((await send(`${text} nonsense`)).status).toBe(400);
    const { body } = new Response(text);
    const streamed = await alpha.fetch('/p/openai/v1/chat/completions', {
      method: 'POST',
      body,
      duplex: 'half',
      headers: { 'content-type': 'application/json' },
    } as RequestInit);
    expect(streamed.status).toBe(404);
  });

  it('is passed on byte for byte when it names none', async () => {
    const body = `{ "model": "simulated-small",  "messages": ${JSON.stringify(user('héllo'))} }`;
    const answer = await send(body);
    expect(answer.status, await answer.text()).toBe(200);
  });
});
