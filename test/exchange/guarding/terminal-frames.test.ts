/** A terminal event that no client has received yet is not on record either: a crash may come in between. */
import { expect, it } from 'vitest';
import { messagesDialect } from '../../../src/commands/exchange/dialects/messages/messages-dialect.ts';
import { ExchangeRecord } from '../../../src/commands/exchange/exchange-record.ts';
import { ExchangeGuard } from '../../../src/commands/exchange/guarding/exchange-guard.ts';
import { guardedEndpoints } from '../../../src/commands/exchange/guarding/guarded-endpoints.ts';
import { GuardedStream } from '../../../src/commands/exchange/guarding/guarded-stream.ts';
import { frameDelivered } from '../../../src/events/catalogue/guardrail.ts';
import { MemoryLog } from '../../../src/events/memory/memory-log.ts';

it('is recorded with the end of the exchange', async () => {
  const log = new MemoryLog();
  const record = new ExchangeRecord(log, 'id', { actor: 'master' });
  const delivered = async () => {
    await record.flush('durable');
    const bodies: string[] = [];
    for await (const { type, body } of log.readAll()) {
      if (type === frameDelivered.type) bodies.push(Buffer.from(body ?? new Uint8Array()).toString());
    }
    return bodies.join('');
  };
  const guard = new ExchangeGuard({
    ...{ steps: { prompt: [], response: [], collected: [], stream: [] }, record, keepBodies: true },
    facts: { requestId: 'r', userPath: '/', model: 'm', provider: 'p', labels: [] },
    placeholders: [{ placeholder: '<EMAIL_1>', value: 'bob@example.com' }],
    signal: () => new AbortController().signal,
  });
  const endpoint = guardedEndpoints(new Map([['messages', messagesDialect]]), {
    findItem: () => async () => undefined,
  });
  const { bodies, answers } = endpoint.get('/v1/messages') ?? {};
  if (bodies === undefined || answers === undefined) throw new Error('messages are guarded');
  const past = {
    ...{ parsedRequest: { model: 'm', provider: undefined, stream: true, json: {} }, exchangeId: 'id', createdAt: 1 },
    ...{ provider: { name: 'p' }, providerType: 'anthropic', model: 'm', dialect: 'messages', historyReplayed: false },
    ...{ clientHeaders: {}, now: () => 1 },
  };
  const unguarded = messagesDialect.streamOfRecorded(past);
  const stream = new GuardedStream({ unguarded, guard, bodies, answers, past, attempt: 1 });
  const frame = (event: object) => {
    const data = JSON.stringify(event);
    return stream.frame({ raw: Buffer.from(`data: ${data}\n\n`), data });
  };
  const message = { id: 'msg_1', type: 'message', role: 'assistant', content: [], model: 'm', usage: {} };
  frame({ type: 'message_start', message });
  frame({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } });
  frame({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'to <EMAIL_1>' } });
  frame({ type: 'content_block_stop', index: 0 });
  expect(frame({ type: 'message_stop' })).toMatchObject({ terminal: true });
  const before = await delivered();
  expect(before).toContain('bob@example.com');
  expect(before).not.toContain('message_stop');
  expect(await stream.finish()).toMatchObject({ cut: false });
  expect(await delivered()).toContain('message_stop');
});
