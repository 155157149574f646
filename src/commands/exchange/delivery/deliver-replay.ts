/**
 * Sends an answer that is generated again from the record, piece by piece; the last piece waits until the end is on
 * disk.
 */
import { answerReplayed } from '../../../events/catalogue/exchange.ts';
import type { Client } from '../../model-request/client.ts';
import type { ModelRequest } from '../../model-request/model-request.ts';
import type { DeliveredAnswer, RecordedAnswer } from '../answer-source.ts';
import type { ExchangeRecord } from '../exchange-record.ts';
import { addRouting } from './requested-model.ts';

export interface ReplayDelivery {
  readonly record: ExchangeRecord;
  readonly request: ModelRequest;
  readonly client: Client;
}

/** @throws LogUnavailable */
export async function deliverReplay(answer: RecordedAnswer, delivery: ReplayDelivery): Promise<DeliveredAnswer> {
  const { record, client } = delivery;
  if (answer.exchangeId !== undefined) {
    record.note(answerReplayed.create({ exchangeId: answer.exchangeId }, record.context));
  }
  let rest: Buffer | undefined;
  let bytes = 0;
  for await (const part of answer.parts) {
    if (part.kind === 'end') {
      const { broken } = part;
      return { source: 'record', answer, end: broken === undefined ? 'whole' : 'broken', broken, rest, bytes };
    }
    const before = rest;
    rest = part.bytes;
    bytes += part.bytes.length;
    if (before === undefined) continue;
    if (!client.begun) {
      await record.flush('written');
      client.begin(200, replayHeaders(answer, delivery));
    }
    await client.write(before);
  }
  return { source: 'record', answer, end: 'early', broken: undefined, rest: undefined, bytes };
}

export function replayHeaders(
  { stream, requestedModel, attempt }: RecordedAnswer,
  { record, request }: ReplayDelivery,
): Record<string, string> {
  const headers: Record<string, string> = {
    'content-type': stream ? 'text/event-stream; charset=utf-8' : 'application/json',
    'x-request-id': request.requestId,
    'x-exchange-id': record.id,
    'idempotent-replayed': 'true',
  };
  addRouting(headers, requestedModel, attempt.provider);
  return headers;
}
