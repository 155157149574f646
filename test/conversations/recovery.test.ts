import { describe, expect, it } from 'vitest';
import { itemFinder, itemsOf, loadConversation } from '../../src/commands/conversations/conversation.ts';
import { recoverExchanges } from '../../src/commands/exchange/background/recover-exchanges.ts';
import { createResponsesDialect } from '../../src/commands/exchange/dialects/responses/responses-dialect.ts';
import { archiveOf } from '../../src/commands/responses/archive.ts';
import { everything } from '../../src/commands/visibility.ts';
import {
  attemptStarted,
  chunkReceived,
  historyReplayed,
  modelResolved,
  requestReceived,
} from '../../src/events/catalogue/exchange.ts';
import { type EventContext, streamName } from '../../src/events/event.ts';
import { MemoryLog } from '../../src/events/memory/memory-log.ts';
import { createItemIndex, createResponseRecords } from '../../src/projections/responses.ts';
import { noKeys, unpriced } from '../support/nothing-configured.ts';
import { added, context, created, id, message } from './events.ts';

const EXCHANGE = '01930000-0000-7000-8000-000000000001';
const stream = streamName('exchange', EXCHANGE);

/** The answer of a provider to a chat request, whole or as the first piece of a stream. */
function answered(log: MemoryLog, requested: object, chunks: readonly string[], by: EventContext = context) {
  const request = { model: 'local/m', input: 'hi', conversation: id, ...requested };
  const target = { provider: 'local', providerType: 'llamacpp', model: 'm' };
  const received = {
    dialect: 'responses' as const,
    method: 'POST',
    path: '/v1/responses',
    headers: {},
    model: 'local/m',
    stream: 'stream' in requested,
    authMethod: 'master_key' as const,
    capture: 'full' as const,
  };
  return log.append([
    {
      stream: streamName('conversation', id),
      events: [created({}, by), added('msg_before')],
      expectedRevision: 'noStream',
    },
    {
      stream,
      events: [
        requestReceived.create(received, by, Buffer.from(JSON.stringify(request))),
        modelResolved.create({ requested: 'local/m', ...target }, context),
        historyReplayed.create({ responses: [], conversation: id, items: 2 }, context),
        attemptStarted.create({ attempt: 1, kind: 'primary', dialect: 'chat', ...target }, context),
        ...chunks.map((chunk, index) => chunkReceived.create({ attempt: 1, index }, context, Buffer.from(chunk))),
      ],
      expectedRevision: 'noStream',
    },
  ]);
}

async function restarted(log: MemoryLog) {
  const archive = archiveOf(createResponseRecords(log));
  const index = createItemIndex(log);
  const dialect = createResponsesDialect({
    archive,
    log,
    findItem: (visibility) => itemFinder(visibility, { log, archive, index }),
    now: () => 1,
    contextWindow: () => undefined,
    learned() {},
  });
  const dialects = new Map([[dialect.name, dialect]]);
  await recoverExchanges(
    [stream],
    { log, archive, dialects, pricing: unpriced, keys: noKeys, guardedEndpoints: new Map() },
    'gateway_stopped',
  );
  const conversation = await loadConversation(id, everything, log);
  const ends = [];
  for await (const event of log.readStream(stream)) ends.push(event.type);
  return {
    archive,
    items: [...itemsOf(conversation).values()],
    end: ends.find((type) => type.startsWith('exchange.')),
  };
}

const whole = JSON.stringify({
  id: 'c1',
  object: 'chat.completion',
  choices: [{ index: 0, message: { role: 'assistant', content: 'hello' }, finish_reason: 'stop' }],
});
const piece = `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: 'hel' } }] })}\n\n`;

describe('a turn that was cut by a crash', () => {
  it("is in its conversation, once, when the provider's answer was whole", async () => {
    const log = new MemoryLog();
    await answered(log, {}, [whole]);
    const first = await restarted(log);
    expect(first.end).toBe('exchange.completed');
    expect(first.items).toMatchObject([
      message('msg_before'),
      { role: 'user', content: [{ text: 'hi' }] },
      { role: 'assistant', content: [{ text: 'hello' }] },
    ]);
    expect((await restarted(log)).items).toEqual(first.items);
  });

  it('is not in its conversation when the answer was not whole', async () => {
    const log = new MemoryLog();
    await answered(log, { stream: true }, [piece]);
    const { items, end } = await restarted(log);
    expect(end).toBe('exchange.failed');
    expect(items).toEqual([message('msg_before')]);
  });
});

describe('a response that was cut by a crash', () => {
  it('and kept by the next start is its creator’s, and in its conversation', async () => {
    const log = new MemoryLog();
    await answered(log, {}, [whole], { actor: 'key:k1' });
    const { archive, items } = await restarted(log);
    expect(items).toHaveLength(3);
    const response = `resp_${EXCHANGE.replaceAll('-', '')}`;
    expect(await archive.find(response, { of: 'own', actor: 'key:k1' })).toMatchObject({ status: 'completed' });
    for (const actor of ['key:k2', 'system'] as const) {
      expect(await archive.find(response, { of: 'own', actor })).toBeUndefined();
    }
  });
});
