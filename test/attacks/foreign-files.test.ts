/**
 * The id of a file of another tenant, at random places of requests to every route with a JSON body: no provider gets
 * it. `ATTACK_CASES` sets the number of requests.
 */
import { afterAll, expect, it } from 'vitest';
import { type ManagedKey, newKey } from '../support/managed-keys.ts';
import { type ScriptedProvider, startScriptedProvider } from '../support/scripted-provider.ts';
import { countOf } from '../support/seed.ts';
import { json, withGateway } from '../support/with-gateway.ts';
import { newRandom, type Random } from './random.ts';

const FOREIGN = 'file-of-beta-0123456789';
let upstream: ScriptedProvider;
/** Whether a request to the provider had the id in it. */
let leaked = false;
let uploads = 0;

const gateway = withGateway(async () => {
  upstream = await startScriptedProvider();
  upstream.script(({ body, path, method }, response) => {
    if (body.includes(FOREIGN)) leaked = true;
    const isUpload = method === 'POST' && path.endsWith('/files');
    if (isUpload) uploads += 1;
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(isUpload ? JSON.stringify({ id: uploads === 1 ? FOREIGN : `file-${uploads}`, object: 'file' }) : '{}');
  });
  return {
    simulated: false,
    env: {
      OPENAI_BASE_URL: upstream.url,
      OPENAI_API_KEY: 'sk',
      ANTHROPIC_BASE_URL: upstream.url,
      ANTHROPIC_API_KEY: 'sk',
      LLAMACPP_BASE_URL: upstream.url,
    },
  };
}, 2);
afterAll(() => upstream.close());

const message = { role: 'user', content: [{ type: 'text', text: 'hi' }] };
const routes: readonly [string, (model: string) => object][] = [
  ['/v1/chat/completions', (model) => ({ model, messages: [message] })],
  ['/v1/responses', (model) => ({ model, input: [{ type: 'message', ...message }], tools: [{ type: 'shell' }] })],
  ['/v1/responses/input_tokens', (model) => ({ model, input: [message], tools: [{ type: 'shell' }] })],
  ['/v1/responses/compact', (model) => ({ model, input: [message] })],
  [
    '/v1/messages',
    (model) => ({ model, max_tokens: 9, messages: [message], tools: [{ name: 'a', input_schema: {} }] }),
  ],
  ['/v1/messages/count_tokens', (model) => ({ model, messages: [message] })],
  ['/v1/embeddings', (model) => ({ model, input: ['a'] })],
  ['/v1/completions', (model) => ({ model, prompt: ['a'] })],
  ['/v1/images/generations', (model) => ({ model, prompt: 'a' })],
  ['/v1/images/edits', (model) => ({ model, prompt: 'a', images: [{ image_url: 'data:,x' }] })],
  ['/v1/audio/speech', (model) => ({ model, input: 'a', voice: 'b' })],
  [
    '/v1/batches',
    (model) => ({ requests: [{ custom_id: 'a', url: '/v1/chat/completions', body: { model, messages: [message] } }] }),
  ],
  [
    '/v1/messages/batches',
    (model) => ({ requests: [{ custom_id: 'a', params: { model, max_tokens: 9, messages: [message] } }] }),
  ],
  ['/p/openai/v1/chat/completions', () => ({ model: 'scripted', messages: [message] })],
  ['/p/anthropic/v1/messages', () => ({ model: 'scripted', messages: [message] })],
];

const names = ['file_id', 'file_ids', 'input_file_id', 'FILE_ID', 'file_ids'] as const;
const around = ['file', 'image_file', 'source', 'output', 'environment', 'new', 'image', 'mask', 'item'] as const;
const types = ['input_file', 'computer_call_output', 'shell', 'of tomorrow', 'file', 'document'] as const;

/** A value that names the file, at most four levels deep. */
function naming({ pick, int }: Random): unknown {
  const name = pick(names);
  let value: unknown = { type: pick(types), [name]: name.endsWith('s') ? ['file-other', FOREIGN] : FOREIGN };
  for (let level = int(4); level > 0; level--) {
    value = int(2) === 0 ? [value] : { type: pick(types), [pick(around)]: value };
  }
  return value;
}

/** Puts the value into one of the objects and lists of the body. */
function place(body: object, value: unknown, { int, pick }: Random): void {
  const places: (object | unknown[])[] = [];
  const collect = (one: unknown): void => {
    if (typeof one !== 'object' || one === null) return;
    places.push(one);
    for (const member of Object.values(one)) collect(member);
  };
  collect(body);
  const at = places[int(places.length)];
  if (Array.isArray(at)) at.splice(int(at.length + 1), 0, value);
  else if (at !== undefined) Object.assign(at, { [pick(around)]: value });
}

/** Names with some letters as escapes. */
function spelled(text: string, { int }: Random): string {
  if (int(3) > 0) return text;
  return text.replaceAll(/file_id/gi, (name) =>
    [...name].map((c) => (int(3) > 0 ? c : `\\u00${c.charCodeAt(0).toString(16)}`)).join(''),
  );
}

it('no provider gets the id of a file of another tenant', { timeout: 600_000 }, async () => {
  const random = newRandom();
  const alpha = await newKey(gateway, { user_path: '/team/alpha' });
  const beta = await newKey(gateway, { user_path: '/team/beta' });
  await upload(beta);
  leaked = false;
  const cases = countOf(100, 3_000, 'ATTACK_CASES');
  for (let one = 0; one < cases; one++) {
    const [path, bodyOf] = routes[random.int(routes.length)] ?? ['', () => ({})];
    const model = random.pick(['openai/scripted', 'anthropic/scripted', 'llamacpp/scripted']);
    const body = structuredClone(bodyOf(model));
    place(body, naming(random), random);
    const text = spelled(JSON.stringify(body), random);
    const answer = await post(alpha, path, text);
    const context = `seed ${random.seed}, request ${one}: POST ${path} ${text} → ${answer.status} ${await answer.text()}`;
    expect(leaked, context).toBe(false);
    if (path.startsWith('/p/') || path === '/v1/chat/completions') {
      expect([400, 403, 404, 501].includes(answer.status), context).toBe(true);
    }
  }
});

it('no conversation brings it to a provider', async () => {
  const random = newRandom();
  const alpha = await newKey(gateway, { user_path: '/team/alpha' });
  for (let one = 0; one < 50; one++) {
    const item = { type: 'message', ...structuredClone(message) };
    place(item, naming(random), random);
    const made = await post(alpha, '/v1/conversations', JSON.stringify({ items: [item] }));
    expect([400, 404], JSON.stringify(item)).toContain(made.status);
    const { id } = await json(await post(alpha, '/v1/conversations', '{}'));
    const added = await post(alpha, `/v1/conversations/${id}/items`, JSON.stringify({ items: [item] }));
    expect([400, 404], JSON.stringify(item)).toContain(added.status);
  }
  expect(leaked).toBe(false);
});

async function upload(key: ManagedKey): Promise<void> {
  const form = new FormData();
  form.append('purpose', 'user_data');
  form.append('provider', 'openai');
  form.append('file', new Blob(['a secret\n']), 'in.txt');
  const answer = await key.fetch('/v1/files', { method: 'POST', body: form });
  expect(answer.status, await answer.clone().text()).toBe(200);
}

function post(key: ManagedKey, path: string, body: string): Promise<Response> {
  return key.fetch(path, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
}
