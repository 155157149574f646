/** Every admin route with a body, from the description of the API: invalid input changes nothing. */
import { beforeAll, describe, expect, it } from 'vitest';
import { servedApiDocument } from '../../scripts/api-document.ts';
import type { Answered } from '../support/answered.ts';
import { errorOf, json, withGateway } from '../support/with-gateway.ts';

const gateway = withGateway({ env: { PLUGINS_ENABLED: 'true' } });

const document: Answered = await servedApiDocument();
const routes = Object.entries<Record<string, Answered>>(document.paths).flatMap(([path, item]) =>
  Object.entries(item)
    .filter(([, { requestBody }]) => path.startsWith('/admin/') && requestBody !== undefined)
    .map(([method]) => ({ method: method.toUpperCase(), path })),
);

let key = '';
let before: readonly string[] = [];

/** The changes by administrators since the gateway started. */
async function changes(): Promise<readonly string[]> {
  const { entries } = await json(await gateway.fetch('/admin/history?limit=200'));
  return entries.map(({ position }: { position: string }) => position);
}

beforeAll(async () => {
  key = (await json(await gateway.fetch('/admin/auth-keys', { json: { name: 'untouched' } }))).id;
  before = await changes();
});

const given = (path: string) =>
  path.replace('{id}', key).replace('{user_path}', '%2Fteam').replace('{period}', 'daily').replace('{key}', 'any');

describe.each(routes)('$method $path', ({ method, path }) => {
  const send = (body: string | Buffer) => gateway.fetch(given(path), { method, body });

  it.each([
    ['is cut off', '{"a":'],
    ['is not text', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])],
    ['has an invalid number', '{"amount":NaN}'],
    ['nests without end', '['.repeat(100_000), 'nested_too_deeply'],
  ])('refuses a body that %s', async (_what, body, code = 'invalid_json') => {
    expect(await errorOf(await send(body), 400)).toMatchObject({ type: 'invalid_request_error', code });
  });

  it.each(['[]', 'null', '"x"', '42', 'true'])('refuses %s, which is no object', async (body) => {
    expect(await errorOf(await send(body), 400)).toMatchObject({
      type: 'invalid_request_error',
      code: 'invalid_type',
      param: null,
    });
  });

  it('names an unknown field', async () => {
    // A missing field may be reported first.
    const { param, message, code } = await errorOf(await send('{"nobody_knows":1}'), 400);
    expect(message).toContain(`'${param}'`);
    expect(['unknown_parameter', 'missing_required_parameter']).toContain(code);
  });

  it('names a field with a zero byte', async () => {
    const { param, message, code } = await errorOf(await send('{"a":{"b":["x\\u0000y"]}}'), 400);
    expect([param, message, code]).toEqual(['a.b.0', "'a.b.0' contains a zero byte.", 'invalid_value']);
  });

  it('requires a body', async () => {
    const { type, code } = await errorOf(await send(''), 400);
    expect(type).toBe('invalid_request_error');
    // One route accepts its parameter in the query as well.
    expect(['invalid_json', 'missing_required_parameter']).toContain(code);
  });
});

it('a missing parameter has a code of its own', async () => {
  const answer = await gateway.fetch(`/admin/auth-keys/${key}/allowed-models`, { method: 'PUT', json: {} });
  expect(await errorOf(answer, 400)).toMatchObject({
    param: 'allowed_models',
    code: 'missing_required_parameter',
    message: "'allowed_models' is missing.",
  });
});

/** Parameters for which a control character is never a valid value. */
const parsedParameters = ['limit', 'after', 'as_of', 'start_date', 'user_path', 'offset'];
const reads = Object.entries<Record<string, Answered>>(document.paths).flatMap(([path, { get }]) =>
  path.startsWith('/admin/') && get !== undefined
    ? ((get.parameters ?? []) as { name: string; in: string }[])
        .filter((parameter) => parameter.in === 'query' && parsedParameters.includes(parameter.name))
        .map(({ name }) => ({ path, name }))
    : [],
);

it('finds the parameters of the routes', () => {
  expect(new Set(reads.map(({ name }) => name))).toEqual(new Set(parsedParameters));
});

it.each(reads)('GET $path refuses a wrong value of $name with a code', async ({ path, name }) => {
  const answer = await gateway.fetch(`${given(path)}?${name}=%01`, { signal: AbortSignal.timeout(5_000) });
  // Routes that require another parameter may name that one.
  expect((await errorOf(answer, 400)).code).toEqual(expect.any(String));
});

const lists = Object.entries<Record<string, Answered>>(document.paths).flatMap(([path, { get }]) =>
  /^\/(admin|v1)\//.test(path) && get !== undefined ? [path] : [],
);

describe.each(lists)('GET %s', (path) => {
  it('refuses a zero byte in any parameter, and names the parameter', async () => {
    for (const [query, param] of [
      ['session_id=%00', 'session_id'],
      ['limit=1&model=a%00b', 'model'],
      ['search=x&search=%00', 'search'],
    ]) {
      const answer = await gateway.fetch(`${given(path)}?${query}`, { signal: AbortSignal.timeout(5_000) });
      if (answer.ok) await answer.body?.cancel();
      const error = answer.status === 400 ? await json(answer) : { status: answer.status };
      expect(error).toMatchObject({ error: { type: 'invalid_request_error' } });
      expect(JSON.stringify(error)).toContain(`'${param}' contains a zero byte`);
    }
  });
});

it('a zero byte that is encoded twice is accepted as three characters', async () => {
  expect((await gateway.fetch('/admin/auth-keys?search=%2500')).status).toBe(200);
});

it('no change was left behind', async () => {
  expect(await changes()).toEqual(before);
});
