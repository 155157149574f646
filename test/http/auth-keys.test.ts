import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Answered } from '../support/answered.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { newKey, put } from '../support/managed-keys.ts';
import {
  dataOf,
  errorOf,
  eventsOfExchange,
  eventsUntil,
  exchangeOf,
  json,
  modelsListed,
  readUntil,
  user,
  withGateway,
} from '../support/with-gateway.ts';
import { listen } from './live-listener.ts';

const gateway = withGateway({ simulated: { paceMs: 15, words: 60 } });
const model = 'llamacpp/simulated-small';
const chat = { model, messages: user('hi'), max_tokens: 3 };
const long = { model, messages: user('hi'), stream: true };

async function rows(): Promise<Answered[]> {
  return json(await gateway.fetch('/admin/auth-keys'));
}

async function rowOf(id: string): Promise<Answered> {
  return (await rows()).find((row) => row.id === id);
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

describe('POST /admin/auth-keys', () => {
  it('creates a key, and returns it this once', async () => {
    const given = {
      name: ' Pipeline ',
      description: 'for CI',
      user_path: 'team/ci/',
      labels: ['blue', ' green ', 'blue'],
      allowed_models: ['llamacpp/*', '*', 'gpt-5', 'llamacpp/'],
      dashboard_access: true,
      expires_at: '2199-01-01T12:00:00+02:00',
    };
    const answer = await gateway.post('/admin/auth-keys', given);
    expect(answer.status).toBe(201);
    expect(answer.headers.get('etag')).toBe('"0"');
    const { value, ...key } = await json(answer);
    expect(value).toMatch(/^sk_chy_[\w-]{43}$/);
    expect(key).toEqual({
      id: expect.stringMatching(UUID),
      name: 'Pipeline',
      description: 'for CI',
      user_path: '/team/ci',
      labels: ['blue', 'green'],
      allowed_models: ['llamacpp/', '/', 'gpt-5'],
      dashboard_access: true,
      redacted_value: `sk_chy_...${value.slice(-4)}`,
      enabled: true,
      expires_at: '2199-01-01T10:00:00.000Z',
      created_at: expect.stringMatching(TIME),
      updated_at: key.created_at,
      active: true,
      revision: '0',
      restricted: true,
      effective_models: expect.any(Array),
    });
    expect(await rowOf(key.id)).toEqual(key);
  });

  it('answers every change with the row of the list', async () => {
    const { created } = await newKey(gateway, { name: 'changing' });
    const changes: readonly [string, string, object][] = [
      ['PUT', 'allowed-models', { allowed_models: [model] }],
      ['PUT', 'labels', { labels: ['a'] }],
      ['PUT', 'name', { name: 'changed' }],
      ['PUT', 'dashboard-access', { dashboard_access: true }],
      ['POST', 'rotate', { grace_seconds: 0 }],
    ];
    for (const [method, what, body] of changes) {
      const answer = await gateway.fetch(`/admin/auth-keys/${created.id}/${what}`, { method, json: body });
      const { value: _secret, ...row } = await json(answer);
      expect([answer.status, row]).toEqual([200, await rowOf(created.id)]);
      expect(row).toMatchObject({ restricted: true, effective_models: [model] });
    }
  });

  it('requires only a name', async () => {
    const { created: answer } = await newKey(gateway, { name: 'plain' });
    expect(answer).toMatchObject({ labels: [], allowed_models: [], dashboard_access: false, active: true });
    expect(Object.keys(answer)).not.toEqual(expect.arrayContaining(['user_path', 'description', 'expires_at']));
    expect(await rowOf(answer.id)).toMatchObject({
      restricted: false,
      effective_models: expect.arrayContaining([model]),
    });
  });

  it('stores neither the key nor anything from which it could be derived', async () => {
    const { value } = await newKey(gateway);
    const secret = value.slice('sk_chy_'.length);
    const files = readdirSync(gateway.dataDir, { recursive: true, encoding: 'utf8', withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => readFileSync(join(entry.parentPath, entry.name)));
    expect(files.length).toBeGreaterThan(0);
    expect(files.some((bytes) => bytes.includes('key.created'))).toBe(true);
    expect(files.some((bytes) => bytes.includes(secret))).toBe(false);
  });

  it.each([
    ['nothing', '', null],
    ['no JSON', '{"name":', null],
    ['a list', [], null],
    ['no name', {}, 'name'],
    ['an empty name', { name: '' }, 'name'],
    ['a name of spaces', { name: '  ' }, 'name'],
    ['a name with a line break', { name: 'a\nb' }, 'name'],
    ['a name that is not a string', { name: 1 }, 'name'],
    ['a long name', { name: 'x'.repeat(201) }, 'name'],
    ['an unknown field', { name: 'x', user: '/a' }, 'user'],
    ['a path with dots', { name: 'x', user_path: '/a/../b' }, 'user_path'],
    ['a path with an empty segment', { name: 'x', user_path: '/a//b' }, 'user_path'],
    ['a path with a control character', { name: 'x', user_path: '/a\u0001' }, 'user_path'],
    ...['\u0000', '\u001b', '\u007f', '\u0085'].flatMap((control): [string, object, string][] => [
      [`a name with ${JSON.stringify(control)}`, { name: `a${control}b` }, 'name'],
      [`a label with ${JSON.stringify(control)}`, { name: 'x', labels: [`a${control}b`] }, 'labels.0'],
      [
        `a description with a zero byte and ${JSON.stringify(control)}`,
        { name: 'x', description: `\0${control}` },
        'description',
      ],
    ]),
    ['a path that is not a string', { name: 'x', user_path: 1 }, 'user_path'],
    ['labels that are no list', { name: 'x', labels: 'a' }, 'labels'],
    ['an empty label', { name: 'x', labels: ['a', ''] }, 'labels.1'],
    ['too many labels', { name: 'x', labels: Array.from({ length: 101 }, (_, n) => `l${n}`) }, 'labels'],
    ['models that are no list', { name: 'x', allowed_models: model }, 'allowed_models'],
    ['a model of an unknown provider', { name: 'x', allowed_models: ['nobody/m'] }, 'allowed_models'],
    ['a model with spaces', { name: 'x', allowed_models: ['a b'] }, 'allowed_models'],
    ['access that is not a boolean', { name: 'x', dashboard_access: 'yes' }, 'dashboard_access'],
    ['an expiry that is not a time', { name: 'x', expires_at: 'tomorrow' }, 'expires_at'],
    ['an expiry that is a number', { name: 'x', expires_at: 4e12 }, 'expires_at'],
    ['an expiry at the beginning of 1970', { name: 'x', expires_at: '1970-01-01T00:00:00Z' }, 'expires_at'],
    ['an expiry in the past', { name: 'x', expires_at: '2020-01-01T00:00:00Z' }, 'expires_at'],
  ])('refuses %s and creates nothing', async (_what, body, param) => {
    const before = await rows();
    expect(await errorOf(await gateway.post('/admin/auth-keys', body), 400)).toMatchObject({
      type: 'invalid_request_error',
      param,
    });
    expect(await rows()).toEqual(before);
  });
});

describe('GET /admin/auth-keys', () => {
  it('returns a list, the newest first', async () => {
    const older = await newKey(gateway, { name: 'z' });
    // Keys of the same millisecond are sorted by their names.
    await expect.poll(() => Date.now()).toBeGreaterThan(Date.parse(older.created.created_at));
    const newer = await newKey(gateway, { name: 'a' });
    const ids = (await rows()).map(({ id }) => id);
    expect(ids.indexOf(newer.id)).toBeLessThan(ids.indexOf(older.id));
    expect(ids.indexOf(newer.id)).toBe(0);
  });

  it('returns the effective models of each key, as limited by its path', async () => {
    await gateway.fetch(
      '/admin/users',
      put({ user_path: '/few', allowed_models: ['simulated-small', 'simulated-large'] }),
    );
    const narrow = await newKey(gateway, {
      user_path: '/few/x',
      allowed_models: ['simulated-small', 'simulated-embed'],
    });
    const nothing = await newKey(gateway, { user_path: '/few', allowed_models: ['simulated-embed'] });
    const inherits = await newKey(gateway, { user_path: '/few' });
    expect(await rowOf(narrow.id)).toMatchObject({ restricted: true, effective_models: [model] });
    expect(await rowOf(nothing.id)).toMatchObject({ restricted: true, effective_models: [] });
    expect(await rowOf(inherits.id)).toMatchObject({
      restricted: true,
      effective_models: [model, 'llamacpp/simulated-large'],
    });
    await gateway.fetch('/admin/users?user_path=/few', { method: 'DELETE' });
    expect(await rowOf(inherits.id)).toMatchObject({ restricted: false });
  });
});

describe('a managed key', () => {
  it('opens the model endpoints, and everything is recorded under its id and path', async () => {
    const key = await newKey(gateway, { user_path: '/team/a' });
    const answer = await key.fetch('/v1/chat/completions', {
      json: chat,
      headers: { 'x-gateway-user-path': '/other' },
    });
    expect(answer.status).toBe(200);
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(new Set(events.map(({ actor, userPath }) => `${actor} ${userPath}`))).toEqual(
      new Set([`key:${key.id} /team/a`]),
    );
    expect(events[0]?.data).toMatchObject({ authMethod: 'api_key' });
    expect(JSON.stringify(events)).not.toContain(key.value);
  });

  it('works at once, and stops at once when it is deactivated, except for open requests', async () => {
    const key = await newKey(gateway);
    const stream = await key.fetch('/v1/chat/completions', { json: long });
    expect(stream.status).toBe(200);
    const whole = stream.clone().text();
    await readUntil(stream, 'data:');
    const ended = await gateway.fetch(`/admin/auth-keys/${key.id}/deactivate`, { method: 'POST' });
    expect(ended.status).toBe(204);
    expect(await ended.text()).toBe('');
    for (const path of ['/v1/models', '/admin/access', '/p/llamacpp/health', '/v1/responses/resp_1']) {
      expect(await errorOf(await key.fetch(path), 401)).toMatchObject({
        type: 'authentication_error',
        code: 'invalid_api_key',
      });
    }
    expect(await errorOf(await key.fetch('/v1/chat/completions', { json: chat }), 401)).toBeDefined();
    expect(dataOf(await whole).at(-1)).toMatchObject({ object: 'chat.completion.chunk' });
    expect(await whole).toContain('[DONE]');
    expect(await rowOf(key.id)).toMatchObject({
      enabled: false,
      active: false,
      deactivated_at: expect.stringMatching(TIME),
    });
  });

  it.each([
    ['deactivated', 'POST', 'deactivate', undefined],
    ['shut out of the admin API', 'PUT', 'dashboard-access', { dashboard_access: false }],
  ])('that is %s is disconnected from the live tail', async (_what, method, path, body) => {
    const key = await newKey(gateway, { dashboard_access: true });
    const listener = await listen(gateway.url, {}, { authorization: `Bearer ${key.value}` });
    await listener.until('heartbeat');
    await gateway.fetch('/v1/chat/completions', { json: chat, headers: { 'x-request-id': `before-${key.id}` } });
    await listener.until('audit.completed', `before-${key.id}`);
    const ended = await gateway.fetch(`/admin/auth-keys/${key.id}/${path}`, { method, json: body });
    expect(ended.status).toBeLessThan(300);
    await gateway.fetch('/v1/chat/completions', { json: chat, headers: { 'x-request-id': `after-${key.id}` } });
    await listener.ended;
    expect(JSON.stringify(listener.events)).not.toContain(`after-${key.id}`);
    expect(listener.comments.join()).toContain('may no longer read live logs');
  });

  it('does not change with a second deactivation', async () => {
    const key = await newKey(gateway);
    const path = `/admin/auth-keys/${key.id}/deactivate`;
    expect((await gateway.fetch(path, { method: 'POST' })).status).toBe(204);
    const { revision, deactivated_at } = await rowOf(key.id);
    expect((await gateway.fetch(path, { method: 'POST' })).status).toBe(204);
    expect(await rowOf(key.id)).toMatchObject({ revision, deactivated_at });
  });

  it('stops when it expires', async () => {
    const key = await newKey(gateway, { expires_at: new Date(Date.now() + 2000).toISOString() });
    await expect.poll(async () => (await key.fetch('/v1/models')).status, { timeout: 10_000 }).toBe(401);
    expect(await rowOf(key.id)).toMatchObject({ enabled: true, active: false });
  });

  it('that is refused is recorded, summed up, with the reason that the client does not receive', async () => {
    const key = await newKey(gateway);
    await gateway.fetch(`/admin/auth-keys/${key.id}/deactivate`, { method: 'POST' });
    const answers = await Promise.all([1, 2, 3].map(() => key.fetch('/v1/models')));
    for (const answer of answers) expect((await errorOf(answer, 401)).message).not.toMatch(/inactive|deactivated/);
    const events = await eventsUntil(gateway, 'types=access.refused', ({ data }) => data.keyId === key.id);
    expect(events.at(-1)?.data).toMatchObject({ reason: 'inactive', keyId: key.id, count: 1 });
  });
});

describe.each([
  ['labels', 'labels', ['x', 'y'], []],
  ['allowed-models', 'allowed_models', ['llamacpp/'], []],
  ['dashboard-access', 'dashboard_access', true, false],
])('PUT /admin/auth-keys/{id}/%s', (path, field, one, other) => {
  const change = (id: string, value: unknown, headers = {}) =>
    gateway.fetch(`/admin/auth-keys/${id}/${path}`, put({ [field]: value }, headers));

  it('replaces the previous value, and returns the key', async () => {
    const key = await newKey(gateway);
    const changed = await change(key.id, one);
    expect(changed.status).toBe(200);
    expect(changed.headers.get('etag')).toBe('"1"');
    const answer = await json(changed);
    expect(answer).toMatchObject({ id: key.id, name: 'a key', [field]: one, revision: '1' });
    expect(answer).not.toHaveProperty('value');
    expect(await rowOf(key.id)).toMatchObject({ [field]: one });
    expect(await json(await change(key.id, other))).toMatchObject({ [field]: other, revision: '2' });
  });

  it('changes nothing for an unchanged value', async () => {
    const key = await newKey(gateway, { [field]: one });
    const same = await change(key.id, one);
    expect(same.headers.get('etag')).toBe('"0"');
    expect(await json(same)).toMatchObject({ revision: '0' });
  });

  it('applies one of two changes with the same If-Match, and refuses the other with revision_mismatch', async () => {
    const key = await newKey(gateway);
    const answers = await Promise.all([
      change(key.id, one, { 'if-match': '"0"' }),
      change(key.id, path === 'labels' ? ['z'] : path === 'allowed-models' ? ['gpt'] : true, { 'if-match': '"0"' }),
    ]);
    const late = answers.filter(({ status }) => status === 409);
    expect(late.length).toBeGreaterThan(0);
    for (const answer of late) {
      expect(await errorOf(answer, 409)).toMatchObject({
        code: 'revision_mismatch',
        param: 'If-Match',
        message: expect.stringContaining('revision 1'),
      });
    }
    expect((await change(key.id, one, { 'if-match': '"7"' })).status).toBe(409);
    expect((await change(key.id, one, { 'if-match': 'x' })).status).toBe(400);
  });

  it('applies many concurrent changes, one after the other', async () => {
    const key = await newKey(gateway);
    const values = [one, other, one, other, one, other];
    const answers = await Promise.all(values.map((value) => change(key.id, value)));
    expect(answers.map(({ status }) => status)).toEqual(values.map(() => 200));
  });

  it.each([
    ['without the field', {}],
    ['with null', { [field]: null }],
    ['with another type', { [field]: { a: 1 } }],
    ['with something beside it', { [field]: one, name: 'new' }],
  ])('is refused %s', async (_what, body) => {
    const key = await newKey(gateway);
    const refused = await gateway.fetch(`/admin/auth-keys/${key.id}/${path}`, put(body));
    expect(await errorOf(refused, 400)).toMatchObject({ type: 'invalid_request_error', param: expect.any(String) });
    expect(await rowOf(key.id)).toMatchObject({ revision: '0' });
  });

  it('is 404 for an unknown key', async () => {
    expect(await errorOf(await change('none', one), 404)).toMatchObject({ type: 'not_found_error', code: 'not_found' });
  });
});

describe('the permissions of a key', () => {
  it('change for the very next request', async () => {
    const key = await newKey(gateway, { allowed_models: ['simulated-large'] });
    const set = (...models: string[]) =>
      gateway.fetch(`/admin/auth-keys/${key.id}/allowed-models`, put({ allowed_models: models }));
    const refused = await errorOf(await key.fetch('/v1/chat/completions', { json: chat }), 400);
    expect(refused).toMatchObject({ code: 'model_access_denied', param: 'model', type: 'invalid_request_error' });
    expect(refused.message).toContain('for this key');
    await set('simulated-small');
    expect((await key.fetch('/v1/chat/completions', { json: chat })).status).toBe(200);
    await set();
    expect((await key.fetch('/v1/chat/completions', { json: chat })).status).toBe(200);
  });
});

describe('PUT /admin/auth-keys/labels/rename', () => {
  it('renames a label on every key that has it, and returns their number', async () => {
    const keys = await Promise.all([['old', 'a'], ['old', 'new'], ['a']].map((labels) => newKey(gateway, { labels })));
    const renamed = await gateway.fetch('/admin/auth-keys/labels/rename', put({ from: 'old', to: 'new' }));
    expect(await json(renamed)).toEqual({ from: 'old', to: 'new', renamed: 2 });
    const labels = await Promise.all(keys.map(async ({ id }) => (await rowOf(id)).labels));
    expect(labels).toEqual([['new', 'a'], ['new'], ['a']]);
    const again = await gateway.fetch('/admin/auth-keys/labels/rename', put({ from: 'old', to: 'new' }));
    expect(await json(again)).toEqual({ from: 'old', to: 'new', renamed: 0 });
  });

  it.each([
    [{ from: 'a' }, 'to'],
    [{ to: 'a' }, 'from'],
    [{ from: 'a', to: 'a' }, 'to'],
    [{ from: 'a', to: '' }, 'to'],
    [{ from: ['a'], to: 'b' }, 'from'],
  ])('refuses %j', async (body, param) => {
    const refused = await gateway.fetch('/admin/auth-keys/labels/rename', put(body));
    expect(await errorOf(refused, 400)).toMatchObject({ param });
  });
});

describe('after a restart', () => {
  let first: TestGateway;
  let second: TestGateway | undefined;
  beforeAll(async () => {
    first = await startTestGateway();
    await modelsListed(first);
  });
  afterAll(async () => {
    await second?.close();
  });

  it('keys are unchanged', async () => {
    const { dataDir } = first;
    const active = await newKey(first, { labels: ['a'], user_path: '/x', allowed_models: ['llamacpp/'] });
    const ended = await newKey(first, { name: 'ended' });
    await first.fetch(`/admin/auth-keys/${ended.id}/deactivate`, { method: 'POST' });
    const before = await json(await first.fetch('/admin/auth-keys'));
    await first.gateway.stop('a restart');
    second = await startTestGateway({ dataDir });
    await modelsListed(second);
    const answer = await json(await second.fetch('/admin/auth-keys'));
    expect(answer).toEqual(before);
    const use = (value: string) => second?.fetch('/v1/models', { headers: { authorization: `Bearer ${value}` } });
    expect((await use(active.value))?.status).toBe(200);
    expect((await use(ended.value))?.status).toBe(401);
    await first.simulated.close();
  });
});

describe('the user path header', () => {
  const chatAt = async (key: Pick<TestGateway, 'fetch'>, path: string) => {
    const answer = await key.fetch('/v1/chat/completions', { json: chat, headers: { 'x-gateway-user-path': path } });
    expect(answer.status).toBe(200);
    const [received] = await eventsOfExchange(gateway, exchangeOf(answer));
    return received?.userPath;
  };

  it('attributes requests of an unbound key, until that is switched off', async () => {
    const key = await newKey(gateway);
    expect(await chatAt(key, '/team/a')).toBe('/team/a');
    const set = (yes: boolean) =>
      gateway.fetch(`/admin/auth-keys/${key.id}/user-path-header`, put({ user_path_header: yes }));
    expect(await json(await set(false))).toMatchObject({ id: key.id, user_path_header: false, revision: '1' });
    expect(await chatAt(key, '/team/a')).toBeUndefined();
    expect(await json(await set(true))).not.toHaveProperty('user_path_header');
    expect(await chatAt(key, '/team/a')).toBe('/team/a');
  });

  it('is ignored from the first request on for a key that was created with user_path_header false', async () => {
    const key = await newKey(gateway, { user_path_header: false });
    expect(key.created).toMatchObject({ user_path_header: false });
    expect(await chatAt(key, '/team/a')).toBeUndefined();
  });
});
