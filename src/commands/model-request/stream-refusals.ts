/** Refusals for a stream that ended before its answer was whole. */
import { streamCutOff } from '../../providers/translate/chat-to-responses/failure.ts';
import { Refusal } from '../refusal.ts';
import type { EndReason } from './client.ts';

export function streamIncomplete(provider: string): Refusal {
  const { code, message } = streamCutOff(provider);
  return new Refusal({ status: 502, type: 'provider_error', code, message, provider });
}

/** The provider had not ended its answer when the gateway's limit for streams was reached. */
export function streamTooLong(provider: string, ms: number, bytes: number): Refusal {
  const message = `The provider '${provider}' did not end its answer within ${ms / 1000} s (STREAM_MAX_DURATION), after ${bytes} bytes.`;
  return new Refusal({ status: 504, type: 'provider_error', code: 'answer_too_long', message, provider });
}

export function streamTooLarge(provider: string, maxBytes: number): Refusal {
  const message = `The provider '${provider}' answered with a stream of more than ${maxBytes} bytes (STREAM_MAX_SIZE).`;
  return new Refusal({ status: 502, type: 'provider_error', code: 'answer_too_large', message, provider });
}

/** What is recorded of an answer, which includes what is stored of its request, is larger than the log accepts. */
export function answerNotRecordable(provider: string, maxBytes: number): Refusal {
  const message = `The provider '${provider}' gave an answer that cannot be recorded: with what is stored of the request, it is larger than the ${maxBytes} bytes that the event log accepts. The answer is charged.`;
  return new Refusal({
    ...{ status: 502, type: 'provider_error', code: 'answer_too_large', message, provider },
    retryHelps: false,
  });
}

/** Why the gateway ends an answer before its provider does. */
export interface EarlyEnd {
  readonly refusal: Refusal;
  /** The final status of a response: `cancelled` when its client cancelled it. */
  readonly status: 'failed' | 'cancelled';
}

/** @param reason of the client's `ended` signal */
export function earlyEnd(reason: EndReason): EarlyEnd {
  switch (reason) {
    case 'gateway_stopping':
      return { refusal: gatewayStopping(), status: 'failed' };
    case 'cancelled':
      return { refusal: responseCancelled(), status: 'cancelled' };
    case 'client_gone':
      return { refusal: clientGone(), status: 'cancelled' };
  }
}

export function responseCancelled(): Refusal {
  return new Refusal({
    status: 409,
    type: 'invalid_request_error',
    code: 'response_cancelled',
    message: 'The response was cancelled.',
  });
}

function clientGone(): Refusal {
  return new Refusal({
    status: 499,
    type: 'invalid_request_error',
    code: 'client_disconnected',
    message: 'The client closed the connection before the answer was complete.',
  });
}

export function gatewayStopping(): Refusal {
  return new Refusal({
    status: 503,
    type: 'internal_error',
    code: 'stopping',
    message: 'The gateway was stopped before the answer was complete.',
    retryAfterSeconds: 5,
  });
}
