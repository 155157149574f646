import { describe, expect, it } from 'vitest';
import { errorOf, eventsUntil, json, withGateway } from '../support/with-gateway.ts';

const gateway = withGateway();
const PATH = '/v1/conversations';
const NOBODY = `conv_${'0'.repeat(32)}`;

const as = (userPath: string) => ({ headers: { 'x-gateway-user-path': userPath } });
const user = (content: unknown, id?: string) => ({ role: 'user', content, ...(id === undefined ? {} : { id }) });
const remove = (path: string, init: RequestInit = {}) => gateway.fetch(path, { method: 'DELETE', ...init });
const pairs = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, n) => [`k${n}`, 'v']));

async function create(body: object = {}, init?: RequestInit) {
  const answer = await gateway.post(PATH, body, init);
  expect(answer.status, await answer.clone().text()).toBe(200);
  return json(answer);
}

async function list(id: string, query = '') {
  return json(await gateway.fetch(`${PATH}/${id}/items${query}`));
}

describe('a conversation', () => {
  it('is created from an empty body', async () => {
    for (const body of ['', '{}', '{"items":null,"metadata":null}', '{"items":[]}']) {
      const answer = await gateway.post(PATH, body);
      expect(answer.status).toBe(200);
      expect(await json(answer)).toEqual({
        id: expect.stringMatching(/^conv_[0-9a-f]{32}$/),
        object: 'conversation',
        created_at: expect.any(Number),
        metadata: {},
      });
    }
  });

  it('is found at once as it was created', async () => {
    const created = await create({ metadata: { topic: 'tea' }, items: [user('hi')] });
    expect(Math.abs(created.created_at - Date.now() / 1000)).toBeLessThan(60);
    expect(await json(await gateway.fetch(`${PATH}/${created.id}`))).toEqual(created);
  });

  it('has its metadata merged', async () => {
    const { id } = await create({ metadata: { a: '1', b: '1' } });
    const updated = await json(await gateway.post(`${PATH}/${id}`, { metadata: { b: '2', c: '3' } }));
    expect(updated).toMatchObject({ id, metadata: { a: '1', b: '2', c: '3' } });
    expect(await json(await gateway.fetch(`${PATH}/${id}`))).toEqual(updated);
    const full = await create({ metadata: pairs(16) });
    expect(await errorOf(await gateway.post(`${PATH}/${full.id}`, { metadata: { one: 'more' } }), 400)).toMatchObject({
      code: 'metadata_max_properties_exceeded',
      param: 'metadata',
    });
  });

  it('is not found after its deletion, and neither are its items', async () => {
    const { id } = await create({ items: [user('hi', 'msg_gone')] });
    expect(await json(await remove(`${PATH}/${id}`))).toEqual({ id, object: 'conversation.deleted', deleted: true });
    const calls = [
      gateway.fetch(`${PATH}/${id}`),
      gateway.fetch(`${PATH}/${id}/items`),
      gateway.fetch(`${PATH}/${id}/items/msg_gone`),
      gateway.post(`${PATH}/${id}`, { metadata: {} }),
      gateway.post(`${PATH}/${id}/items`, { items: [user('hi')] }),
      remove(`${PATH}/${id}/items/msg_gone`),
      remove(`${PATH}/${id}`),
    ];
    for (const answer of await Promise.all(calls)) {
      expect(await errorOf(answer, 404)).toEqual({
        type: 'not_found_error',
        code: 'conversation_not_found',
        message: `The conversation '${id}' was not found.`,
        param: null,
      });
    }
  });

  it.each([NOBODY, 'conv_x', 'resp_1', '..%2f..%2fetc', 'x'.repeat(500)])(
    'with the unknown id %s is a 404',
    async (id) => {
      for (const answer of [
        await gateway.fetch(`${PATH}/${id}`),
        await gateway.post(`${PATH}/${id}`, { metadata: {} }),
        await gateway.fetch(`${PATH}/${id}/items`),
        await remove(`${PATH}/${id}`),
      ]) {
        expect(await errorOf(answer, 404)).toMatchObject({ code: 'conversation_not_found' });
      }
    },
  );

  it('is recorded, one event for each change', async () => {
    const { id } = await create({ items: [user('hi', 'msg_told')] });
    await gateway.post(`${PATH}/${id}`, { metadata: { a: '1' } });
    await remove(`${PATH}/${id}/items/msg_told`);
    await remove(`${PATH}/${id}`);
    const events = await eventsUntil(
      gateway,
      `stream=conversation-${id}`,
      ({ type }) => type === 'conversation.deleted',
    );
    expect(events.map(({ type }) => type)).toEqual([
      'conversation.created',
      'conversation.items_added',
      'conversation.metadata_updated',
      'conversation.item_deleted',
      'conversation.deleted',
    ]);
    const [stored] = await eventsUntil(gateway, 'stream=item-msg_told', () => true);
    expect(stored).toMatchObject({ type: 'item.stored', data: { holder: 'conversation', holderId: id } });
  });
});

