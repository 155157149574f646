import { describe, expect, it } from 'vitest';
import { errorOf, json, withGateway } from '../support/with-gateway.ts';
import { administrator } from './admin-history-steps.ts';

const gateway = withGateway({ env: { GUARDRAILS_ENABLED: 'true' } });
const admin = administrator(gateway);

const put = (body: object, headers: Record<string, string> = {}) =>
  gateway.fetch('/admin/guardrails', { method: 'PUT', json: body, headers });
const remove = (name: string, headers: Record<string, string> = {}) =>
  gateway.fetch('/admin/guardrails', { method: 'DELETE', json: { name }, headers });
const replace = (name: string, rules = 'bad => good') => ({ name, type: 'string_replace', config: { rules } });
const features = { cache: true, audit: true, usage: true, guardrails: true };
const workflow = (path: string, steps: object[]) => ({
  scope_user_path: path,
  name: path,
  workflow_payload: { features, steps },
});

describe('GET /admin/guardrails/types', () => {
  it('lists the eight types with their phases', async () => {
    const types = await admin.get('/admin/guardrails/types');
    expect(types.map(({ type }: { type: string }) => type)).toEqual([
      ...['system_prompt', 'string_replace', 'llm_based_altering', 'llm_judge'],
      ...['header_edit', 'tag_replace', 'presidio', 'pii'],
    ]);
    expect(types[1]).toMatchObject({ mutates: true, source: 'builtin', phases: ['prompt', 'response', 'stream'] });
  });
});

describe('GET /admin/plugins', () => {
  it('lists the guardrail types', async () => {
    const plugins = await admin.get('/admin/plugins');
    expect(plugins.filter(({ guardrail }: { guardrail: boolean }) => guardrail)).toHaveLength(8);
    expect(plugins[0]).toMatchObject({ name: 'system_prompt', kinds: ['prompt'], health: 'ok', guardrail: true });
  });
});

describe('PUT /admin/guardrails with a server address', () => {
  const people = (analyzer_url: string) => ({ name: 'people', type: 'presidio', config: { analyzer_url } });
  const open = withGateway({ env: { PLUGINS_ENABLED: 'true', ALLOW_PRIVATE_PROVIDERS: 'true' } });

  it.each([
    ...['http://127.0.0.1:5002', 'http://localhost:5002', 'http://analyzer.localhost', 'http://[::1]:5002'],
    ...['http://2130706433/', 'http://169.254.169.254/latest', 'http://0.0.0.0:5002', 'http://[::ffff:127.0.0.1]'],
  ])('refuses %s, unless local addresses are allowed', async (url) => {
    expect(await errorOf(await put(people(url)), 400)).toMatchObject({
      ...{ param: 'config.analyzer_url', code: 'guardrail_address_refused' },
      message: expect.stringContaining('ALLOW_PRIVATE_PROVIDERS=true'),
    });
    expect((await gateway.fetch('/admin/guardrails/people')).status).toBe(404);
    const allowed = await open.fetch('/admin/guardrails', { method: 'PUT', json: people(url) });
    expect(allowed.status).toBe(200);
  });

  it('accepts a name that cannot be resolved now, which is checked at each connection', async () => {
    expect((await put(people('http://presidio-analyzer.invalid:3000'))).status).toBe(200);
    expect((await remove('people')).status).toBe(204);
  });
});

