/** Nothing reached a provider that the log does not know of. */
import type { ProviderCall, Violation } from './evidence.ts';
import type { RecordedLog } from './recorded-log.ts';

/** What the gateway asks on its own account, and what is done with a response after it was made: no exchange. */
export function isModelCall({ method, path }: ProviderCall): boolean {
  if (method === 'GET') return !path.startsWith('/v1/');
  return method !== 'DELETE';
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
    // The gateway's own questions for models and properties carry ids that no client ever sent.
    if (exchanges === undefined && !isModelCall(call)) continue;
    if (exchanges === undefined) {
      const what = `${call.provider} saw ${call.method} ${call.path} as ${call.requestId}, and no request.received tells of it`;
      found.push({ check: 'provider calls', what });
      continue;
    }
    seen.set(call.requestId, (seen.get(call.requestId) ?? 0) + 1);
  }
  for (const [requestId, calls] of seen) {
    const exchanges = log.byRequestId.get(requestId) ?? [];
    const attempts = exchanges
      .flatMap((id) => log.exchanges.get(id)?.events ?? [])
      .filter(({ type }) => type === 'attempt.started').length;
    if (calls > attempts) {
      const what = `${requestId} reached providers ${calls} times, and the log has ${attempts} attempt.started`;
      found.push({ check: 'provider calls', what });
    }
  }
  return found;
}
