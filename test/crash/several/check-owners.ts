/**
 * A gateway calls providers for an exchange only for attempts that were recorded while the exchange was its own. The provider tells by
 * the port which gateway called.
 */
import { parsePosition } from '../../../src/events/event.ts';
import { endsOf } from '../check-exchanges.ts';
import { isModelCall } from '../check-provider-calls.ts';
import type { ProviderCall, Violation } from '../evidence.ts';
import { type RecordedExchange, type RecordedLog, textIn } from '../recorded-log.ts';
import type { Owner } from './gateway-history.ts';

export interface CallingGateway {
  readonly index: number;
  readonly ports: Pick<ReadonlySet<number>, 'has'>;
  readonly pids: Pick<ReadonlySet<number>, 'has'>;
}

export interface OwnerFindings {
  readonly violations: readonly Violation[];
  /** Exchanges that another gateway has ended or resumed. */
  readonly takenOver: number;
  /** Calls of attempts that were recorded before, and that began after another gateway had taken the exchange over. */
  readonly lateCalls: number;
}

export function checkOwners(
  log: RecordedLog,
  calls: readonly ProviderCall[],
  gateways: readonly CallingGateway[],
): OwnerFindings {
  const violations: Violation[] = [];
  let takenOver = 0;
  let lateCalls = 0;
  const byRequest = Map.groupBy(calls.filter(isModelCall), ({ requestId }) => requestId);
  for (const [requestId, made] of byRequest) {
    const [id, ...others] = log.byRequestId.get(requestId ?? '') ?? [];
    const exchange = id === undefined ? undefined : log.exchanges.get(id);
    const received = textIn(exchange?.events[0], 'gateway');
    if (exchange === undefined || received === undefined || others.length > 0) continue;
    const owners = log.gateways.ownersOf(received).filter(({ until }, index, all) => {
      const from = all[index - 1]?.until ?? 0;
      return exchange.events.some(({ position }) => parsePosition(position) > from && parsePosition(position) < until);
    });
    if (owners.length > 1) takenOver += 1;
    const segments = segmentsOf(exchange, owners, log);
    // One that was killed before it had recorded its start is not known.
    if (segments.some(({ pid }) => pid === undefined)) continue;
    for (const { index, ports, pids } of gateways) {
      const own = made.filter(({ port }) => ports.has(port));
      const mine = segments.filter(({ pid }) => pids.has(pid ?? -1));
      const attempts = mine.reduce((sum, one) => sum + one.attempts, 0);
      if (own.length > attempts) {
        const what = `exchange ${exchange.id}: gateway ${index} called a provider ${own.length} times, and ${attempts} attempts are recorded while the exchange was its own`;
        violations.push({ check: 'owners', what });
      }
      const takenOverAt = mine.at(-1)?.takenOverAt ?? Number.POSITIVE_INFINITY;
      for (const { at } of own.filter((call) => call.at > takenOverAt)) {
        const ms = (at - takenOverAt).toFixed(0);
        const what = `exchange ${exchange.id}: gateway ${index} called a provider ${ms} ms after another gateway had taken the exchange over`;
        violations.push({ check: 'late calls', what });
        lateCalls += 1;
      }
    }
  }
  return { violations, takenOver, lateCalls };
}

/** What is recorded while an exchange was that of one gateway. */
function segmentsOf(exchange: RecordedExchange, owners: readonly Owner[], log: RecordedLog) {
  return owners.map(({ gateway, until }, index) => {
    const from = owners[index - 1]?.until ?? 0;
    const isOwn = (position: number) => position > from && position < until;
    const own = exchange.events.filter(({ position }) => isOwn(parsePosition(position)));
    const next = exchange.events.find(({ position }) => parsePosition(position) > until);
    return {
      pid: log.gateways.pids.get(gateway),
      attempts: own.filter(({ type }) => type === 'attempt.started').length,
      /** When the next owner recorded something, on the clock of `performance.now()`. */
      takenOverAt: next === undefined ? undefined : next.at - performance.timeOrigin,
    };
  });
}

export interface SilencedGateway {
  readonly pid: number;
  /** When it was killed, stopped by the system or cut off, on the clock of `performance.now()`. */
  readonly at: number;
}

/**
 * Milliseconds from the end of each gateway to the last end of its exchanges that another gateway recorded. Background responses
 * that were resumed are not counted: they go on.
 */
export function takeoversIn(log: RecordedLog, silenced: readonly SilencedGateway[]): number[] {
  const last = new Map<SilencedGateway, number>();
  for (const exchange of log.exchanges.values()) {
    const gateway = textIn(exchange.events[0], 'gateway') ?? '';
    const ended = log.gateways.endOf(gateway);
    const [end] = endsOf(exchange);
    const isTakenOver = ended?.reason === 'expired' || ended?.reason === 'exited';
    if (!isTakenOver || end === undefined || parsePosition(end.position) < ended.position) continue;
    if (exchange.events.some(({ type }) => type === 'exchange.resumed')) continue;
    const at = end.at - performance.timeOrigin;
    const pid = log.gateways.pids.get(gateway);
    const from = silenced.findLast((one) => one.pid === pid && one.at < at);
    if (from !== undefined) last.set(from, Math.max(last.get(from) ?? 0, at - from.at));
  }
  return [...last.values()];
}
