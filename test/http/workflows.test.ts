import { afterAll, describe, expect, it } from 'vitest';
import { canonicalSha256 } from '../../src/commands/canonical-json.ts';
import type { Answered } from '../support/answered.ts';
import { type ScriptedProvider, startScriptedProvider } from '../support/scripted-provider.ts';
import { errorOf, json, user, withGateway } from '../support/with-gateway.ts';
import { administrator } from './admin-history-steps.ts';

const gateway = withGateway({ env: { GUARDRAILS_ENABLED: 'true' } });
const admin = administrator(gateway);
const model = 'llamacpp/simulated-small';
const on = { cache: true, audit: true, usage: true, guardrails: true };
const off = { ...on, guardrails: false };

const post = (body: object) => gateway.fetch('/admin/workflows', { json: body });
const create = async (body: object): Promise<Answered> => {
  const answer = await post(body);
  expect(answer.status, await answer.clone().text()).toBe(201);
  return json(answer);
};
const at = (path: string, payload: object) => ({ scope_user_path: path, name: path, workflow_payload: payload });
const save = (name: string) =>
  admin.change('PUT', '/admin/guardrails', { name, type: 'string_replace', config: { rules: 'bad => good' } });
const shown = async (path: string, query = '') =>
  (await admin.get(`/admin/workflows${query}`)).find((one: Answered) => one.scope.scope_user_path === path);

describe('GET /admin/workflows', () => {
  it('begins with the default workflow, whose features are capped by the configuration', async () => {
    const [first] = await admin.get('/admin/workflows');
    expect(first).toMatchObject({
      ...{ name: 'default-global', managed_default: true, scope: {}, scope_type: 'global', active: true, version: 1 },
      effective_features: { cache: false, audit: true, usage: true, budget: true, guardrails: false, failover: true },
    });
  });
});

describe('POST /admin/workflows', () => {
  it('creates a version, which replaces the active one of its scope', async () => {
    await save('first');
    const one = await create(at('/replaced', { features: on, steps: [{ ref: 'first' }] }));
    expect(one).toMatchObject({ version: 1, active: true, scope_key: 'path:/replaced' });
    const { id, chain_hashes } = await shown('/replaced');
    expect({ id, chain_hashes }).toEqual({ id: one.id, chain_hashes: one.chain_hashes });
    expect(one.chain_hashes).toEqual({ prompt: expect.stringMatching(/^[0-9a-f]{64}$/) });
    const two = await create(at('/replaced', { features: { ...off, failover: false } }));
    expect(two).toMatchObject({ version: 2, active: true });
    expect(await shown('/replaced')).toMatchObject({ id: two.id, effective_features: { failover: false } });
    expect(await admin.get(`/admin/workflows/${one.id}`)).toMatchObject({ version: 1, active: false });
    const { entries } = await admin.get('/admin/history?subject=workflow:path:/replaced');
    expect(entries.map(({ type }: Answered) => type)).toEqual(['workflow.created', 'workflow.created']);
  });

  it('has the settings of the response cache in its payload and its hash, only when they are given', async () => {
    const cache = { scope: 'key', ttl_seconds: 5, tool_calls: true };
    const given = await create(at('/cached', { features: off, cache }));
    expect(given.workflow_payload).toEqual({ schema_version: 2, features: expect.anything(), steps: [], cache });
    expect((await shown('/cached')).workflow_payload.cache).toEqual(cache);
    const without = await create(at('/cached', { features: off }));
    expect(without.workflow_payload).not.toHaveProperty('cache');
    expect(without.workflow_hash).not.toBe(given.workflow_hash);
    const features = { ...off, budget: true, failover: true };
    expect(without.workflow_hash).toBe(canonicalSha256({ schema_version: 2, features, steps: [] }));
  });

  it('returns a payload of version 1 unchanged', async () => {
    await save('old');
    const payload = { schema_version: 1, features: on, guardrails: [{ ref: 'old', step: 3 }] };
    const { id } = await create(at('/one', payload));
    expect((await admin.get(`/admin/workflows/${id}`)).workflow_payload).toMatchObject(payload);
  });

  it('creates nothing under If-Match when another version of the scope is active', async () => {
    const body = at('/conditional', { features: off });
    const under = (revision: string) =>
      gateway.fetch('/admin/workflows', { json: body, headers: { 'if-match': `"${revision}"` } });
    expect((await under('3')).status).toBe(409);
    const first = await json(await under('none'));
    expect(first).toMatchObject({ version: 1, revision: '0' });
    expect((await errorOf(await under('none'), 409)).code).toBe('revision_mismatch');
    const etag = async () => (await gateway.fetch(`/admin/workflows/${first.id}`)).headers.get('etag');
    expect([await etag(), (await shown('/conditional')).revision]).toEqual(['"0"', '0']);
    const second = await json(await under('0'));
    expect(second).toMatchObject({ version: 2, revision: '1' });
    expect((await errorOf(await under('0'), 409)).code).toBe('revision_mismatch');
    expect(await etag()).toBe('"1"');
    await admin.change('POST', `/admin/workflows/${second.id}/deactivate`);
    expect(await etag()).toBe('"none"');
    await errorOf(await under('1'), 409);
    expect(await json(await under('none'))).toMatchObject({ version: 3, active: true });
  });

  it.each([
    ['an unknown guardrail', { features: on, steps: [{ ref: 'gone' }] }, 'workflow_payload.steps'],
    ['an unknown phase', { features: on, steps: [{ ref: 'a', phase: 'late' }] }, 'workflow_payload.steps.0.phase'],
    ['a negative step', { features: on, steps: [{ ref: 'a', step: -1 }] }, 'workflow_payload.steps.0.step'],
    ['a version', { schema_version: 3, features: on }, 'workflow_payload.schema_version'],
    ['steps in version 1', { schema_version: 1, features: on, steps: [] }, 'workflow_payload.steps'],
  ])('refuses %s', async (_what, payload, param) => {
    expect(await errorOf(await post(at('/refused', payload)), 400)).toMatchObject({ param });
    expect(await shown('/refused')).toBeUndefined();
  });

  it('refuses an unknown provider, and an unknown model', async () => {
    const body = { name: 'n', workflow_payload: { features: off } };
    const provider = await errorOf(await post({ ...body, scope_provider_name: 'gone' }), 400);
    expect(provider).toMatchObject({ param: 'scope_provider_name' });
    const scope = { scope_provider_name: 'llamacpp', scope_model: 'gone' };
    expect(await errorOf(await post({ ...body, ...scope }), 400)).toMatchObject({ param: 'scope_model' });
  });
});

