import type { Ticket } from '../../model-request/admission.ts';
import type { Client } from '../../model-request/client.ts';
import type { ModelRequest } from '../../model-request/model-request.ts';
import type { Refusal } from '../../refusal.ts';
import type { ExchangeRecord } from '../exchange-record.ts';

export interface Erring {
  readonly record: ExchangeRecord;
  readonly request: ModelRequest;
  readonly client: Client;
  readonly ticket?: Ticket;
}

/** Sends an error with the ids of the exchange and the limits of the caller. @returns its status */
export function sendError({ record, request, client, ticket }: Erring, refusal: Refusal): number {
  const limits = ticket?.headers() ?? refusal.rateLimits;
  client.refuse(refusal, { ...limits, 'x-exchange-id': record.id, 'x-request-id': request.requestId });
  return refusal.status;
}
