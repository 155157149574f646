import { describe, expect, test } from 'vitest';
import { startTestGateway } from '../support/gateway.ts';
import { errorOf, eventsUntil, json, modelsListed, user, withGateway } from '../support/with-gateway.ts';

const gateway = withGateway({
  env: {
    VIRTUAL_MODELS: JSON.stringify([
      { source: 'declared', target_model: 'llamacpp/simulated-small', description: 'of the configuration' },
      { source: 'lost', targets: [{ provider: 'gone', model: 'x' }] },
    ]),
  },
});

const put = (body: unknown, headers: Record<string, string> = {}) =>
  gateway.fetch('/admin/virtual-models', { method: 'PUT', json: body, headers });
const remove = (source: string, headers: Record<string, string> = {}) =>
  gateway.fetch('/admin/virtual-models', { method: 'DELETE', json: { source }, headers });
const list = async () => json(await gateway.fetch('/admin/virtual-models'));
const row = async (source: string) => (await list()).find((one: { source: string }) => one.source === source);

/** The events of virtual models so far, without the marker that this function writes. */
async function read(): Promise<string[]> {
  const marker = `marker-${crypto.randomUUID()}`;
  await put({ source: marker, target_model: 'x' });
  await remove(marker);
  const events = await eventsUntil(gateway, 'types=virtual_model.', ({ type, data }) => {
    return type === 'virtual_model.removed' && data.source === marker;
  });
  return events
    .filter(({ data }) => !data.source.startsWith('marker-'))
    .map(({ type, data }) => `${type} ${data.source}`);
}

describe('PUT /admin/virtual-models', () => {
  test('creates one with targets, and returns all of it', async () => {
    const answer = await put({
      source: 'fast',
      targets: [{ provider: 'llamacpp', model: 'simulated-small', weight: 2 }, { model: 'simulated-large' }],
      strategy: 'cost',
      session_affinity: false,
      failover: { statuses: [503], phrases: ['too busy'] },
      user_paths: ['team/alpha/'],
      description: 'whatever is quick',
    });
    expect(answer.status).toBe(200);
    expect(answer.headers.get('etag')).toBe('"0"');
    expect(await json(answer)).toEqual({
      source: 'fast',
      kind: 'redirect',
      targets: [{ provider: 'llamacpp', model: 'simulated-small', weight: 2 }, { model: 'simulated-large' }],
      strategy: 'cost',
      session_affinity: false,
      failover: { enabled: true, statuses: [503], phrases: ['too busy'] },
      resolved_model: 'llamacpp/simulated-small',
      provider_type: 'llamacpp',
      valid: true,
      user_paths: ['/team/alpha'],
      description: 'whatever is quick',
      enabled: true,
      managed: false,
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
      updated_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
      revision: '0',
    });
  });

  test('replaces the existing one, and records no event for an identical one', async () => {
    const body = { source: 'changing', target_model: 'simulated-small' };
    expect((await put(body)).headers.get('etag')).toBe('"0"');
    expect((await put(body)).headers.get('etag')).toBe('"0"');
    const changed = await put({ ...body, enabled: false });
    expect(changed.headers.get('etag')).toBe('"1"');
    const { created_at, updated_at, ...rest } = await json(changed);
    expect(rest).toMatchObject({ enabled: false, failover: true, session_affinity: true, strategy: 'round_robin' });
    expect(updated_at >= created_at).toBe(true);
    expect((await read()).filter((one) => one.endsWith('changing'))).toHaveLength(2);
  });

  test('creates an access policy, under its canonical selector', async () => {
    const answer = await put({ source: 'llamacpp/*', user_paths: ['/nobody'] });
    expect(await json(answer)).toMatchObject({
      source: 'llamacpp/',
      kind: 'policy',
      scope_kind: 'provider',
      provider_name: 'llamacpp',
      valid: true,
      user_paths: ['/nobody'],
      enabled: true,
    });
    expect((await remove('llamacpp/*')).status).toBe(204);
    const exact = await json(await put({ source: 'llamacpp/some/model', enabled: false }));
    expect(exact).toMatchObject({ scope_kind: 'provider_model', provider_name: 'llamacpp', model: 'some/model' });
    expect(await json(await put({ source: 'some-model', enabled: false }))).toMatchObject({ scope_kind: 'model' });
    expect((await remove('llamacpp/some/model')).status).toBe(204);
    expect((await remove('some-model')).status).toBe(204);
  });

  test('removes an access policy that has no effect any more', async () => {
    expect((await put({ source: 'llamacpp/x', enabled: false })).status).toBe(200);
    const answer = await put({ source: 'llamacpp/x' });
    expect(answer.status).toBe(204);
    expect(await answer.text()).toBe('');
    expect(await row('llamacpp/x')).toBeUndefined();
    expect((await put({ source: 'llamacpp/x' })).status).toBe(204);
    expect((await read()).filter((one) => one.endsWith('llamacpp/x'))).toEqual([
      'virtual_model.saved llamacpp/x',
      'virtual_model.removed llamacpp/x',
    ]);
  });

  test('renames one, in one step', async () => {
    await put({ source: 'old name', target_model: 'simulated-small' });
    const answer = await put({ source: 'new name', old_source: 'old name', target_model: 'simulated-small' });
    expect(await json(answer)).toMatchObject({ source: 'new name', revision: '0' });
    expect(await row('old name')).toBeUndefined();
    expect((await errorOf(await put({ source: 'x', old_source: 'old name', target_model: 'y' }), 404)).code).toBe(
      'not_found',
    );
    const taken = await put({ source: 'fast', old_source: 'new name', target_model: 'simulated-small' });
    expect(await errorOf(taken, 409)).toMatchObject({ code: 'virtual_model_exists', param: 'source' });
    // The same name is no rename.
    expect((await put({ source: 'new name', old_source: 'new name', target_model: 'simulated-large' })).status).toBe(
      200,
    );
    // And the old name can be used again.
    expect((await put({ source: 'old name', target_model: 'simulated-small' })).headers.get('etag')).toBe('"2"');
  });

  test('shows that a target does not exist', async () => {
    expect(await json(await put({ source: 'hollow', target_model: 'no-such-model' }))).toMatchObject({ valid: false });
    expect(await row('lost')).toMatchObject({ valid: false, managed: true });
  });
});