describe('PUT /admin/guardrails', () => {
  it('creates a guardrail with the defaults of its type, and replaces it', async () => {
    const answer = await put(replace('words'));
    expect(answer.status).toBe(200);
    expect(answer.headers.get('etag')).toBe('"0"');
    expect(await json(answer)).toMatchObject({
      name: 'words',
      type: 'string_replace',
      config: { rules: 'bad => good', mode: 'literal' },
      ...{ fail_mode: 'closed', timeout_ms: 0, managed: false, guardrail: true, revision: '0' },
    });
    const again = await put({ ...replace('words'), fail_mode: 'open', timeout_ms: 50 });
    expect(await json(again)).toMatchObject({ fail_mode: 'open', timeout_ms: 50, revision: '1' });
    expect(await admin.get('/admin/guardrails')).toHaveLength(1);
    expect(await admin.get('/admin/workflows/guardrails')).toMatchObject([{ name: 'words', type: 'string_replace' }]);
    expect((await remove('words')).status).toBe(204);
    expect(await admin.get('/admin/guardrails')).toEqual([]);
    expect((await errorOf(await remove('words'), 404)).message).toContain('words');
  });

  it.each([
    ['an unknown type', { name: 'x', type: 'unknown' }, 'type'],
    ['a name with a slash', replace('a/b'), 'name'],
    ['a fail mode', { ...replace('x'), fail_mode: 'half' }, 'fail_mode'],
    ['a time limit', { ...replace('x'), timeout_ms: -1 }, 'timeout_ms'],
    ['system_prompt without content', { name: 'x', type: 'system_prompt' }, 'config.content'],
    ['string_replace without rules', { name: 'x', type: 'string_replace' }, 'config.rules'],
    [
      'string_replace with a pattern that matches no character',
      { name: 'x', type: 'string_replace', config: { rules: 'a => b\n\\b => |', mode: 'regex' } },
      'config.rules',
    ],
    ['llm_based_altering without a model', { name: 'x', type: 'llm_based_altering' }, 'config.model'],
    ['llm_judge without a model', { name: 'x', type: 'llm_judge' }, 'config.model'],
    ['header_edit with an unknown key', { name: 'x', type: 'header_edit', config: { other: 1 } }, 'config'],
    [
      'tag_replace with roles that are not a list',
      { name: 'x', type: 'tag_replace', config: { roles: 1 } },
      'config.roles',
    ],
    ['presidio without an address', { name: 'x', type: 'presidio' }, 'config.analyzer_url'],
    ['pii with an unknown action', { name: 'x', type: 'pii', config: { action: 'sing' } }, 'config.action'],
  ])('refuses %s', async (_what, body, param) => {
    expect(await errorOf(await put(body), 400)).toMatchObject({ code: expect.any(String), param });
    expect((await gateway.fetch('/admin/guardrails/x')).status).toBe(404);
  });

  it('refuses a stale If-Match, and records history', async () => {
    await put(replace('matched'));
    const shown = (await gateway.fetch('/admin/guardrails/matched')).headers.get('etag') ?? '';
    expect((await put(replace('matched', 'a => b'), { 'if-match': shown })).status).toBe(200);
    await errorOf(await put(replace('matched', 'a => c'), { 'if-match': shown }), 409);
    await errorOf(await remove('matched', { 'if-match': shown }), 409);
    expect(await admin.get('/admin/guardrails/matched')).toMatchObject({ config: { rules: 'a => b' }, revision: '1' });
    const { entries } = await admin.get('/admin/history?subject=guardrail:matched');
    expect(entries.map(({ type }: { type: string }) => type)).toEqual(['guardrail.saved', 'guardrail.saved']);
  });

  it('refuses a type that lacks a phase which an active workflow uses, and the deletion', async () => {
    await put(replace('used'));
    await admin.change('POST', '/admin/workflows', workflow('/uses', [{ ref: 'used', phase: 'stream' }]));
    const other = await errorOf(await put({ name: 'used', type: 'tag_replace' }), 400);
    expect(other).toMatchObject({ code: 'guardrail_in_use', param: 'type' });
    expect(other.message).toContain('/uses (stream)');
    const kept = await errorOf(await remove('used'), 400);
    expect(kept).toMatchObject({ code: 'guardrail_in_use', param: 'name' });
    expect(kept.message).toContain('/uses');
  });
});

describe('GET /admin/guardrails with as_of', () => {
  it('has the guardrails of that moment', async () => {
    await put(replace('then'));
    const before = await admin.newestChange();
    await remove('then');
    const then = await admin.get(`/admin/guardrails?as_of=${before}`);
    expect(then.find(({ name }: { name: string }) => name === 'then')).toMatchObject({ type: 'string_replace' });
    expect((await gateway.fetch('/admin/guardrails/then')).status).toBe(404);
    expect(await admin.get(`/admin/guardrails/then?as_of=${before}`)).toMatchObject({ revision: '0' });
  });
});