describe('GET /admin/workflows/{id}/versions', () => {
  it('lists the versions of the scope, the newest first, also after a deactivation', async () => {
    const one = await create({ ...at('/versions', { features: off }), name: 'one' });
    await create(at('/versions/below', { features: off }));
    await admin.change('POST', `/admin/workflows/${one.id}/deactivate`);
    const two = await create({ ...at('/versions', { features: on }), name: 'two' });
    const versions = await admin.get(`/admin/workflows/${one.id}/versions`);
    expect(versions.map(({ id, name, active }: Answered) => ({ id, name, active }))).toEqual([
      { id: two.id, name: 'two', active: true },
      { id: one.id, name: 'one', active: false },
    ]);
    await errorOf(await gateway.fetch('/admin/workflows/gone/versions'), 404);
  });
});

describe('POST /admin/workflows/{id}/deactivate', () => {
  it('deactivates one, not the global one, not one twice, and not an unknown one', async () => {
    const { id } = await create(at('/ended', { features: off }));
    const before = await admin.newestChange();
    await admin.change('POST', `/admin/workflows/${id}/deactivate`);
    expect(await shown('/ended')).toBeUndefined();
    expect(await shown('/ended', `?as_of=${before}`)).toMatchObject({ id, active: true });
    const end = (of: string) => gateway.fetch(`/admin/workflows/${of}/deactivate`, { method: 'POST' });
    await errorOf(await end(id), 400);
    const [{ id: global }] = await admin.get('/admin/workflows');
    await errorOf(await end(global), 400);
    await errorOf(await end('gone'), 404);
    await errorOf(await gateway.fetch('/admin/workflows/gone'), 404);
  });
});

describe('GET /admin/explain', () => {
  it('names the workflow of the request, and why the others do not match', async () => {
    const deep = await create(at('/explained/deep', { features: off }));
    await create(at('/explained', { features: off }));
    const then = await admin.newestChange();
    const later = await create(at('/explained/deep', { features: off }));
    const path = `/admin/explain?model=${model}&user_path=/explained/deep/er`;
    const { workflow } = await admin.get(path);
    expect(workflow.matching).toMatchObject({ id: later.id, version: 2, scope: '/explained/deep' });
    const reasonOf = (scope: string) => workflow.others.find((one: Answered) => one.scope === scope)?.reason;
    expect([reasonOf('/explained'), reasonOf('global')]).toEqual(['less specific', 'less specific']);
    expect((await admin.get(`${path}&as_of=${then}`)).workflow.matching).toMatchObject({ id: deep.id });
    expect((await admin.get(`/admin/explain?model=${model}`)).workflow.matching).toMatchObject({ scope: 'global' });
  });

  it('lists the guardrails of each phase in the order in which they run', async () => {
    await save('first');
    await save('second');
    const steps = [
      { ref: 'second', step: 10 },
      { ref: 'first', step: 0 },
      { ref: 'first', phase: 'response', step: 5 },
    ];
    await create(at('/chained', { features: on, steps }));
    const explained = async (asOf = '') =>
      (await admin.get(`/admin/explain?model=${model}&user_path=/chained/a${asOf}`)).workflow.matching;
    const { guardrails } = await explained();
    expect(guardrails).toEqual({
      prompt: [
        { step: 0, name: 'first', type: 'string_replace' },
        { step: 10, name: 'second', type: 'string_replace' },
      ],
      response: [{ step: 5, name: 'first', type: 'string_replace' }],
      stream: [],
    });
    const then = await admin.newestChange();
    await create(at('/chained', { features: off }));
    expect(await explained()).not.toHaveProperty('guardrails');
    expect((await explained(`&as_of=${then}`)).guardrails).toEqual(guardrails);
  });

  it('shows an administrator of a subtree only the other workflows of the subtree', async () => {
    await create(at('/mine/a', { features: off }));
    await create(at('/theirs', { features: off }));
    const { value } = await admin.newKey({ user_path: '/mine', dashboard_access: true });
    const { workflow } = await admin.get(`/admin/explain?model=${model}`, value);
    expect(workflow.others).toMatchObject([{ scope: '/mine/a', reason: 'other user path' }]);
    expect(workflow.omitted).toBe(0);
    expect((await admin.refused('/admin/workflows', 403, value)).code).toBe('admin_scope_denied');
  });
});

