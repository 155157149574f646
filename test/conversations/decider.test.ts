import { describe, expect, it } from 'vitest';
import {
  conversationDecider,
  itemsOf,
  MAX_CONVERSATION_BYTES,
  MAX_CONVERSATION_ITEMS,
} from '../../src/commands/conversations/conversation.ts';
import { everything, type VisibilityScope } from '../../src/commands/visibility.ts';
import {
  conversationDeleted,
  conversationItemDeleted,
  conversationMetadataUpdated,
} from '../../src/events/catalogue/response.ts';
import type { UserPath } from '../../src/events/event.ts';
import { added, at, command, context, created, decided, id, message, stateAfter } from './events.ts';

const gone = { status: 404, code: 'conversation_not_found', param: null };
const deleted = conversationDeleted.create({}, context);
const without = (itemId: string) => conversationItemDeleted.create({ itemId }, context);
const pairs = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, n) => [`k${n}`, 'v']));

describe('creating a conversation', () => {
  const create = (items: ReturnType<typeof message>[] = [], metadata: Record<string, string> = {}) =>
    command('create', { createdAt: 1_700_000_000, metadata, items });

  it('is one event, and another one when there are items', () => {
    expect(decided([], create([], { topic: 'tea' }))).toEqual([
      { type: 'conversation.created', createdAt: 1_700_000_000, metadata: { topic: 'tea' } },
    ]);
    expect(decided([], create([message('msg_1')]))).toEqual([
      { type: 'conversation.created', createdAt: 1_700_000_000, metadata: {} },
      { type: 'conversation.items_added', itemIds: ['msg_1'], items: [message('msg_1')] },
    ]);
  });

  it('is refused for an item given twice', () => {
    expect(decided([], create([message('msg_1'), message('msg_1')]))).toEqual({
      status: 400,
      code: 'duplicate_item',
      param: 'items',
    });
  });

  it.each([
    ['17 pairs', pairs(17), 'metadata_max_properties_exceeded'],
    ['a long key', { ['k'.repeat(65)]: 'v' }, 'string_above_max_length'],
    ['a long value', { k: 'v'.repeat(513) }, 'string_above_max_length'],
  ])('is refused for metadata with %s', (_what, metadata, code) => {
    expect(decided([], create([], metadata))).toEqual({ status: 400, code, param: 'metadata' });
  });

  it('takes metadata up to its limits', () => {
    expect(decided([], create([], pairs(16)))).toHaveLength(1);
    expect(decided([], create([], { ['k'.repeat(64)]: 'v'.repeat(512) }))).toHaveLength(1);
  });
});

describe('adding items', () => {
  const add = (...ids: string[]) => command('add items', { items: ids.map((itemId) => message(itemId)) });

  it('is one event for all of them', () => {
    expect(decided([created()], add('msg_1', 'msg_2'))).toMatchObject([
      { type: 'conversation.items_added', itemIds: ['msg_1', 'msg_2'] },
    ]);
  });

  it('of none is no event', () => {
    expect(decided([created()], add())).toEqual([]);
  });

  it.each([
    ['that is there', [created(), added('msg_1')], ['msg_1']],
    ['twice', [created()], ['msg_1', 'msg_1']],
  ])('is refused for an item %s', (_what, events, ids) => {
    expect(decided(events, add(...ids))).toEqual({ status: 400, code: 'duplicate_item', param: 'items' });
  });

  it('takes an item again that was deleted', () => {
    expect(decided([created(), added('msg_1'), without('msg_1')], add('msg_1'))).toHaveLength(1);
  });

  it('is refused when the conversation is full, in items or in bytes', () => {
    const ids = Array.from({ length: MAX_CONVERSATION_ITEMS }, (_, n) => `msg_${n}`);
    const full = { status: 400, code: 'conversation_full', param: 'items' };
    expect(decided([created(), added(...ids)], add('msg_x'))).toEqual(full);
    expect(decided([created(), added(...ids), without('msg_3')], add('msg_x'))).toHaveLength(1);
    const large = { ...added('msg_1'), body: Buffer.alloc(MAX_CONVERSATION_BYTES + 1, ' ').fill('[]', 0, 2) };
    expect(decided([created(), large], add('msg_x'))).toEqual(full);
  });
});

