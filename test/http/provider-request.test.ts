/** What providers received, read from the record: equal to what the simulated providers got. */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { pluginFolder, source } from '../plugins/plugin-files.ts';
import type { Answered } from '../support/answered.ts';
import { guard, saveGuardrail, withGuardrails } from '../support/guarded.ts';
import { saved, withProviders } from '../support/several-providers.ts';
import { exchangeOf, user } from '../support/with-gateway.ts';
import { administrator } from './admin-history-steps.ts';

const switching = source(
  `request({ headers }) {
     return headers['x-test'] === 'switch' ? { model: 'llamacpp-b/two', headers: { set: { 'x-set': 'one' } } } : undefined;
   }`,
  { name: 'switching' },
);
const { folder, remove } = pluginFolder({ 'switching.ts': switching });
afterAll(remove);

const { gateway, provider, requestsTo } = withProviders(
  {
    a: { models: ['one'], responses: 'absent' },
    b: { models: ['two'], responses: 'absent' },
    claude: { type: 'anthropic', models: ['claude'] },
    native: { type: 'openai', models: ['native'] },
    own: { type: 'ollama', models: ['own'] },
  },
  {
    env: {
      ...withGuardrails,
      RESPONSE_CACHE_ENABLED: 'true',
      RETRY_MAX_RETRIES: '2',
      RETRY_INITIAL_BACKOFF: '2ms',
      CIRCUIT_BREAKER_ENABLED: 'false',
      PLUGINS_ENABLED: 'true',
      PLUGINS: JSON.stringify([{ path: join(folder, 'switching.ts') }]),
    },
  },
);
const admin = administrator(gateway);
const names = ['a', 'b', 'claude', 'native', 'own'] as const;
const failover = [
  { provider: 'llamacpp-a', model: 'one' },
  { provider: 'anthropic-claude', model: 'claude' },
  { provider: 'llamacpp-b', model: 'two' },
];

beforeAll(async () => {
  await saved(gateway, { source: 'first-of-three', targets: failover, strategy: 'failover' });
  await saved(gateway, { source: 'alias', targets: [{ provider: 'llamacpp-b', model: 'two' }] });
});

const read = (id: string, query = '') => admin.get(`/admin/audit/provider-request?log_id=${id}${query}`);
const as = (value: string) => ({ authorization: `Bearer ${value}` });
let different = 0;
/** A text that no other test sends: an equal request would be answered from the cache. */
const fresh = () => `Text number ${++different} über alles`;

/** Without requests for descriptions of models. */
const callsTo = (name: (typeof names)[number]) =>
  requestsTo(name).filter(({ path }) => !/^\/api\/(show|tags)/.test(path));

/** Sends the request, and returns its exchange with what each provider got for it. */
async function sent(path: string, body: object | string, headers: Record<string, string> = {}) {
  const before = new Map(names.map((name) => [name, callsTo(name).length]));
  const answer = await gateway.post(path, body, { headers });
  const text = await answer.text();
  const got = names.flatMap((name) =>
    callsTo(name)
      .slice(before.get(name))
      .map((request) => ({ name, request })),
  );
  return { id: exchangeOf(answer), status: answer.status, text, got };
}

/** Every attempt on record is what a provider got, byte for byte. */
async function expectRecorded(path: string, body: object | string, headers: Record<string, string> = {}) {
  const { id, status, text, got } = await sent(path, body, headers);
  expect({ status, text: status === 200 ? '' : text }).toEqual({ status: 200, text: '' });
  const answers: Answered[] = [];
  const open = [...got];
  for (let attempt = 1; attempt <= got.length; attempt++) {
    const answer = await read(id, `&attempt=${attempt}`);
    // The first of those to this provider: one provider is called in the order of the attempts.
    const at = open.findIndex(({ name }) => answer.provider_name.endsWith(`-${name}`));
    const request = open.splice(at, 1)[0]?.request;
    expect(answer).toMatchObject({
      ...{ log_id: id, attempt, recorded: 'body', content_type: 'application/json' },
      ...{ bytes: request?.bytes.length, body: request?.bytes.toString(), path: request?.path },
      sha256: createHash('sha256')
        .update(request?.bytes ?? '')
        .digest('hex'),
    });
    answers.push(answer);
  }
  await admin.refused(`/admin/audit/provider-request?log_id=${id}&attempt=${got.length + 1}`, 404);
  return { id, answers, got };
}

const chat = (model: string, more: object = {}) => ({ model, messages: user(fresh()), ...more });