describe('concurrent changes of one virtual model', () => {
  test('change it only at the revision in If-Match', async () => {
    const made = await put({ source: 'guarded', target_model: 'simulated-small' });
    const etag = made.headers.get('etag') ?? '';
    const change = (model: string, ifMatch: string) =>
      put({ source: 'guarded', target_model: model }, { 'if-match': ifMatch });
    expect((await change('simulated-large', etag)).headers.get('etag')).toBe('"1"');
    expect(await errorOf(await change('simulated-embed', etag), 409)).toMatchObject({ code: 'revision_mismatch' });
    expect((await errorOf(await remove('guarded', { 'if-match': etag }), 409)).code).toBe('revision_mismatch');
    const rename = put(
      { source: 'elsewhere', old_source: 'guarded', target_model: 'simulated-small' },
      { 'if-match': etag },
    );
    expect((await errorOf(await rename, 409)).code).toBe('revision_mismatch');
    expect((await remove('guarded', { 'if-match': '"1"' })).status).toBe(204);
  });

  test('cannot form a cycle of which each change adds one half', async () => {
    await put({ source: 'left', target_model: 'simulated-small' });
    await put({ source: 'right', target_model: 'simulated-small' });
    const answers = await Promise.all([
      put({ source: 'left', target_model: 'right' }),
      put({ source: 'right', target_model: 'left' }),
    ]);
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 400]);
  });

  test('are all applied, one after the other', async () => {
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, n) => put({ source: 'busy', target_model: `model-${n}` })),
    );
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 20 }, () => 200));
    expect(answers.map((answer) => answer.headers.get('etag')).sort()).toEqual(
      Array.from({ length: 20 }, (_, n) => `"${n}"`).sort(),
    );
  });
});

