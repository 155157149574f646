import type { ProviderFailure } from '../../providers/provider.ts';
import { retryAfterSecondsIn } from '../../providers/retry-after.ts';
import type { MappedError } from '../../providers/upstream-error.ts';
import { Refusal } from '../refusal.ts';

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
