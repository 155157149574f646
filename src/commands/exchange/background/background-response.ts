/**
 * A background response on a provider that does not keep responses itself. The client gets it as `queued` once that
 * state is on disk; then it is generated like any other response, to its end or until it is cancelled.
 */
import type { Position } from '../../../events/event.ts';
import type { StreamWrite } from '../../../events/log.ts';
import type { RecordedPlaceholder } from '../../guardrails/placeholders.ts';
import type { Client, ModelRequest, ParsedRequest } from '../../model-request/model-request.ts';
import type { Target } from '../../model-request/routing-types.ts';
import type { Refusal } from '../../refusal.ts';
import type { StoredResponse } from '../../responses/archive.ts';
import { previousResponseOf } from '../../responses/create-request.ts';
import { inState, type StorableResponse, withOutcome } from '../../responses/storable-response.ts';
import { addRouting } from '../delivery/answer-headers.ts';
import type { DetachedClients } from '../delivery/detached-client.ts';
import type { BackgroundResponse, ExchangeDialect, MadeOutput } from '../dialect.ts';
import type { ExchangeRecord } from '../exchange-record.ts';
import * as events from '../record/end-events.ts';

// The input that starts an exchange, or continues one after a restart.

/** Facts already on record for an exchange that the gateway continues after a restart. */
export interface Resumed {
  readonly parsedRequest: ParsedRequest;
  /** Calls made to a provider. */
  readonly attempts: number;
  /** The version of the workflow with which it was recorded; undefined when there was none. */
  readonly workflow?: string | undefined;
  /** What it has, where the gateway runs its tools. */
  readonly made?: MadeOutput | undefined;
  /** Why it cannot be continued: its key is no longer accepted. */
  readonly refused?: Refusal;
}

export interface NewExchange {
  readonly dialect: ExchangeDialect;
  readonly request: ModelRequest;
  readonly record: ExchangeRecord;
  readonly client: Client;
}

/** An exchange that the record left open before any part of its answer was recorded. */
export interface ResumableExchange extends NewExchange {
  readonly resumed: Resumed;
  /** A position before its first event. */
  readonly recordedAfter: Position;
}

export interface PendingResponse {
  readonly id: string;
  /** The response object without any output. */
  readonly shell: object;
  readonly facts: events.StoredResponseFacts;
  readonly record: ExchangeRecord;
  /** It is recorded as `queued`. */
  isAnnounced: boolean;
}

export function newPendingResponse(
  { id, shell }: BackgroundResponse,
  exchange: {
    readonly dialect: ExchangeDialect;
    readonly parsedRequest: ParsedRequest;
    readonly target: Target;
    readonly record: ExchangeRecord;
    readonly placeholders?: readonly RecordedPlaceholder[] | undefined;
  },
): PendingResponse {
  const { dialect, parsedRequest, target, record, placeholders } = exchange;
  const { provider, model } = target;
  const facts = {
    provider: provider.name,
    providerType: provider.type,
    model,
    native: false,
    previousResponseId: previousResponseOf(parsedRequest),
    inputItems: dialect.inputItems?.(parsedRequest, id) ?? '[]',
    placeholders,
  };
  return { id, shell, facts, record, isAnnounced: false };
}

/** The pending response that was announced before the gateway stopped. */
export function storedPendingResponse(stored: StoredResponse, record: ExchangeRecord): PendingResponse {
  const { id, response, provider, providerType, model, native, previousResponseId, inputItems, placeholders } = stored;
  const facts = {
    ...{ provider, providerType, model, native, previousResponseId },
    inputItems: JSON.stringify(inputItems),
    placeholders,
  };
  return { id, shell: response, facts, record, isAnnounced: true };
}

/** The write that records the response as `in_progress`. It fails when the response was changed after it was read. */
export function inProgressWrite(
  { id, shell, facts, record }: PendingResponse,
  { revision }: StoredResponse,
): StreamWrite {
  const state = inState(shell, id, 'in_progress');
  const { id: exchangeId, owner, context } = record;
  const write = events.storedResponseWrite(state, facts, { exchangeId, owner }, context);
  return { ...write, expectedRevision: revision };
}

/**
 * Sends the queued response to its client.
 * @returns the client of the exchange from here on; the real client need not stay connected
 * @throws LogUnavailable
 */
export async function announcePendingResponse(
  promise: PendingResponse,
  run: {
    readonly request: ModelRequest;
    readonly client: Client;
    readonly parsedRequest: Pick<ParsedRequest, 'model' | 'stream'>;
  },
  detached: DetachedClients,
): Promise<Client> {
  const { id, shell, facts, record } = promise;
  const queued = inState(shell, id, 'queued');
  note(promise, queued);
  await record.flush('durable');
  promise.isAnnounced = true;
  const client = detached.detach(run.client, id);
  if (!run.parsedRequest.stream) {
    const headers: Record<string, string> = {
      'content-type': 'application/json',
      'x-request-id': run.request.requestId,
      'x-exchange-id': record.id,
    };
    addRouting(headers, run.parsedRequest.model, facts.provider);
    client.answer(200, headers, Buffer.from(queued.json));
  }
  note(promise, inState(shell, id, 'in_progress'));
  return client;
}

/**
 * Notes that the response ended as failed or cancelled.
 * @param response the output received so far
 * @returns the response id
 */
export function noteOutcome(
  promise: PendingResponse,
  status: 'failed' | 'cancelled',
  refusal: Refusal | undefined,
  response: StorableResponse | undefined,
): string {
  note(promise, withOutcome(promise.shell, promise.id, status, refusal, response));
  return promise.id;
}

function note({ record, facts }: PendingResponse, state: StorableResponse): void {
  events.noteResponse(record, state, facts);
}
