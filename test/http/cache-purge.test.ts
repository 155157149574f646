/** `POST /admin/cache/purge`: which answers it removes, and for whom. */
import { beforeAll, describe, expect, it } from 'vitest';
import { both, withBothKinds } from '../support/both-kinds.ts';
import { type ManagedKey, newKey } from '../support/managed-keys.ts';
import { errorOf, json, user, withGateway } from '../support/with-gateway.ts';

describe('a purge', () => {
  const kinds = withBothKinds({ RESPONSE_CACHE_ENABLED: 'true' });
  const { gateway } = kinds;
  const [[, translated], [, native]] = both;
  const keys = new Map<string, ManagedKey>();
  const key = (path: string): ManagedKey => {
    const known = keys.get(path);
    if (known === undefined) throw new Error(path);
    return known;
  };
  const paths = ['/team', '/team/a', '/teams', '/other'];
  const purge = (body: object, by: Pick<ManagedKey, 'fetch'> = gateway) =>
    by.fetch('/admin/cache/purge', { method: 'POST', json: body });
  const chat = (model: string) => ({ model, messages: user('Purge me') });
  const cacheOf = async (path: string, model: string) => {
    const answer = await key(path).fetch('/v1/chat/completions', { json: chat(model) });
    await answer.text();
    return answer.headers.get('x-cache');
  };
  /** Fills the cache for every path and model; the paths and models whose answers were not there. */
  async function filled(): Promise<string[]> {
    const missed: string[] = [];
    for (const path of paths) {
      for (const [kind, model] of both) if ((await cacheOf(path, model)) === 'MISS') missed.push(`${path} ${kind}`);
    }
    return missed;
  }

  beforeAll(async () => {
    for (const path of paths) keys.set(path, await newKey(gateway, { user_path: path }));
    keys.set('administrator', await newKey(gateway, { user_path: '/team', dashboard_access: true }));
    await filled();
  });

  it.each([
    [
      'a path and everything below it',
      { user_path: '/team' },
      ['/team native', '/team translated', '/team/a native', '/team/a translated'],
    ],
    ['a path without a leading slash', { user_path: 'team/a/' }, ['/team/a native', '/team/a translated']],
    ['a provider', { provider: native.split('/')[0] }, paths.map((path) => `${path} native`)],
    [
      'a model',
      { model: translated.split('/')[1], provider: translated.split('/')[0] },
      paths.map((path) => `${path} translated`),
    ],
    [
      'a path and a model',
      { user_path: '/other', model: translated.split('/')[1], provider: translated.split('/')[0] },
      ['/other translated'],
    ],
    ['a path without answers', { user_path: '/te' }, []],
    ['everything', { all: true }, paths.flatMap((path) => [`${path} native`, `${path} translated`])],
    [
      'everything, as the root path',
      { user_path: '/' },
      paths.flatMap((path) => [`${path} native`, `${path} translated`]),
    ],
  ])('removes the answers of %s', async (_what, body, removed) => {
    const answer = await purge(body);
    expect({ status: answer.status, body: await json(answer) }).toEqual({
      status: 200,
      body: { purged: removed.length },
    });
    expect((await filled()).sort()).toEqual([...removed].sort());
    expect(await filled()).toEqual([]);
  });

  it.each([
    ['nothing', {}, null],
    ['everything and a path', { all: true, user_path: '/team' }, 'all'],
    ['all: false', { all: false }, 'all'],
    ['an empty model', { model: '' }, 'model'],
    ['an invalid path', { user_path: '/a//b' }, 'user_path'],
    ['an empty path', { user_path: '' }, 'user_path'],
    ['an unknown member', { path: '/team' }, 'path'],
  ])('of %s is refused', async (_what, body, param) => {
    expect(await errorOf(await purge(body), 400)).toMatchObject({ param });
    expect(await filled()).toEqual([]);
  });

  it('by an administrator of a subtree removes answers in it only', async () => {
    const administrator = key('administrator');
    for (const body of [{ all: true }, { model: 'm' }, { provider: 'openai' }]) {
      expect(await errorOf(await purge(body, administrator), 403)).toMatchObject({ code: 'admin_scope_denied' });
    }
    for (const user_path of ['/', '/teams', '/other']) {
      expect(await errorOf(await purge({ user_path }, administrator), 403)).toMatchObject({ param: 'user_path' });
    }
    expect((await errorOf(await purge({}, administrator), 400)).param).toBeNull();
    expect(await filled()).toEqual([]);
    expect(await json(await purge({ user_path: '/team/a', provider: native.split('/')[0] }, administrator))).toEqual({
      purged: 1,
    });
    expect(await filled()).toEqual(['/team/a native']);
  });

  it('is an event in the admin history', async () => {
    await purge({ user_path: '/team/a' });
    const { entries } = await json(await gateway.fetch('/admin/history?subject=settings:cache&limit=1'));
    expect(entries).toMatchObject([{ type: 'cache.purged', before: null }]);
    expect(entries[0].after).toEqual({ user_path: '/team/a' });
  });

  it('is not survived by an answer that arrives later to a request from before', async () => {
    gateway.simulated.control.next({ firstByteDelayMs: 300 });
    const body = { model: translated, messages: user('Asked before the purge') };
    const answer = gateway.post('/v1/chat/completions', body);
    await expect.poll(() => gateway.simulated.requests.at(-1)?.body).toContain('Asked before the purge');
    await purge({ all: true });
    await (await answer).text();
    const again = await gateway.post('/v1/chat/completions', body);
    await again.text();
    expect(again.headers.get('x-cache')).toBe('MISS');
  });
});

describe('without a response cache', () => {
  const gateway = withGateway();

  it('there is nothing to purge', async () => {
    const answer = await gateway.fetch('/admin/cache/purge', { json: { all: true } });
    expect(await errorOf(answer, 503)).toMatchObject({ code: 'feature_unavailable' });
  });
});
