import type { ProviderFailure } from '../../providers/provider.ts';
import { secondsToWait } from '../../providers/retry-after.ts';
import type { MappedError } from '../../providers/upstream-error.ts';
import { Refusal } from '../refusal.ts';

/** A provider's error answer, as the client is told of it. */
export function refusalFromUpstream({ retryAfter, ...mapped }: MappedError): Refusal {
  return new Refusal({ ...mapped, retryAfterSeconds: secondsToWait(retryAfter, Date.now()) });
}

/** A provider that gave no HTTP answer at all. */
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
