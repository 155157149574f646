import { beforeAll, describe, expect, it } from 'vitest';
import type { Answered } from '../support/answered.ts';
import { type ManagedKey, newKey } from '../support/managed-keys.ts';
import { errorOf, json, withGateway } from '../support/with-gateway.ts';

const gateway = withGateway();
let scoped: ManagedKey;
beforeAll(async () => {
  for (const place of [1, 2, 3, 4, 5]) await newKey(gateway, { name: `key ${place}`, user_path: `/team/p${place}` });
  await newKey(gateway, { user_path: '/rival' });
  scoped = await newKey(gateway, { user_path: '/team', dashboard_access: true });
});

const lists: [string, (answer: Answered) => Answered[], (row: Answered) => string][] = [
  ['/admin/auth-keys', (rows) => rows, ({ id }) => id],
  ['/admin/users', ({ users }) => users, ({ user_path }) => user_path],
  ['/admin/models', (rows) => rows, ({ selector }) => selector],
];

/** Follows the links from the first page to the last. */
async function pagesOf(path: string, rowsOf: (answer: Answered) => Answered[], by: Pick<ManagedKey, 'fetch'>) {
  const pages: Answered[][] = [];
  for (let next: string | undefined = path; next !== undefined; ) {
    const answer = await by.fetch(next);
    expect(answer.status, next).toBe(200);
    pages.push(rowsOf(await json(answer)));
    const link = answer.headers.get('link');
    next = link === null ? undefined : /^<([^>]+)>; rel="next"$/.exec(link)?.[1];
    if (link !== null) expect(next, link).toBeDefined();
  }
  return pages;
}

describe.each(lists)('GET %s', (path, rowsOf, idOf) => {
  it('is complete and has no link without a limit', async () => {
    const answer = await gateway.fetch(path);
    expect(answer.headers.get('link')).toBeNull();
    expect(rowsOf(await json(answer)).length).toBeGreaterThan(2);
  });

  it.each([
    ['the master key', () => gateway],
    ['an administrator of a subtree', () => scoped],
  ])('returns %s with a limit the same rows in the same order, page by page', async (_by, by) => {
    const whole = rowsOf(await json(await by().fetch(path)));
    for (const limit of [1, 2, whole.length, 1000]) {
      const pages = await pagesOf(`${path}?limit=${limit}`, rowsOf, by());
      expect(pages.flat().map(idOf)).toEqual(whole.map(idOf));
      expect(pages).toHaveLength(Math.ceil(whole.length / limit));
    }
  });

  it('keeps the other parameters of the request in the link', async () => {
    const before = new Date().toISOString();
    const link = (await gateway.fetch(`${path}?limit=1&as_of=${before}&category=all`)).headers.get('link') ?? '';
    expect(link).toContain(`as_of=${encodeURIComponent(before)}`);
    expect(link).toContain('category=all');
  });

  it.each([['limit=0'], ['limit=1001'], ['limit=x'], ['limit=-1'], ['after=nothing']])('refuses %s', async (query) => {
    expect(await errorOf(await gateway.fetch(`${path}?${query}`), 400)).toMatchObject({ param: query.split('=')[0] });
  });
});

/** Every administrator sees every model. */
describe.each(lists.filter(([path]) => path !== '/admin/models'))('GET %s', (path, rowsOf, idOf) => {
  it('returns no page after a row that the caller does not see', async () => {
    const rows = rowsOf(await json(await gateway.fetch(path)));
    const [hidden] = rows.filter(({ user_path }) => user_path === '/rival').map(idOf);
    expect(hidden).toEqual(expect.any(String));
    const after = `${path}?limit=1&after=${encodeURIComponent(String(hidden))}`;
    expect((await gateway.fetch(after)).status).toBe(200);
    expect(await errorOf(await scoped.fetch(after), 400)).toMatchObject({ param: 'after' });
  });
});
