import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type ConversationCommand,
  type ConversationState,
  conversationDecider,
  itemsOf,
} from '../../src/commands/conversations/conversation.ts';
import { handleCommand, loadState } from '../../src/commands/handle-command.ts';
import { Refusal } from '../../src/commands/refusal.ts';
import { streamName } from '../../src/events/event.ts';
import { MemoryLog } from '../../src/events/memory/memory-log.ts';
import { countOf } from '../support/seed.ts';
import { command, id, message } from './events.ts';

const stream = streamName('conversation', id);
const itemId = fc.integer({ min: 0, max: 9 }).map((n) => `msg_${n}`);
const metadata = fc.dictionary(fc.constantFrom('a', 'b', 'c'), fc.string({ maxLength: 600 }));
const commands: fc.Arbitrary<ConversationCommand> = fc.oneof(
  fc
    .record({
      metadata,
      items: fc.array(
        itemId.map((one) => message(one)),
        { maxLength: 3 },
      ),
    })
    .map((given) => command('create', { createdAt: 1, ...given })),
  {
    weight: 6,
    arbitrary: fc
      .array(itemId, { maxLength: 4 })
      .map((ids) => command('add items', { items: ids.map((one) => message(one)) })),
  },
  { weight: 4, arbitrary: itemId.map((one) => command('delete item', { itemId: one })) },
  { weight: 2, arbitrary: metadata.map((given) => command('update metadata', { metadata: given })) },
  fc.constant(command('delete', {})),
);

function plain(state: ConversationState) {
  if (state.status !== 'open') return state;
  const { createdAt, metadata: texts, owner } = state;
  return { createdAt, texts, owner, items: [...itemsOf(state).values()] };
}

describe('conversations, after any commands', () => {
  it('are the same after a restart: the fold of the history is the live state', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(commands, { maxLength: 25 }), async (requests) => {
        const log = new MemoryLog();
        let live: ConversationState = conversationDecider.initial;
        for (const ask of requests) {
          try {
            live = await handleCommand(conversationDecider, ask, { log, stream });
          } catch (error) {
            if (!(error instanceof Refusal)) throw error;
          }
        }
        expect(plain((await loadState(conversationDecider, stream, log)).state)).toEqual(plain(live));
      }),
      { numRuns: countOf(50, 200) },
    );
  });

  it('hold each item once', () => {
    fc.assert(
      fc.property(fc.array(commands, { maxLength: 25 }), (requests) => {
        let state: ConversationState = conversationDecider.initial;
        for (const ask of requests) {
          const outcome = conversationDecider.decide(ask, state);
          if (outcome instanceof Refusal) continue;
          const held = state.status === 'open' ? itemsOf(state).size : 0;
          state = outcome.reduce<ConversationState>((now, event) => conversationDecider.evolve(now, event), state);
          if (state.status !== 'open') continue;
          const added = 'items' in ask ? ask.items.length : ask.kind === 'delete item' ? -1 : 0;
          expect(itemsOf(state).size).toBe(held + added);
        }
      }),
    );
  });

  it('lose nothing when many change them at the same time', async () => {
    const log = new MemoryLog();
    await handleCommand(conversationDecider, command('create', { createdAt: 1, metadata: {}, items: [] }), {
      log,
      stream,
    });
    const ids = Array.from({ length: 6 }, (_, n) => `msg_${n}`);
    await Promise.all(
      ids.map((one) =>
        handleCommand(conversationDecider, command('add items', { items: [message(one)] }), { log, stream }),
      ),
    );
    const { state } = await loadState(conversationDecider, stream, log);
    expect(state.status === 'open' && [...itemsOf(state).keys()].sort()).toEqual(ids);
  });
});
