/** Requests as admission gets them. */
import type { Admission, AdmissionRequest, RequestReservation } from '../../src/commands/model-request/admission.ts';
import type { Target } from '../../src/commands/model-request/routing-types.ts';
import type { Units } from '../../src/commands/model-request/usage.ts';
import type { UserPath } from '../../src/events/event.ts';
import type { Provider } from '../../src/providers/provider.ts';

/** A target whose provider is never called. */
export function targetOf(provider: string, model: string, type = 'llamacpp'): Target {
  return { provider: { name: provider, type } as Provider, model };
}

export interface RequestFacts {
  readonly exchangeId?: string;
  readonly userPath?: string;
  readonly labels?: readonly string[];
  readonly json?: Record<string, unknown>;
  readonly bodyBytes?: number;
  readonly candidates?: readonly Target[];
  readonly endpoint?: string;
  readonly units?: Units;
}

export function requestFor(facts: RequestFacts): AdmissionRequest {
  const { exchangeId = '1', userPath, labels, json = {}, bodyBytes = 300, endpoint = '/v1/chat/completions' } = facts;
  const { candidates = [targetOf('local', 'tiny')] } = facts;
  return {
    caller: { userPath: userPath as UserPath | undefined },
    labels,
    endpoint,
    parsedRequest: { model: 'tiny', provider: undefined, stream: false, json },
    candidates,
    units: facts.units,
    bodyBytes,
    checksBudgets: true,
    exchangeId,
  };
}

/** For a request that waits for nothing, and that a limit or a budget counts. @throws Refusal */
export function admittedNow(admission: Admission, request: AdmissionRequest): RequestReservation {
  const reservation = admission.admit(request, new AbortController().signal);
  if (reservation === undefined || reservation instanceof Promise)
    throw new Error('the request was not admitted at once');
  return reservation;
}