describe('changing a conversation', () => {
  it('merges metadata: new pairs, and new values of old ones', () => {
    const update = command('update metadata', { metadata: { b: '2', c: '3' } });
    expect(decided([created({ a: '1', b: '1' })], update)).toEqual([
      { type: 'conversation.metadata_updated', metadata: { a: '1', b: '2', c: '3' } },
    ]);
  });

  it('is refused when the metadata would exceed its limits', () => {
    const update = command('update metadata', { metadata: { one: 'more' } });
    expect(decided([created(pairs(16))], update)).toMatchObject({ code: 'metadata_max_properties_exceeded' });
    expect(decided([created(pairs(16))], command('update metadata', { metadata: { k0: 'new' } }))).toHaveLength(1);
  });

  it('deletes an existing item, and no other', () => {
    const remove = command('delete item', { itemId: 'msg_1' });
    expect(decided([created(), added('msg_1')], remove)).toEqual([
      { type: 'conversation.item_deleted', itemId: 'msg_1' },
    ]);
    const missing = { status: 404, code: 'item_not_found', param: null };
    expect(decided([created()], remove)).toEqual(missing);
    expect(decided([created(), added('msg_1'), without('msg_1')], remove)).toEqual(missing);
  });

  it('deletes it as a whole', () => {
    expect(decided([created(), added('msg_1')], command('delete', {}))).toEqual([{ type: 'conversation.deleted' }]);
  });
});

describe('a conversation that does not exist', () => {
  const commands = [
    command('add items', { items: [message('msg_1')] }),
    command('delete item', { itemId: 'msg_1' }),
    command('update metadata', { metadata: {} }),
    command('delete', {}),
  ];

  it.each([
    ['never was', []],
    ['was deleted', [created(), added('msg_1'), deleted]],
    ['was deleted while a turn was on its way', [created(), deleted, added('msg_1')]],
  ])('because it %s takes no command', (_why, events) => {
    for (const ask of commands) expect(decided(events, ask)).toEqual(gone);
  });

  it('for callers other than its owners, and those above them, takes no command', () => {
    const events = [created({}, at('/team/a')), added('msg_1')];
    const seenBy = (visibility: VisibilityScope) =>
      commands.map((command) => decided(events, { ...command, visibility }));
    const subtree = (path: string): VisibilityScope => ({ of: 'subtree', path: path as UserPath });
    for (const path of ['/team/b', '/team/a/x', '/team/ab']) {
      for (const outcome of seenBy(subtree(path))) expect(outcome).toEqual(gone);
    }
    for (const outcome of seenBy({ of: 'own', actor: 'key:another' })) expect(outcome).toEqual(gone);
    for (const visibility of [
      subtree('/team/a'),
      subtree('/team'),
      everything,
      { of: 'own', actor: 'key:k1' } as const,
    ]) {
      for (const outcome of seenBy(visibility)) expect(outcome).not.toEqual(gone);
    }
  });

  it('is not made twice', () => {
    const create = command('create', { createdAt: 1, metadata: {}, items: [] });
    expect(decided([created()], create)).toMatchObject({ status: 409 });
    expect(decided([created(), deleted], create)).toMatchObject({ status: 409 });
  });
});

describe('an event', () => {
  it('changes the state: the items in their order, each once', () => {
    const state = stateAfter(
      created({ a: '1' }),
      added('msg_1', 'msg_2'),
      added('msg_2', 'msg_3'),
      without('msg_1'),
      conversationMetadataUpdated.create({ metadata: { b: '2' } }, context),
      added('msg_1'),
    );
    if (state.status !== 'open') throw new Error(`${id} is ${state.status}`);
    expect([...itemsOf(state).keys()]).toEqual(['msg_2', 'msg_3', 'msg_1']);
    expect(state.metadata).toEqual({ b: '2' });
  });

  it('leaves the state before it unchanged', () => {
    const before = stateAfter(created(), added('msg_1'));
    conversationDecider.evolve(before, added('msg_2'));
    conversationDecider.evolve(before, without('msg_1'));
    expect(before.status === 'open' && [...itemsOf(before).keys()]).toEqual(['msg_1']);
  });
});