describe('DELETE /admin/virtual-models', () => {
  test('removes one, and is a 404 without one', async () => {
    await put({ source: 'short-lived', target_model: 'simulated-small' });
    expect((await remove('short-lived')).status).toBe(204);
    expect(await errorOf(await remove('short-lived'), 404)).toMatchObject({ type: 'not_found_error' });
  });

  test('keeps one that is the target of others', async () => {
    await put({ source: 'inner', target_model: 'simulated-small' });
    await put({ source: 'outer', target_model: 'inner' });
    const refused = await errorOf(await remove('inner'), 409);
    expect(refused).toMatchObject({ code: 'virtual_model_in_use', param: 'source' });
    expect(refused.message).toContain("'outer'");
    await remove('outer');
    expect((await remove('inner')).status).toBe(204);
  });
});

describe('virtual models of the configuration', () => {
  test('are listed, and read-only', async () => {
    const declared = await row('declared');
    expect(declared).toMatchObject({ managed: true, resolved_model: 'llamacpp/simulated-small' });
    expect('created_at' in declared || 'revision' in declared).toBe(false);
    for (const answer of [
      await put({ source: 'declared', target_model: 'simulated-large' }),
      await put({ source: 'other', old_source: 'declared', target_model: 'simulated-large' }),
      await remove('declared'),
    ]) {
      expect(await errorOf(answer, 409)).toMatchObject({ code: 'virtual_model_managed', param: 'source' });
    }
  });

  test('that are invalid keep the gateway from starting, with the reason', async () => {
    const circle = [
      { source: 'a', target_model: 'b' },
      { source: 'b', target_model: 'a' },
    ];
    const starting = startTestGateway({ env: { VIRTUAL_MODELS: JSON.stringify(circle) } });
    await expect(starting).rejects.toThrow("virtual_models: 'a' cannot be resolved: a → b → a");
    const blank = startTestGateway({ env: { VIRTUAL_MODELS: '[{"source":"a","target_model":" "}]' } });
    await expect(blank).rejects.toThrow('expected a model');
    const text = startTestGateway({ env: { VIRTUAL_MODELS: 'fast=groq' } });
    await expect(text).rejects.toThrow('expected a list of mappings');
  });
});

describe('bad input', () => {
  test.each<[string, unknown, string | null]>([
    ['no object', [], null],
    ['no source', { target_model: 'x' }, 'source'],
    ['a source that is not a string', { source: 7, target_model: 'x' }, 'source'],
    ['an unknown field', { source: 'x', target_model: 'y', colour: 'red' }, 'colour'],
    ['an unknown field of a target', { source: 'x', targets: [{ model: 'y', name: 'z' }] }, 'targets.0.name'],
    ['blank targets', { source: 'x', targets: [{ model: '' }, { model: ' ' }] }, 'targets.0.model'],
    ['an unknown provider', { source: 'x', targets: [{ provider: 'nobody', model: 'y' }] }, 'targets.0.provider'],
    ['a weight of zero', { source: 'x', targets: [{ model: 'y', weight: 0 }] }, 'targets.0.weight'],
    ['a weight as text', { source: 'x', targets: [{ model: 'y', weight: '1' }] }, 'targets.0.weight'],
    ['an unknown strategy', { source: 'x', target_model: 'y', strategy: 'luck' }, 'strategy'],
    ['a plugin', { source: 'x', target_model: 'y', strategy: 'plugin', strategy_plugin: 'p' }, 'strategy_plugin'],
    ['a slowdown', { source: 'x', target_model: 'y', slowdown: 0.5 }, 'slowdown'],
    ['failover that is not an object', { source: 'x', target_model: 'y', failover: 'yes' }, 'failover'],
    ['a path with two dots', { source: 'x', target_model: 'y', user_paths: ['/a/../b'] }, 'user_paths.0'],
    ['a path with an empty segment', { source: 'x', target_model: 'y', user_paths: ['/a', '/a//b'] }, 'user_paths.1'],
    ['a policy of an unknown provider', { source: 'nobody/', enabled: false }, 'source'],
    ['a strategy of a policy', { source: 'llamacpp/', strategy: 'cost' }, 'strategy'],
  ])('%s is refused, and nothing changes', async (_what, body, param) => {
    const before = await read();
    expect(await errorOf(await put(body), 400)).toMatchObject({ type: 'invalid_request_error', param });
    expect(await read()).toEqual(before);
  });

  test('an infinite weight is refused', async () => {
    const text = '{"source":"x","targets":[{"model":"y","weight":1e999}]}';
    const answer = await gateway.fetch('/admin/virtual-models', { method: 'PUT', body: text });
    expect(await errorOf(answer, 400)).toMatchObject({ param: 'targets.0.weight' });
  });

  test('malformed JSON is refused with invalid_json', async () => {
    const answer = await gateway.fetch('/admin/virtual-models', { method: 'PUT', body: '{"source":' });
    expect((await errorOf(answer, 400)).code).toBe('invalid_json');
  });

  test('cycles and chains that are too deep have codes of their own', async () => {
    await put({ source: 'first', target_model: 'simulated-small' });
    await put({ source: 'second', target_model: 'first' });
    const circle = await errorOf(await put({ source: 'first', target_model: 'second' }), 400);
    expect(circle).toMatchObject({ code: 'virtual_model_cycle', param: 'targets' });
    const itself = await errorOf(await put({ source: 'itself', target_model: 'itself' }), 400);
    expect(itself).toMatchObject({ code: 'virtual_model_cycle', param: 'targets' });
    const shadow = await put({ source: 'simulated-large', targets: [{ model: 'simulated-large' }] });
    expect(shadow.status).toBe(200);
    await remove('simulated-small');
    for (let n = 3; n <= 8; n++) await put({ source: `n${n}`, target_model: n === 3 ? 'second' : `n${n - 1}` });
    const deep = await errorOf(await put({ source: 'n9', target_model: 'n8' }), 400);
    expect(deep).toMatchObject({ code: 'virtual_model_too_deep', param: 'targets' });
  });
});

