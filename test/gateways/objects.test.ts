/** What is recorded through one gateway is found through another one at once: every route of the table that names an object. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { adminRoutes } from '../http/route-access/admin-routes.ts';
import type { Row } from '../http/route-access/row.ts';
import type { World } from '../http/route-access/stored-objects.ts';
import { v1Routes } from '../http/route-access/v1-routes.ts';
import type { Answered } from '../support/answered.ts';
import { someOf } from '../support/seed.ts';
import { type OneOfSeveral, withSeveral } from './several.ts';

/** Its background responses do not end by themselves. */
const native = createSimulatedProvider({ apiKey: 'sk-native', backgroundMs: 3_600_000 });
const several = withSeveral({
  delays: [0, 15],
  async env() {
    return {
      OPENAI_BASE_URL: await native.listen(),
      OPENAI_API_KEY: 'sk-native',
      PLUGINS_ENABLED: 'true',
      RESPONSE_CACHE_ENABLED: 'true',
    };
  },
});
const keyAt = new Map<string, string>();
const at = (place: number): OneOfSeveral => several.all[place] as OneOfSeveral;

beforeAll(async () => {
  for (const path of ['/team/a', '/third']) {
    const answer = await at(0).fetch('/admin/auth-keys', { json: { name: 'a key', user_path: path } });
    keyAt.set(path, ((await answer.json()) as Answered).value);
  }
});
afterAll(() => native.close());

/** The column of the callers: a plain key for its own objects, the master key for all. */
const BOUND_KEY = 2;
const MASTER = 6;

interface Call {
  readonly row: Row;
  readonly status: number;
  readonly key: string | undefined;
}

const named = (rows: readonly Row[], column: number, path?: string): [string, () => Call][] =>
  rows
    .filter(({ make, answers }) => make !== undefined && (answers[column] ?? 500) < 300)
    .map((row) => [
      `${row.route}${row.about === undefined ? '' : ` (${row.about})`}`,
      () => ({ row, status: row.answers[column] ?? 0, key: path === undefined ? undefined : keyAt.get(path) }),
    ]);

const calls = [...named(v1Routes, BOUND_KEY, '/team/a'), ...named(adminRoutes, MASTER)];

describe('an object that was made through another gateway', () => {
  it('is named by many routes', () => expect(calls.length).toBeGreaterThan(70));

  it.each(someOf(calls, ([name]) => [name.split(' (')[0]]))('%s', async (_name, call) => {
    const { row, status, key } = call();
    const world: World = { gateway: at(0), keyAt };
    const id = (await row.make?.(world)) ?? '';
    const [method = '', url = ''] = row.route.split(' ');
    const body = row.body?.(id);
    const answer = await at(1).fetch(row.path?.(id) ?? url.replace(':id', id), {
      method,
      ...(key !== undefined && { key }),
      ...(body !== undefined && { json: body }),
    });
    const text = await answer.text();
    expect({ status: answer.status, text: answer.status === status ? '' : text }).toEqual({ status, text: '' });
    if (row.shows?.[MASTER] === true && key === undefined) expect(text).toContain(id);
  });
});
