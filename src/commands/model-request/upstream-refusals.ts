/** Errors for the client whose cause is a provider's answer: an error, no answer, or a stream that ended early. */
import type { ProviderFailure } from '../../providers/provider.ts';
import { streamCutOff } from '../../providers/translate/chat-to-responses/response-object.ts';
import { type MappedError, retryAfterSecondsIn } from '../../providers/upstream-error.ts';
import { Refusal } from '../refusal.ts';
import type { EndReason } from './model-request.ts';

/** The code of an error whose cause is the gateway's own credential at a provider: only an operator can change it. */
export const CREDENTIALS_REFUSED = 'provider_credentials_refused';

/** Codes with which providers refuse a credential, some of them with another status than 401. */
const CREDENTIAL_CODES: ReadonlySet<string | null> = new Set([
  'account_deactivated',
  'incorrect_api_key',
  'invalid_api_key',
  'invalid_authentication',
]);

/**
 * A provider's error answer as an error for the client. Where the provider refuses the gateway's own credential, the
 * client gets 502: a 401 states that the client's key is wrong.
 */
export function refusalFromUpstream(mapped: MappedError): Refusal {
  return mapped.status === 401 || CREDENTIAL_CODES.has(mapped.code)
    ? credentialsRefused(mapped)
    : refusalAsSent(mapped);
}

/** The error with the provider's status, including 401: for passthrough, whose clients use the provider's own API. */
export function refusalAsSent({ retryAfter, ...mapped }: MappedError): Refusal {
  return new Refusal({ ...mapped, retryAfterSeconds: retryAfterSecondsIn(retryAfter, Date.now()) });
}

export function credentialsRefused(mapped: MappedError): Refusal {
  const { provider } = mapped;
  const message = `The provider '${provider}' refused the gateway's credentials: ${mapped.message}`;
  return refusalAsSent({ ...mapped, status: 502, type: 'provider_error', code: CREDENTIALS_REFUSED, message });
}

/** The error when a provider gave no HTTP answer. */
export function refusalFromFailure(failure: ProviderFailure): Refusal {
  const timedOut = failure.kind === 'timeout' || failure.kind === 'idle';
  return new Refusal(
    {
      status: timedOut ? 504 : 502,
      type: 'provider_error',
      code: failure.kind === 'too_large' ? 'answer_too_large' : timedOut ? 'provider_timeout' : 'provider_unreachable',
      message: `The provider '${failure.provider}' could not answer: ${failure.message}`,
      provider: failure.provider,
    },
    failure,
  );
}

/** Refusals for a stream that ended before its answer was whole. */
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
