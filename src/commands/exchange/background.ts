/**
 * A response that is made while nobody waits for it, on a provider that does not keep responses itself: promised as
 * `queued` once that is on disk, then made like any other, to its end or until it is cancelled.
 */
import type { Refusal } from '../refusal.ts';
import type { Client, ModelRequest } from './client.ts';
import type { DetachedClients } from './detached-client.ts';
import type { Asked, BackgroundResponse, ExchangeDialect, Target } from './dialect.ts';
import * as events from './end-events.ts';
import type { ExchangeRecord } from './exchange-record.ts';
import { inState, withOutcome } from './pending-response.ts';
import { previousResponseOf } from './previous-response.ts';
import type { StorableResponse } from './relay.ts';

export interface PromisedResponse {
  readonly response: BackgroundResponse;
  readonly dialect: ExchangeDialect;
  readonly asked: Asked;
  readonly target: Target;
  readonly record: ExchangeRecord;
}

/**
 * Promises the response to its client; one that is taken up again was promised before.
 * @returns the client of the exchange from here on: nobody has to stay for it
 * @throws LogUnavailable
 */
export async function promiseResponse(
  promise: PromisedResponse,
  run: { readonly request: ModelRequest; readonly client: Client; readonly begun?: { readonly resumed: boolean } },
  detached: DetachedClients,
): Promise<Client> {
  const { response, asked, record } = promise;
  const queued = inState(response.shell, response.id, 'queued');
  if (run.begun?.resumed !== true) {
    note(promise, queued);
    await record.flush('durable');
  }
  const client = detached.detach(run.client, response.id);
  if (!asked.stream) {
    const headers = { 'content-type': 'application/json', 'x-request-id': run.request.requestId };
    client.answer(200, { ...headers, 'x-exchange-id': record.id }, Buffer.from(queued.json));
  }
  note(promise, inState(response.shell, response.id, 'in_progress'));
  return client;
}

/**
 * Notes that it ended without having been made.
 * @param said the response as far as it had come
 * @returns its id
 */
export function noteOutcome(
  promise: PromisedResponse,
  status: 'failed' | 'cancelled',
  refusal: Refusal | undefined,
  said: StorableResponse | undefined,
): string {
  note(promise, withOutcome(promise.response.shell, promise.response.id, status, refusal, said));
  return promise.response.id;
}

function note({ response, dialect, asked, target, record }: PromisedResponse, state: StorableResponse): void {
  const { provider, model } = target;
  events.noteResponse(record, state, {
    provider: provider.name,
    providerType: provider.type,
    model,
    native: false,
    previousResponseId: previousResponseOf(asked),
    inputItems: dialect.inputItems?.(asked, response.id) ?? '[]',
  });
}