describe('the body of a request', () => {
  const tooMany = Array.from({ length: 21 }, () => user('hi'));

  it.each([
    ['not JSON', '{', 'invalid_json', null],
    ['no object', '[]', 'invalid_type', null],
    ['null', 'null', 'invalid_type', null],
    ['items of another type', { items: 'hi' }, 'invalid_type', 'items'],
    ['an item that is not an object', { items: ['hi'] }, 'invalid_type', 'items[0]'],
    ['an item with a wrong role', { items: [{ role: 1 }] }, 'invalid_type', 'items[0].role'],
    ['content of another type', { items: [{ role: 'user', content: 1 }] }, 'invalid_type', 'items[0].content'],
    ['21 items', { items: tooMany }, 'array_above_max_length', 'items'],
    ['an item twice', { items: [user('a', 'msg_1'), user('b', 'msg_1')] }, 'duplicate_item', 'items'],
    ['17 pairs', { metadata: pairs(17) }, 'metadata_max_properties_exceeded', 'metadata'],
    ['a long key', { metadata: { ['k'.repeat(65)]: 'v' } }, 'string_above_max_length', 'metadata'],
    ['a long value', { metadata: { k: 'v'.repeat(513) } }, 'string_above_max_length', 'metadata'],
    ['a value that is not a string', { metadata: { k: 1 } }, 'invalid_type', 'metadata.k'],
  ])('is refused when it is or has %s', async (_what, body, code, param) => {
    expect(await errorOf(await gateway.post(PATH, body), 400)).toMatchObject({
      type: 'invalid_request_error',
      code,
      param,
    });
  });

  it('must have metadata for an update, and items for an addition', async () => {
    const { id } = await create();
    for (const body of ['', '{}', '{"metadata":null,"items":null}']) {
      const missing = { code: 'missing_required_parameter' };
      expect(await errorOf(await gateway.post(`${PATH}/${id}`, body), 400)).toMatchObject({
        ...missing,
        param: 'metadata',
      });
      expect(await errorOf(await gateway.post(`${PATH}/${id}/items`, body), 400)).toMatchObject({
        ...missing,
        param: 'items',
      });
    }
    expect(await errorOf(await gateway.post(`${PATH}/${id}/items`, { items: tooMany }), 400)).toMatchObject({
      param: 'items',
    });
  });
});