describe('GET /admin/audit/provider-request', () => {
  it.each([
    ['chat', '/v1/chat/completions', () => chat('llamacpp-a/one')],
    ['a stream', '/v1/chat/completions', () => chat('llamacpp-a/one', { stream: true })],
    ['chat with white space', '/v1/chat/completions', () => JSON.stringify(chat('llamacpp-a/one'), null, 3)],
    ['chat to Messages', '/v1/chat/completions', () => chat('anthropic-claude/claude', { max_tokens: 50 })],
    ['chat to Ollama', '/v1/chat/completions', () => chat('ollama-own/own')],
    ['responses to chat', '/v1/responses', () => ({ model: 'llamacpp-a/one', input: fresh() })],
    ['native responses', '/v1/responses', () => ({ model: 'openai-native/native', input: fresh() })],
    ['messages to chat', '/v1/messages', () => chat('llamacpp-a/one', { max_tokens: 50 })],
    ['native messages', '/v1/messages', () => chat('anthropic-claude/claude', { max_tokens: 50 })],
    ['embeddings', '/v1/embeddings', () => ({ model: 'llamacpp-a/one', input: fresh() })],
    ['completions', '/v1/completions', () => ({ model: 'openai-native/native', prompt: fresh() })],
  ])('returns the bytes that the provider got for %s', async (what, path, body) => {
    const { answers } = await expectRecordedForwarded(what, path, body());
    // A provider that may have the route of responses is tried once.
    expect(answers).toHaveLength(what === 'responses to chat' ? 2 : 1);
  });

  /** Forwarded requests have no path on record. */
  async function expectRecordedForwarded(what: string, path: string, body: object | string) {
    if (what !== 'completions') return expectRecorded(path, body);
    const { id, got } = await sent(path, body);
    const answer = await read(id);
    expect(answer).toMatchObject({ recorded: 'body', body: got[0]?.request.bytes.toString() });
    expect(answer.path).toBeUndefined();
    return { answers: [answer] };
  }

  it('has each attempt of a request that was retried and sent to other providers', async () => {
    provider.a.control.next({ status: 503 }, { path: '/v1/chat/completions' });
    provider.claude.control.next({ status: 503 }, { path: '/v1/messages' });
    provider.b.control.next({ status: 503 }, { path: '/v1/chat/completions' });
    const { answers } = await expectRecorded('/v1/chat/completions', chat('first-of-three', { max_tokens: 50 }));
    expect(answers.map(({ kind, provider_name: name, model }) => [kind, name, model])).toEqual([
      ['primary', 'llamacpp-a', 'one'],
      ['failover', 'anthropic-claude', 'claude'],
      ['failover', 'llamacpp-b', 'two'],
      ['retry', 'llamacpp-b', 'two'],
    ]);
  });

  it('has earlier turns that the gateway put in front of the input', async () => {
    const first = await sent('/v1/responses', { model: 'llamacpp-a/one', input: 'My name is Ada.' });
    const previous_response_id = JSON.parse(first.text).id;
    const { answers } = await expectRecorded('/v1/responses', {
      ...{ model: 'llamacpp-a/one', input: 'What is my name?', previous_response_id },
    });
    expect(answers[0]?.body).toContain('My name is Ada.');
  });

  it('has the request as guardrails changed it', async () => {
    await saveGuardrail(gateway, { name: 'personal', type: 'pii' });
    await saveGuardrail(gateway, { name: 'words', type: 'string_replace', config: { rules: 'Falcon => Sparrow' } });
    await guard(gateway, '/guarded', [{ ref: 'personal' }, { ref: 'words', step: 1 }]);
    const { value } = await admin.newKey({ user_path: '/guarded' });
    const body = chat('llamacpp-a/one', { messages: user(`${fresh()}: ada@example.org asks about Falcon`) });
    const { id, answers } = await expectRecorded('/v1/chat/completions', body, as(value));
    expect(answers[0]?.body).toContain('Sparrow');
    expect(answers[0]?.body).not.toContain('ada@example.org');
    const { events } = await admin.get(`/admin/audit/events?log_id=${id}`);
    const started = events.find(({ type }: Answered) => type === 'attempt.started');
    expect(started.data.request.base).toBe('guardrails');
    expect(started.body_bytes ?? 0).toBeLessThan(20);
    await expectRecorded('/v1/responses', { model: 'llamacpp-a/one', input: 'ada@example.org: Falcon' }, as(value));
  });

  it('has the request as plugins changed it', async () => {
    const { answers } = await expectRecorded('/v1/chat/completions', chat('llamacpp-a/one'), { 'x-test': 'switch' });
    expect(answers[0]).toMatchObject({ provider_name: 'llamacpp-b', model: 'two' });
    expect(JSON.parse(answers[0]?.body).model).toBe('two');
  });

  it('has no attempt of an answer from the cache', async () => {
    const body = chat('llamacpp-a/one');
    await expectRecorded('/v1/chat/completions', body);
    const { answers, got } = await expectRecorded('/v1/chat/completions', body);
    expect([answers, got]).toEqual([[], []]);
  });

  it('records a renamed model in a few bytes, and a retry in none', async () => {
    provider.b.control.next({ status: 503 }, { path: '/v1/chat/completions' });
    const body = chat('alias', { messages: user(fresh().repeat(1000)) });
    const { id } = await expectRecorded('/v1/chat/completions', body);
    const { events } = await admin.get(`/admin/audit/events?log_id=${id}`);
    const started = events.filter(({ type }: Answered) => type === 'attempt.started');
    expect(started.map(({ body_bytes: bytes }: Answered) => bytes)).toEqual([3, undefined]);
    expect(started.map(({ data }: Answered) => data.request.base)).toEqual(['client', 'attempt:1']);
  });

  it('has only size and digest where bodies are not recorded', async () => {
    await gateway.fetch('/admin/workflows', {
      json: {
        scope_user_path: '/quiet',
        name: 'quiet',
        workflow_payload: {
          schema_version: 2,
          features: { cache: false, audit: false, usage: true, guardrails: true },
        },
      },
    });
    const { value } = await admin.newKey({ user_path: '/quiet' });
    const { id, got } = await sent('/v1/chat/completions', chat('llamacpp-a/one'), as(value));
    const bytes = got[0]?.request.bytes ?? Buffer.alloc(0);
    const answer = await read(id);
    expect(answer).toMatchObject({
      recorded: 'digest',
      bytes: bytes.length,
      sha256: createHash('sha256').update(bytes).digest('hex'),
    });
    expect(answer.body).toBeUndefined();
    expect(JSON.stringify(await admin.get(`/admin/audit/events?log_id=${id}`))).not.toContain('Text number');
  });

  it('has a passthrough body, and only the parts of a form', async () => {
    const raw = Buffer.from([0xff, 1, 2, 0xfe]);
    const answer = await gateway.fetch('/p/llamacpp-a/anything', {
      method: 'POST',
      body: raw,
      headers: { 'content-type': 'application/octet-stream' },
    });
    await answer.text();
    const passed = await read(exchangeOf(answer));
    expect(Buffer.from(passed.body_base64, 'base64')).toEqual(raw);
    expect(passed).toMatchObject({ recorded: 'body', bytes: 4, content_type: 'application/octet-stream' });

    const form = new FormData();
    form.append('model', 'openai-native/native');
    form.append('file', new Blob(['the words of a sound']), 'sound.txt');
    const transcribed = await gateway.fetch('/v1/audio/transcriptions', { method: 'POST', body: form });
    expect(transcribed.status).toBe(200);
    await transcribed.text();
    const id = exchangeOf(transcribed);
    const of = await read(id);
    expect(of.content_type).toMatch(/^multipart\/form-data/);
    expect(['digest', 'parts']).toContain(of.recorded);
    const got = requestsTo('native').at(-1)?.bytes ?? Buffer.alloc(0);
    if (of.recorded === 'digest') expect(of.sha256).toBe(createHash('sha256').update(got).digest('hex'));
    const { events } = await admin.get(`/admin/audit/events?log_id=${id}`);
    const started = events.find(({ type }: Answered) => type === 'attempt.started');
    expect(started.body_bytes).toBeUndefined();
  });

  it('returns the rest of a long body by offset', async () => {
    const { id, got } = await sent(
      '/v1/chat/completions',
      chat('llamacpp-a/one', { messages: user('x'.repeat(9 * 1024 * 1024)) }),
    );
    const first = await read(id);
    expect(first).toMatchObject({ body_cut: true, body_next_offset: 8 * 1024 * 1024 });
    const rest = await read(id, `&offset=${first.body_next_offset}`);
    expect(rest.body_cut).toBeUndefined();
    expect(first.body + rest.body === got[0]?.request.bytes.toString()).toBe(true);
  });

  it('has no credentials', async () => {
    const { id } = await sent('/v1/chat/completions', chat('llamacpp-a/one'));
    expect(JSON.stringify(await read(id))).not.toContain('a-key-for-tests');
  });

  it('is recorded before the body is sent', async () => {
    const { id: keyId, value } = await admin.newKey({ user_path: '/team' });
    const { id } = await sent('/v1/chat/completions', chat('llamacpp-a/one'), as(value));
    await read(id);
    await admin.refused(`/admin/audit/provider-request?log_id=${id}&attempt=7`, 404);
    const { entries } = await admin.get('/admin/history?subject=audit:reads&limit=200');
    expect(entries.filter(({ after }: Answered) => after.id === id)).toMatchObject([
      { actor: 'master', after: { what: 'audit_provider_request', owner: `key:${keyId}`, owner_path: '/team' } },
    ]);
  });

  it('is 404 outside the scope, and names malformed parameters', async () => {
    const boss = await admin.newKey({ user_path: '/team', dashboard_access: true });
    const { id } = await sent('/v1/chat/completions', chat('llamacpp-a/one'));
    await admin.refused(`/admin/audit/provider-request?log_id=${id}`, 404, boss.value);
    const refused = async (query: string) => (await admin.refused(`/admin/audit/provider-request${query}`, 400)).param;
    expect(await refused('')).toBe('log_id');
    expect(await refused(`?log_id=${id}&attempt=0`)).toBe('attempt');
    expect(await refused(`?log_id=${id}&offset=-1`)).toBe('offset');
  });
});