describe('a workflow with guardrails', () => {
  const calls = () => gateway.simulated.requests.filter(({ path }) => !['/v1/models', '/props'].includes(path)).length;
  const headers = { 'x-gateway-user-path': '/guarded/team' };
  const read: [string, object][] = [
    ['/v1/chat/completions', { model, messages: user('bad') }],
    ['/v1/chat/completions', { model, messages: user('bad'), stream: true }],
    ['/v1/responses', { model, input: 'bad' }],
    ['/v1/responses', { model, input: 'bad', stream: true }],
    ['/v1/messages', { model, max_tokens: 9, messages: user('bad') }],
    ['/v1/completions', { model, prompt: 'bad' }],
    ['/v1/embeddings', { model, input: 'bad' }],
  ];
  const unread: [string, object][] = [
    ['/p/llamacpp/v1/chat/completions', { model: 'simulated-small', messages: user('bad') }],
    ['/v1/images/generations', { model, prompt: 'bad' }],
    ['/v1/audio/speech', { model, input: 'bad', voice: 'alloy' }],
    ['/v1/responses/compact', { model, input: 'bad' }],
  ];

  it.each([
    ['its path', { scope_user_path: '/guarded' }],
    ['a model', { scope_provider_name: 'llamacpp', scope_model: 'simulated-small', scope_user_path: '/guarded' }],
  ])('is applied to requests of %s, and refuses those that guardrails cannot read', async (_what, scope) => {
    await save('guard');
    const payload = { features: on, steps: [{ ref: 'guard' }, { ref: 'guard', phase: 'response' }] };
    const { id } = await create({ ...scope, name: 'guarded', workflow_payload: payload });
    for (const [path, body] of read) {
      const answer = await gateway.post(path, body, { headers });
      expect(answer.status, `${path} ${await answer.text()}`).toBe(200);
      expect(gateway.lastProviderRequest().body, path).toContain('good');
      expect(gateway.lastProviderRequest().body, path).not.toContain('bad');
    }
    const before = calls();
    for (const [path, body] of unread) {
      const { code } = await errorOf(await gateway.post(path, body, { headers }), 403);
      expect({ path, code }).toEqual({ path, code: 'endpoint_not_guarded' });
    }
    expect(calls()).toBe(before);
    await admin.change('POST', `/admin/workflows/${id}/deactivate`);
    expect((await gateway.post('/v1/chat/completions', read[0]?.[1], { headers })).status).toBe(200);
    expect(gateway.lastProviderRequest().body).toContain('bad');
  });
});

describe('a workflow with guardrails for a model of a provider with files and batches', () => {
  let openai: ScriptedProvider;
  const withBatches = withGateway(async () => {
    openai = await startScriptedProvider();
    return {
      register: () => ({ OPENAI_BASE_URL: openai.url, OPENAI_API_KEY: 'sk-openai' }),
      env: { GUARDRAILS_ENABLED: 'true' },
    };
  });
  afterAll(() => openai.close());

  it('refuses batches and files, whose models the gateway does not read, and sends the provider nothing', async () => {
    const { change } = administrator(withBatches);
    await change('PUT', '/admin/guardrails', { name: 'g', type: 'string_replace', config: { rules: 'a => b' } });
    await change('POST', '/admin/workflows', {
      ...{ scope_provider_name: 'openai', scope_model: 'scripted', name: 'guarded' },
      workflow_payload: { features: on, steps: [{ ref: 'g' }] },
    });
    const form = new FormData();
    form.set('purpose', 'batch');
    form.set('file', new File(['{}'], 'batch.jsonl'));
    const body = { model: 'openai/scripted', messages: user('a') };
    const requests = [{ custom_id: 'a', url: '/v1/chat/completions', body }];
    const reached: string[] = [];
    openai.script((request, response) => {
      reached.push(`${request.method} ${request.path}`);
      response.writeHead(500).end();
    });
    for (const answer of [
      await withBatches.post('/v1/batches', { requests }),
      await withBatches.fetch('/v1/files?provider=openai', { method: 'POST', body: form }),
    ]) {
      expect((await errorOf(answer, 403)).code).toBe('endpoint_not_guarded');
    }
    expect(reached).toEqual([]);
  });
});
