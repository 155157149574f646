/** The end of an exchange whose answer was generated again from the record. */
import { gatewayStopping } from '../../model-request/stream-refusals.ts';
import type { DeliveredAnswer } from '../answer-source.ts';
import { replayHeaders } from '../delivery/deliver-replay.ts';
import * as events from '../record/end-events.ts';
import type { RunningExchange } from './running-exchange.ts';
import { sendError } from './send-error.ts';

type DeliveredReplay = Extract<DeliveredAnswer, { source: 'record' }>;

/** @returns the status that represents the end of the exchange. @throws LogUnavailable */
export async function completeReplay(delivered: DeliveredReplay, exchange: RunningExchange): Promise<number> {
  const { answer, end, broken, rest, bytes } = delivered;
  const { record, client } = exchange;
  if (end === 'early') return completeEarly(bytes, exchange);
  if (broken === undefined) {
    const received = { chunks: 0, bytes, firstByteMs: undefined };
    events.noteCompleted(record, received, { status: 200, ...answer.attempt, finishReason: null });
  } else {
    events.noteFailed(record, broken, { status: 200, reason: 'stream_broken', chunks: 0 });
  }
  await record.flush('durable');
  const headers = replayHeaders(answer, exchange);
  if (!answer.stream) {
    client.answer(200, headers, rest ?? Buffer.alloc(0));
    return 200;
  }
  if (!client.begun) client.begin(200, headers);
  if (rest !== undefined) client.write(rest);
  client.end();
  return 200;
}

/** The client left, or the gateway stops. */
async function completeEarly(bytes: number, exchange: RunningExchange): Promise<number> {
  const { record, client } = exchange;
  if (client.ended.reason === 'client_gone') {
    events.noteDisconnected(record, { chunks: 0, bytes, firstByteMs: undefined });
    await record.flush('durable');
    return 499;
  }
  const refusal = gatewayStopping();
  const status = client.begun ? 200 : refusal.status;
  events.noteFailed(record, refusal, { status, reason: 'gateway_stopped', chunks: 0 });
  await record.flush('durable');
  return sendError(exchange, refusal);
}