describe('the items of a conversation', () => {
  it('are returned in their stored form', async () => {
    const { id } = await create();
    const items = [
      user('hi'),
      { type: 'message', role: 'assistant', content: 'hello', id: 'msg_mine' },
      { type: 'function_call', call_id: 'c1', name: 'f', arguments: '{}' },
      { type: 'function_call_output', call_id: 'c1', output: 'ok' },
      { type: 'hologram', x: 1 },
    ];
    const added = await json(await gateway.post(`${PATH}/${id}/items?include[]=x`, { items }));
    expect(added).toMatchObject({
      object: 'list',
      data: [
        {
          id: expect.stringMatching(/^msg_/),
          type: 'message',
          role: 'user',
          content: [{ type: 'input_text', text: 'hi' }],
        },
        { id: 'msg_mine', status: 'completed', content: [{ type: 'output_text', text: 'hello' }] },
        { id: expect.stringMatching(/^fc_/), call_id: 'c1' },
        { id: expect.stringMatching(/^fco_/), call_id: 'c1', output: 'ok' },
        { id: expect.stringMatching(/^msg_/), type: 'hologram', x: 1 },
      ],
      first_id: added.data[0].id,
      last_id: added.data[4].id,
      has_more: false,
    });
    expect((await list(id, '?order=asc')).data).toEqual(added.data);
    for (const item of added.data) {
      expect(await json(await gateway.fetch(`${PATH}/${id}/items/${item.id}`))).toEqual(item);
    }
  });

  it('have ids of their own, also when calls share one', async () => {
    const call = { type: 'function_call', call_id: 'call_0', name: 'f', arguments: '{}' };
    const { id } = await create({ items: [call, call] });
    await gateway.post(`${PATH}/${id}/items`, { items: [call] });
    expect(new Set((await list(id)).data.map((item: { id: string }) => item.id)).size).toBe(3);
  });

  it('are refused when they exist already', async () => {
    const { id } = await create({ items: [user('hi', 'msg_1')] });
    const again = await gateway.post(`${PATH}/${id}/items`, { items: [user('ho', 'msg_1')] });
    expect(await errorOf(again, 400)).toMatchObject({ code: 'duplicate_item', param: 'items' });
    expect((await list(id)).data).toHaveLength(1);
  });

  it('can be references: an item from elsewhere is stored whole', async () => {
    const from = await create({ items: [user('hi', 'msg_named')] });
    const { id } = await create({ items: [{ type: 'item_reference', id: 'msg_named' }] });
    expect((await list(id)).data).toEqual((await list(from.id)).data);
    const nothing = await gateway.post(`${PATH}/${id}/items`, {
      items: [{ type: 'item_reference', id: 'msg_nobody' }],
    });
    expect(await errorOf(nothing, 404)).toMatchObject({ code: 'item_not_found', param: 'items[0].id' });
  });

  it('are listed page by page, the newest first', async () => {
    const ids = Array.from({ length: 25 }, (_, n) => `msg_${n}`);
    const { id } = await create({ items: ids.slice(0, 20).map((one) => user('hi', one)) });
    await gateway.post(`${PATH}/${id}/items`, { items: ids.slice(20).map((one) => user('hi', one)) });
    const first = await list(id);
    expect(first).toMatchObject({ object: 'list', first_id: 'msg_24', last_id: 'msg_5', has_more: true });
    expect(first.data).toHaveLength(20);
    expect(await list(id, `?after=${first.last_id}`)).toMatchObject({
      first_id: 'msg_4',
      last_id: 'msg_0',
      has_more: false,
    });
    const page = await list(id, '?order=asc&limit=2&after=msg_1&include=x');
    expect(page.data.map((item: { id: string }) => item.id)).toEqual(['msg_2', 'msg_3']);
    expect(await list(id, '?after=msg_0')).toEqual({
      object: 'list',
      data: [],
      first_id: null,
      last_id: null,
      has_more: false,
    });
  });

  it.each([
    ['?limit=ten', 400, 'limit'],
    ['?order=newest', 400, 'order'],
    ['?after=msg_nobody', 404, 'after'],
  ])('are not listed for %s', async (query, status, param) => {
    const { id } = await create({ items: [user('hi')] });
    expect(await errorOf(await gateway.fetch(`${PATH}/${id}/items${query}`), status)).toMatchObject({
      type: 'invalid_request_error',
      param,
    });
  });

  it('are deleted one by one, and the conversation is returned', async () => {
    const created = await create({ items: [user('a', 'msg_a'), user('b', 'msg_b')] });
    const path = `${PATH}/${created.id}/items/msg_a`;
    expect(await json(await remove(path))).toEqual(created);
    for (const answer of [await gateway.fetch(path), await remove(path)]) {
      expect(await errorOf(answer, 404)).toEqual({
        type: 'not_found_error',
        code: 'item_not_found',
        message: `The conversation item 'msg_a' was not found in conversation '${created.id}'.`,
        param: null,
      });
    }
    expect((await list(created.id)).data.map((item: { id: string }) => item.id)).toEqual(['msg_b']);
  });

  it('are all stored when many are added at the same time', async () => {
    const { id } = await create();
    const ids = Array.from({ length: 12 }, (_, n) => `msg_${n}`);
    const answers = await Promise.all(
      ids.map((one) => gateway.post(`${PATH}/${id}/items`, { items: [user('hi', one)] })),
    );
    expect(answers.map(({ status }) => status)).toEqual(ids.map(() => 200));
    expect((await list(id)).data.map((item: { id: string }) => item.id).sort()).toEqual([...ids].sort());
  });
});

describe('a conversation with an owner', () => {
  it('is visible to its owner and to user paths above, and to no other caller', async () => {
    const { id } = await create({ items: [user('hi', 'msg_owned')] }, as('/team/a'));
    for (const path of ['/team/a', '/team', '/']) {
      expect((await gateway.fetch(`${PATH}/${id}`, as(path))).status).toBe(200);
    }
    for (const path of ['/team/b', '/team/a/x', '/team/ab']) {
      for (const answer of [
        await gateway.fetch(`${PATH}/${id}`, as(path)),
        await gateway.post(`${PATH}/${id}`, { metadata: { a: '1' } }, as(path)),
        await gateway.post(`${PATH}/${id}/items`, { items: [user('hi')] }, as(path)),
        await gateway.fetch(`${PATH}/${id}/items`, as(path)),
        await gateway.fetch(`${PATH}/${id}/items/msg_owned`, as(path)),
        await remove(`${PATH}/${id}/items/msg_owned`, as(path)),
        await remove(`${PATH}/${id}`, as(path)),
      ]) {
        expect(await errorOf(answer, 404)).toMatchObject({ message: `The conversation '${id}' was not found.` });
      }
    }
    expect((await list(id)).data).toHaveLength(1);
  });

  it('without a user path is not visible to callers that have one', async () => {
    const { id } = await create();
    expect((await gateway.fetch(`${PATH}/${id}`, as('/team'))).status).toBe(404);
  });
});
