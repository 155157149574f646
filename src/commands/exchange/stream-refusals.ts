/** Why a stream ended before its answer was whole. */
import { Refusal } from '../refusal.ts';

export function streamIncomplete(provider: string): Refusal {
  return new Refusal({
    status: 502,
    type: 'provider_error',
    code: 'stream_incomplete',
    message: `The provider '${provider}' ended its stream before the answer was complete.`,
    provider,
  });
}

export function gatewayStopping(): Refusal {
  return new Refusal({
    status: 503,
    type: 'internal_error',
    code: 'stopping',
    message: 'The gateway was stopped before the answer was complete.',
  });
}