test('a configuration that completes a cycle with a saved one keeps the gateway from starting', async () => {
  const { mkdtempSync, rmSync } = await import('node:fs');
  const { tmpdir } = await import('node:os');
  const { join } = await import('node:path');
  const dataDir = mkdtempSync(join(tmpdir(), 'chancery-virtual-cycle-'));
  const first = await startTestGateway({ dataDir });
  const saved = await first.fetch('/admin/virtual-models', {
    method: 'PUT',
    json: { source: 'saved', target_model: 'declared' },
  });
  expect(saved.status).toBe(200);
  await first.close();
  const declared = JSON.stringify([{ source: 'declared', target_model: 'saved' }]);
  await expect(startTestGateway({ dataDir, env: { VIRTUAL_MODELS: declared } })).rejects.toThrow(
    "virtual_models: 'declared' cannot be resolved: declared → saved → declared. Saved by an administrator: saved",
  );
  rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
});

test('everything is the same after a restart, including resolution', async () => {
  const { mkdtempSync, rmSync } = await import('node:fs');
  const { tmpdir } = await import('node:os');
  const { join } = await import('node:path');
  const dataDir = mkdtempSync(join(tmpdir(), 'chancery-virtual-'));
  const first = await startTestGateway({ dataDir });
  await modelsListed(first);
  await first.fetch('/admin/virtual-models', {
    method: 'PUT',
    json: { source: 'kept', targets: [{ model: 'simulated-large' }], strategy: 'adaptive' },
  });
  await first.fetch('/admin/virtual-models', { method: 'PUT', json: { source: 'gone', target_model: 'x' } });
  await first.fetch('/admin/virtual-models', { method: 'DELETE', json: { source: 'gone' } });
  const before = await json(await first.fetch('/admin/virtual-models'));
  await first.close();
  const second = await startTestGateway({ dataDir });
  try {
    expect(await json(await second.fetch('/admin/virtual-models'))).toEqual(before);
    const answer = await second.fetch('/v1/chat/completions', { json: { model: 'kept', messages: user('Hello.') } });
    expect(answer.status).toBe(200);
    await answer.text();
  } finally {
    await second.close();
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
  }
});

test('the list can be read as of an earlier moment', async () => {
  await put({ source: 'then', target_model: 'simulated-small', description: 'before' });
  const events = await eventsUntil(gateway, 'types=virtual_model.', ({ data }) => data.source === 'then');
  const position = events.at(-1)?.position;
  await put({ source: 'then', target_model: 'simulated-large', description: 'after' });
  const past = await json(await gateway.fetch(`/admin/virtual-models?as_of=${position}`));
  const descriptions = [past, await list()].map(
    (rows) => rows.find((one: { source: string }) => one.source === 'then').description,
  );
  expect(descriptions).toEqual(['before', 'after']);
});
