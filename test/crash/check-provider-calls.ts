/** Every call that reached a provider is in the log. */
import type { ProviderCall, Violation } from './evidence.ts';
import type { RecordedLog } from './recorded-log.ts';

/**
 * Excludes the gateway's own calls (models, properties), and calls for a response after it was
 * made: those are no exchanges.
 */
export function isModelCall({ method, path }: ProviderCall): boolean {
  return method === 'POST' || path === '/health';
}

export function checkProviderCalls(calls: readonly ProviderCall[], log: RecordedLog): Violation[] {
  const found: Violation[] = [];
  const seen = new Map<string, number>();
  for (const call of calls) {
    if (call.requestId === undefined) {
      if (isModelCall(call)) {
        found.push({ check: 'provider calls', what: `${call.provider} got ${call.path} without a request id` });
      }
      continue;
    }
    const exchanges = log.byRequestId.get(call.requestId);
    if (exchanges === undefined && !isModelCall(call)) continue;
    if (exchanges === undefined) {
      const what = `${call.provider} saw ${call.method} ${call.path} as ${call.requestId}, and no request.received tells of it`;
      found.push({ check: 'provider calls', what });
      continue;
    }
    // A refused request for a stored response is on record, also when a provider was called for it: no attempt of an
    // exchange.
    if (!isModelCall(call) && attemptsIn(exchanges ?? [], log) === 0) continue;
    seen.set(call.requestId, (seen.get(call.requestId) ?? 0) + 1);
  }
  for (const [requestId, calls] of seen) {
    const exchanges = log.byRequestId.get(requestId) ?? [];
    const attempts = attemptsIn(exchanges, log);
    if (calls > attempts) {
      const what = `${requestId} reached providers ${calls} times, and the log has ${attempts} attempt.started`;
      found.push({ check: 'provider calls', what });
    }
  }
  return found;
}

function attemptsIn(exchanges: readonly string[], log: RecordedLog): number {
  const events = exchanges.flatMap((id) => log.exchanges.get(id)?.events ?? []);
  return events.filter(({ type }) => type === 'attempt.started').length;
}
