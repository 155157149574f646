import { expect, it } from 'vitest';
import { ExchangeRecord } from '../../src/commands/exchange/exchange-record.ts';
import { attemptStarted, requestReceived } from '../../src/events/catalogue/exchange.ts';
import { START } from '../../src/events/event.ts';
import type { EventLog, StreamWrite } from '../../src/events/log.ts';

it('the recorded second of the request is that of its answer, whenever the log appends it', async () => {
  const taken: StreamWrite[] = [];
  const log: Pick<EventLog, 'append'> = {
    async append(writes) {
      taken.push(...writes);
      return { position: START, revisions: writes.map(() => 0n) };
    },
  };
  const record = new ExchangeRecord(log, 'e1', { actor: 'master' });
  const facts = { method: 'POST', path: '/v1/responses', headers: {}, stream: false } as const;
  record.noteReceived(
    requestReceived.create(
      { ...facts, dialect: 'responses', authMethod: 'master_key', capture: 'full' },
      record.context,
    ),
  );
  const call = { attempt: 1, kind: 'primary', provider: 'p', providerType: 'openai', dialect: 'responses' } as const;
  record.note(attemptStarted.create(call, record.context));
  await record.flush('written');
  const [received, started] = taken.flatMap(({ events }) => events);
  expect(received?.at).toBe(record.receivedAt);
  expect(Math.floor((received?.at ?? 0) / 1000)).toBe(record.createdAt);
  expect(started?.at).toBeUndefined();
});
