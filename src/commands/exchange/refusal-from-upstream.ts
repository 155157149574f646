import type { ProviderFailure } from '../../providers/provider.ts';
import type { MappedError } from '../../providers/upstream-error.ts';
import { Refusal } from '../refusal.ts';

/** A provider's error answer, as the client is told of it. */
export function refusalFromUpstream({ retryAfter, ...mapped }: MappedError): Refusal {
  return new Refusal({ ...mapped, retryAfterSeconds: secondsOf(retryAfter, Date.now()) });
}

/** `Retry-After` is a number of seconds, or a date (RFC 9110 §10.2.3). */
function secondsOf(retryAfter: string | undefined, now: number): number | undefined {
  if (retryAfter === undefined) return undefined;
  const seconds = Number(retryAfter);
  if (Number.isFinite(seconds)) return Math.max(0, seconds);
  const date = Date.parse(retryAfter);
  return Number.isNaN(date) ? undefined : Math.max(0, (date - now) / 1000);
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
