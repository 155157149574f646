/** A confirmed change of a key holds at every gateway for each request that is sent afterwards. */
import type { ProviderCall, Violation } from '../evidence.ts';

/** A request with a managed key. Times are those of `performance.now()`. */
export interface KeyProbe {
  readonly requestId: string;
  readonly what: string;
  readonly gateway: number;
  readonly status: number | undefined;
  /** Before its first byte was sent. */
  readonly sentAt: number;
  readonly endedAt: number;
}

export interface KeyHistory {
  readonly id: string;
  /** When its creation was confirmed. */
  readonly createdAt: number;
  /** When its deactivation was first requested. */
  deactivatedAt: number;
  /** When its deactivation was confirmed. */
  confirmedAt: number | undefined;
  readonly probes: KeyProbe[];
}

const SERVED_BELOW = 400;

/** @param calls those of providers since the keys were created */
export function checkKeys(keys: readonly KeyHistory[], calls: readonly ProviderCall[]): Violation[] {
  const called = new Set(calls.map(({ requestId }) => requestId));
  return keys.flatMap(({ id, createdAt, deactivatedAt, confirmedAt = Number.POSITIVE_INFINITY, probes }) =>
    probes.flatMap(({ requestId, what, gateway, status, sentAt, endedAt }) => {
      const complain = (text: string) => [
        { check: 'keys', what: `key ${id}: ${what} (${requestId}) at gateway ${gateway} ${text}` },
      ];
      const after = `${(sentAt - confirmedAt).toFixed(1)} ms after its deactivation was confirmed`;
      if (sentAt > confirmedAt && status !== undefined && status < SERVED_BELOW) {
        return complain(`was sent ${after}, and answered with ${status}`);
      }
      if (sentAt > confirmedAt && called.has(requestId)) return complain(`was sent ${after}, and reached a provider`);
      if (sentAt > createdAt && endedAt < deactivatedAt && status === 401) {
        return complain(`was answered with 401 ${(sentAt - createdAt).toFixed(1)} ms after its creation was confirmed`);
      }
      return [];
    }),
  );
}
