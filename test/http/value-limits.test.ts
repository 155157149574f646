/** Values beyond OpenAI's limits are refused, on every route that accepts them, before any provider is called. */
import { describe, expect, it } from 'vitest';
import { both, withBothKinds } from '../support/both-kinds.ts';
import { errorOf, json, user } from '../support/with-gateway.ts';

const kinds = withBothKinds();
const { gateway } = kinds;
const model = 'llamacpp/simulated-small';

const creates: readonly (readonly [string, object])[] = [
  ['/v1/chat/completions', { model, messages: user('hi') }],
  ['/v1/responses', { model, input: 'hi' }],
  ['/v1/responses', { model: 'openai/simulated-small', input: 'hi', stream: true }],
  ['/v1/responses/input_tokens', { model: 'openai/simulated-small', input: 'hi' }],
  ['/v1/completions', { model, prompt: 'hi' }],
];
const upstream = () => [...gateway.simulated.requests, ...kinds.nativeProvider.requests].filter(isPost).length;
const isPost = ({ method }: { method: string }) => method === 'POST';

async function refused(path: string, body: unknown) {
  const before = upstream();
  const error = await errorOf(await gateway.post(path, body), 400);
  expect(upstream()).toBe(before);
  expect(error.type).toBe('invalid_request_error');
  return error;
}

const pairs = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${at}`, 'v']));

describe.each(creates)('POST %s', (path, body) => {
  it.each([
    [
      'temperature',
      2.1,
      'decimal_above_max_value',
      "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 2.1 instead.",
    ],
    [
      'temperature',
      -0.1,
      'decimal_below_min_value',
      "Invalid 'temperature': decimal below minimum value. Expected a value >= 0, but got -0.1 instead.",
    ],
    ['top_p', 1.5, 'decimal_above_max_value', expect.stringContaining('<= 1')],
    ['top_p', -1, 'decimal_below_min_value', expect.stringContaining('>= 0')],
  ])('refuses %s %d', async (name, value, code, message) => {
    expect(await refused(path, { ...body, [name]: value })).toMatchObject({ param: name, code, message });
  });

  it.each([
    ['more than 16 pairs', pairs(17), 'metadata_max_properties_exceeded'],
    ['a key of more than 64 characters', { ['k'.repeat(65)]: 'v' }, 'string_above_max_length'],
    ['a value of more than 512 characters', { k: 'v'.repeat(513) }, 'string_above_max_length'],
    ['a key of 65 characters beyond the first plane', { ['😀'.repeat(65)]: 'v' }, 'string_above_max_length'],
    ['a value of 513 such characters', { k: '😀'.repeat(513) }, 'string_above_max_length'],
  ])('refuses metadata with %s', async (_what, metadata, code) => {
    expect(await refused(path, { ...body, metadata })).toMatchObject({ param: 'metadata', code });
  });
});

describe('POST /v1/messages', () => {
  const body = { model, max_tokens: 10, messages: user('hi') };

  it.each([
    ['temperature', 1.1],
    ['top_p', 1.1],
  ])('refuses %s %d, as Anthropic does', async (name, value) => {
    const answer = await gateway.post('/v1/messages', { ...body, [name]: value });
    expect(answer.status).toBe(400);
    expect((await json(answer)).error).toMatchObject({ type: 'invalid_request_error' });
  });
});

it('values at the limits are accepted', async () => {
  const metadata = { ...pairs(15), ['k'.repeat(64)]: 'v'.repeat(512) };
  const answer = await gateway.post('/v1/responses', { model, input: 'hi', temperature: 2, top_p: 1, metadata });
  expect(answer.status).toBe(200);
  const wide = { ['😀'.repeat(64)]: '😀'.repeat(512) };
  const counted = await gateway.post('/v1/responses', { model, input: 'hi', metadata: wide });
  expect(await json(counted)).toMatchObject({ metadata: wide });
  expect((await gateway.post('/v1/conversations', { metadata: wide })).status).toBe(200);
  const lowest = await gateway.post('/v1/chat/completions', { model, messages: user('hi'), temperature: 0, top_p: 0 });
  expect(lowest.status).toBe(200);
});

describe('a passthrough', () => {
  it('accepts any value: its provider decides', async () => {
    const body = { model: 'simulated-small', messages: user('hi'), temperature: 2.5 };
    const before = upstream();
    await (await gateway.post('/p/llamacpp/v1/chat/completions', body)).text();
    expect(upstream()).toBe(before + 1);
  });
});

describe('lists', () => {
  const limits = [
    [
      '101',
      'integer_above_max_value',
      "Invalid 'limit': integer above maximum value. Expected a value <= 100, but got 101 instead.",
    ],
    [
      '0',
      'integer_below_min_value',
      "Invalid 'limit': integer below minimum value. Expected a value >= 1, but got 0 instead.",
    ],
    ['-1', 'integer_below_min_value', expect.any(String)],
    ['x', 'invalid_type', "Invalid type for 'limit': expected an integer, but got 'x' instead."],
    ['1.5', 'invalid_type', expect.any(String)],
  ] as const;

  async function lists(): Promise<string[]> {
    const { id } = await kinds.create({ input: 'hi' });
    const conversation = await json(await gateway.post('/v1/conversations', {}));
    return [
      `/v1/responses/${id}/input_items`,
      `/v1/conversations/${conversation.id}/items`,
      '/v1/batches',
      '/v1/files',
    ];
  }

  it.each(limits)('refuse a limit of %s', async (limit, code, message) => {
    for (const path of await lists()) {
      const error = await errorOf(await gateway.fetch(`${path}?limit=${limit}`), 400);
      expect(error, path).toMatchObject({ param: 'limit', code, message });
    }
  });

  it.each(both)('refuse an unknown after: %s', async (_kind, of) => {
    const { id } = await kinds.create({ model: of, input: 'hi' });
    const error = await errorOf(await gateway.fetch(`/v1/responses/${id}/input_items?after=msg_none`), 404);
    expect(error).toMatchObject({ type: 'invalid_request_error', param: 'after' });
    const conversation = await json(await gateway.post('/v1/conversations', {}));
    const items = `/v1/conversations/${conversation.id}/items?after=msg_none`;
    expect(await errorOf(await gateway.fetch(items), 404)).toMatchObject({ code: error.code, param: 'after' });
  });
});
