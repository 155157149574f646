/** Queries are recorded by the gateway, over the channel between the two processes. */
import { EventEmitter } from 'node:events';
import { expect, test } from 'vitest';
import type { QueryToRecord } from '../../src/analytics/messages.ts';
import { type GatewayChannel, recordThroughGateway } from '../../src/analytics/record-queries.ts';

const query = { user: 'analyst', query: 'SELECT 1', format: undefined, parameters: {} };

class Channel extends EventEmitter implements GatewayChannel {
  connected = true;
  readonly sent: QueryToRecord[] = [];
  send(message: QueryToRecord): void {
    this.sent.push(message);
    this.emit('sent');
  }
}

test('a query is recorded once the gateway confirms it, whatever it answers to others', async () => {
  const channel = new Channel();
  const record = recordThroughGateway(channel);
  const ends: string[] = [];
  const first = record(query).then(() => ends.push('first'));
  const second = record(query).catch((error: Error) => ends.push(`second: ${error.message}`));
  const [one, other] = channel.sent;
  expect(one).toEqual({ type: 'query', id: one?.id, ...query });
  channel.emit('message', { type: 'something else', id: one?.id });
  channel.emit('message', { type: 'recorded', id: 12345 });
  channel.emit('message', { type: 'recorded', id: other?.id, error: 'the disk is full' });
  await second;
  expect(ends).toEqual(['second: the disk is full']);
  channel.emit('message', { type: 'recorded', id: one?.id });
  await first;
});

test('a query is refused when the gateway is gone or does not answer', async () => {
  const channel = new Channel();
  await expect(recordThroughGateway(channel, 1)(query)).rejects.toThrow('the gateway does not answer');
  channel.connected = false;
  await expect(recordThroughGateway(channel)(query)).rejects.toThrow('the gateway has ended');
  expect(channel.sent).toHaveLength(1);
});
