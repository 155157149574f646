/** What rounds with several gateways did, and what they found. */
import type { Violation } from '../evidence.ts';
import { type BurstSum, emptyBurstSum } from './budget-burst.ts';

export interface SeveralSum {
  rounds: number;
  /** By what was disturbed. */
  readonly disturbances: Map<string, number>;
  readonly burst: BurstSum;
  requests: number;
  wholeAnswers: number;
  providerCalls: number;
  events: number;
  keys: number;
  /** Requests with managed keys, and those of them after the deactivation was confirmed. */
  probes: number;
  probesAfter: number;
  followed: number;
  /** Turns over WebSockets whose end has arrived. */
  socketTurns: number;
  leasesLost: number;
  /** Starts that failed because the engine did not answer, and were repeated. */
  failedStarts: number;
  takenOver: number;
  /** Calls of recorded attempts that arrived at a provider after another gateway had taken the exchange over. */
  lateCalls: number;
  /** Milliseconds from the end of a gateway to the last end of its exchanges. */
  readonly takeovers: number[];
  /** Milliseconds of confirmed changes while nothing was disturbed, and of all others. */
  readonly changes: number[];
  readonly disturbedChanges: number[];
  /** Milliseconds from the end of a disturbance until all gateways were ready. */
  readonly recoveries: number[];
  replayed: number;
  ignored: number;
  /** SHA-256 of the log as every gateway has it. */
  digest: string | undefined;
  readonly violations: Violation[];
}

export function emptySeveralSum(): SeveralSum {
  return {
    ...{ rounds: 0, requests: 0, wholeAnswers: 0, providerCalls: 0, events: 0, keys: 0, probes: 0, probesAfter: 0 },
    ...{
      followed: 0,
      socketTurns: 0,
      leasesLost: 0,
      takenOver: 0,
      lateCalls: 0,
      replayed: 0,
      ignored: 0,
      failedStarts: 0,
      digest: undefined,
    },
    disturbances: new Map(),
    burst: emptyBurstSum(),
    takeovers: [],
    changes: [],
    disturbedChanges: [],
    recoveries: [],
    violations: [],
  };
}

export function severalLine(sum: SeveralSum): string {
  const { burst } = sum;
  return [
    [...sum.disturbances].map(([what, times]) => `${times} × ${what}`).join(', '),
    `${sum.leasesLost} leases lost, ${sum.failedStarts} starts repeated`,
    `${sum.requests} requests, ${sum.wholeAnswers} whole answers, ${sum.providerCalls} provider calls`,
    `${sum.takenOver} exchanges taken over, ${sum.lateCalls} late calls`,
    `takeover ${quantiles(sum.takeovers)}`,
    `changes ${quantiles(sum.changes)}, disturbed ${quantiles(sum.disturbedChanges)}`,
    `recovery ${quantiles(sum.recoveries)}`,
    `${sum.keys} keys, ${sum.probes} requests with them, ${sum.probesAfter} after the deactivation`,
    `${sum.followed} followed, ${sum.socketTurns} turns over WebSockets`,
    `${burst.bursts} budgets: ${burst.requests} requests, ${burst.served} served, ${burst.refused} refused, ` +
      `${burst.leastServedUsd?.toFixed(2)} to ${burst.mostServedUsd.toFixed(2)} USD`,
    `${sum.events} events`,
    `${sum.violations.length} violations`,
  ].join('; ');
}

function quantiles(values: readonly number[]): string {
  if (values.length === 0) return '–';
  const sorted = values.toSorted((one, other) => one - other);
  const at = (share: number) => Math.round(sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0);
  return `p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, most ${at(1)} ms (${values.length})`;
}
