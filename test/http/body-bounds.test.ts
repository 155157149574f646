/** JSON bodies that are refused before they are parsed, in every route that takes one. */
import { describe, expect, it } from 'vitest';
import { newKey } from '../support/managed-keys.ts';
import { errorOf, json, user, withGateway } from '../support/with-gateway.ts';

const gateway = withGateway({ env: { PASSTHROUGH_STATELESS_ROUTES: 'POST /v1/x' } });
const model = 'llamacpp/simulated-small';

const routes = [
  '/v1/chat/completions',
  '/v1/responses',
  '/v1/responses/input_tokens',
  '/v1/responses/compact',
  '/v1/messages',
  '/v1/messages/count_tokens',
  '/v1/embeddings',
  '/v1/completions',
  '/v1/images/generations',
  '/v1/images/edits',
  '/v1/audio/speech',
  '/v1/batches',
  '/v1/messages/batches',
  '/v1/conversations',
  '/p/llamacpp/v1/chat/completions',
];

const repeat = (text: string, times: number) => Array.from({ length: times }, () => text).join(',');
const bounded = [
  ['levels', 'nested_too_deeply', 'REQUEST_MAX_DEPTH', `${'['.repeat(2_000_000)}`],
  ['messages', 'body_too_complex', 'REQUEST_MAX_ENTRIES', `[${repeat('{"role":"user","content":"a"}', 110_000)}]`],
  [
    'members of one object',
    'body_too_complex',
    'REQUEST_MAX_ENTRIES',
    `{${Array.from({ length: 110_000 }, (_, at) => `"m${at}":1`).join(',')}}`,
  ],
  ['lists', 'body_too_complex', 'REQUEST_MAX_OBJECTS', `[${repeat(`[${repeat('[]', 9999)}]`, 250)}]`],
  ['numbers', 'body_too_complex', 'REQUEST_MAX_VALUES', `[${'1,'.repeat(11_000_000)}1]`],
] as const;

/** A text: only such callers have bodies under `/p` that are read. */
async function post(path: string, body: string): Promise<Response> {
  const key = await newKey(gateway, { user_path: '/team' });
  return key.fetch(path, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
}

async function refusal(answer: Response, path: string) {
  expect(answer.status, await answer.clone().text()).toBe(400);
  return path.startsWith('/v1/messages') ? (await json(answer)).error : errorOf(answer, 400);
}

describe.each(routes)('POST %s', (path) => {
  it.each(bounded)('refuses too many %s, naming the setting', async (_what, code, setting, value) => {
    const error = await refusal(await post(path, `{"model":"${model}","messages":${value}}`), path);
    expect(error.message).toContain(setting);
    if (!path.startsWith('/v1/messages')) expect(error.code).toBe(code);
  });

  it.each([
    ['max_tokens', '"max_tokens":1,"max_tokens":1000000'],
    ['Max_Tokens', '"max_tokens":1,"Max_Tokens":1000000'],
    ['previous_response_id', '"previous_response_id":"a","previous\\u005fresponse_id":"b"'],
    ['file_id', '"input":[{"content":[{"type":"input_file","file_id":"a","file_id":"b"}]}]'],
    ['vector_store_ids', '"tools":[{"type":"file_search","vector_store_ids":["a"],"vector_store_ids":["b"]}]'],
  ])('refuses a second %s', async (name, members) => {
    const body = `{"model":"${model}","messages":${JSON.stringify(user('hi'))},${members}}`;
    const error = await refusal(await post(path, body), path);
    expect(error.message).toContain(`'${name}' more than once`);
  });
});

it.each([
  '/v1/chat/completions',
  '/v1/responses',
  '/v1/messages',
  '/v1/completions',
  '/p/llamacpp/v1/chat/completions',
])('POST %s refuses a member that some servers take for another, and passes on unknown ones', async (path) => {
  const given = { messages: user('hi'), input: 'hi', prompt: 'hi', max_tokens: 10, Unknown: 1 };
  const more = [
    ['MAX_COMPLETION_TOKENS', '"MAX_COMPLETION_TOKENS":8000'],
    ['N', '"N":20'],
    ['Best_of', '"Best_of":20'],
    ['option\u017f', '"option\u017f":{"num_predict":8000}'],
    ['Num_Predict', '"options":{"Num_Predict":8000}'],
  ] as const;
  for (const [name, members] of more) {
    const body = `${JSON.stringify({ model, ...given }).slice(0, -1)},${members}}`;
    const error = await refusal(await post(path, body), path);
    expect(error.message).toContain(`'${name}'`);
    if (!path.startsWith('/v1/messages')) expect(error).toMatchObject({ code: 'ambiguous_member', param: name });
  }
  for (const second of ['max_token\u017f', 'max_to\u212aens', 'max\\u005ftoken\\u017f']) {
    const body = `${JSON.stringify({ model, ...given }).slice(0, -1)},"${second}":8000}`;
    expect((await refusal(await post(path, body), path)).message).toContain('more than once');
  }
  const answer = await post(path, JSON.stringify({ model, ...given }));
  expect(answer.status, await answer.text()).toBe(200);
});

it('names of different objects, and names in texts, are not the same name', async () => {
  const messages = [...user('{"a":1,"a":2}'), { role: 'assistant', content: 'b' }, ...user('"role":"x","role":"y"')];
  const body = `{"model":"${model}","messages":${JSON.stringify(messages)},"metadata":{"Key":"a","key":"b"}}`;
  const answer = await post('/v1/chat/completions', body);
  expect(answer.status, await answer.text()).toBe(200);
});

it('thousands of messages are served', async () => {
  const messages = Array.from({ length: 5000 }, (_, at) => ({
    role: at % 2 === 0 ? 'user' : 'assistant',
    content: 'a',
  }));
  for (const path of ['/v1/chat/completions', '/v1/messages']) {
    const answer = await post(path, JSON.stringify({ model, max_tokens: 5, messages }));
    expect(answer.status, await answer.text()).toBe(200);
  }
});

it('a refused body under /p is not parsed for its record', async () => {
  const before = process.cpuUsage();
  const body = `{"model":"${model}","z":${'['.repeat(20_000_000)}`;
  const answer = await post('/p/llamacpp/v1/chat/completions', body);
  expect(await errorOf(answer, 400)).toMatchObject({ code: 'nested_too_deeply' });
  const { user: used, system } = process.cpuUsage(before);
  expect((used + system) / 1000).toBeLessThan(1000);
});
