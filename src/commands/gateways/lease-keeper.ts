/**
 * Keeps the lease of this gateway, states which changes of the configuration it has applied, and ends the leases of
 * gateways that do not renew theirs.
 */

import type { z } from 'zod';
import { leaseEnded } from '../../events/catalogue/gateway.ts';
import { type Position, parsePosition, type RecordedEvent, START } from '../../events/event.ts';
import { LogUnavailable, WrongExpectedRevision } from '../../events/log.ts';
import { type KnownLease, type KnownLeases, type Lease, LeaseLost } from './lease.ts';

export interface LeaseKeeperOptions {
  readonly lease: Pick<Lease, 'gateway' | 'grantedAt' | 'isValid' | 'isLost' | 'lost' | 'renew' | 'inheritFrom'>;
  readonly leaseMs: number;
  readonly leases: KnownLeases;
  /** Resolves when this gateway acts on every change of the configuration up to this position. */
  readonly applied: (position: Position) => Promise<void>;
  /** Called when this gateway has ended the lease of another one. */
  readonly expired: (gateway: string) => void;
  /** Called with errors other than that of a log that cannot be written, which the log itself reports. */
  readonly onError: (error: unknown) => void;
  /** Milliseconds, never going back. */
  readonly now: () => number;
  /** Calls again and again until the function that it returns is called. Default: `setInterval`. */
  readonly every?: (ms: number, work: () => void) => () => void;
  /** Calls once, unless the function that it returns is called before. Default: `setTimeout`. */
  readonly after?: (ms: number, work: () => void) => () => void;
}

interface LastSeen {
  readonly events: number;
  readonly at: number;
}

/** A lease is renewed three times before it can expire. */
const RENEWALS = 3;
/** How much longer than its time the others wait for a renewal: clocks of machines run at different speeds. */
const PATIENCE = 1.2;
const CHECKS = 10;
/** A gateway that was not heard of for so long has missed a renewal, and is not waited for. */
const MISSED = 0.5;
/** How long each gateway in the takeover order waits for the one before it: a check, and the way of an append. */
const TURN = 1.5 / CHECKS;
/** How long a change waits for gateways that renew their leases without applying it. */
const LEASES_TO_APPLY = 3;
/** Without a renewal of its own for this part of the time, a gateway does not know whether the others renew theirs. */
const CUT_OFF = 2 / RENEWALS;

export class LeaseKeeper {
  readonly #options: LeaseKeeperOptions;
  readonly #seen = new Map<string, LastSeen>();
  readonly #timers: (() => void)[];
  /** Wakes each change that waits for other gateways. */
  readonly #waiting = new Set<() => void>();
  #applied: Position;
  #changedAt = START;
  #stating: Promise<void> | undefined;
  #renewing = false;
  #stopped = false;
  #isKnown = false;
  #becomingKnown: Promise<void> | undefined;
  #renewedAt: number;
  #ending = false;

  constructor(options: LeaseKeeperOptions) {
    this.#options = options;
    const { leaseMs, lease, now, every = everyMs } = options;
    this.#renewedAt = now();
    this.#applied = lease.grantedAt;
    void lease.lost.then(() => {
      for (const wake of this.#waiting) wake();
    });
    void this.#followJoins();
    this.#timers = [
      every(leaseMs / RENEWALS, () => void this.#renew()),
      every(leaseMs / CHECKS, () => void this.#endExpired()),
    ];
  }

  stop(): void {
    this.#stopped = true;
    for (const stop of this.#timers) stop();
  }

  /** A change of the configuration was read. It is stated as applied once it is, while there are other gateways. */
  changeRead(position: Position): void {
    this.#changedAt = position;
    this.#stating ??= this.#stateApplied().finally(() => {
      this.#stating = undefined;
    });
  }

  /**
   * Resolves when every other gateway has applied the changes up to this position, or its lease has ended.
   * @throws LeaseLost; Error when a gateway keeps its lease and does not apply them
   */
  async appliedEverywhere(position: Position): Promise<void> {
    const { leases, leaseMs } = this.#options;
    await leases.whenProcessed(position);
    // A gateway that is granted a lease later has read the change before.
    const hasApplied = (gateway: string) => (leases.granted.get(gateway)?.applied ?? position) >= position;
    await this.#whenEachOther(hasApplied, leaseMs * LEASES_TO_APPLY);
  }

  /**
   * Resolves when every other gateway has stated something since it knows that it is not alone, or its lease has ended; undefined
   * once that is so. Gateways that join later find this one in the log.
   * @throws LeaseLost; Error when a gateway keeps its lease and does not state it
   */
  knownToOthers(): Promise<void> | undefined {
    if (this.#isKnown) return undefined;
    this.#becomingKnown ??= this.#untilKnown();
    return this.#becomingKnown;
  }

  async #untilKnown(): Promise<void> {
    try {
      await this.#whenEachOther((gateway) => this.#knowsOthers(gateway), this.#options.leaseMs * LEASES_TO_APPLY);
      this.#isKnown = true;
    } finally {
      this.#becomingKnown = undefined;
    }
  }

  /** Resolves when it holds for every other gateway whose lease lasts. @throws LeaseLost; Error after `limitMs` */
  async #whenEachOther(holds: (gateway: string) => boolean, limitMs: number): Promise<void> {
    const { leases, lease, after = afterMs } = this.#options;
    let isLate = false;
    const woken = Promise.withResolvers<void>();
    const cancel = after(limitMs, () => {
      isLate = true;
      woken.resolve();
    });
    this.#waiting.add(woken.resolve);
    try {
      for (const { gateway } of this.#others()) {
        while (!holds(gateway)) {
          if (lease.isLost) throw new LeaseLost();
          if (isLate) throw new Error(`gateway ${gateway} has not applied it within ${limitMs / 1000} s`);
          await Promise.race([leases.changed(), woken.promise]);
        }
      }
      if (lease.isLost) throw new LeaseLost();
    } finally {
      cancel();
      this.#waiting.delete(woken.resolve);
    }
  }

  /** Whether the gateway has applied the grant of another lease that lasts. */
  #knowsOthers(gateway: string): boolean {
    const { granted } = this.#options.leases;
    const known = granted.get(gateway);
    const [first, second] = granted.values();
    const other = first?.gateway === gateway ? second : first;
    return known === undefined || (other !== undefined && other.grantedAt <= known.applied);
  }

  /** A gateway that is not alone any more states so: the one that has joined waits for it. */
  async #followJoins(): Promise<void> {
    const { leases, lease } = this.#options;
    while (!this.#stopped) {
      const [first, second] = leases.granted.values();
      const joined = (first?.gateway === lease.gateway ? second : first)?.grantedAt ?? START;
      if (joined > this.#applied && joined > this.#changedAt) this.changeRead(joined);
      await leases.changed();
    }
  }

  /** Whether there are other gateways, as far as the log was read. */
  hasOthers(): boolean {
    const { lease, leases } = this.#options;
    return leases.granted.size > (leases.granted.has(lease.gateway) ? 1 : 0);
  }

  /** Whether the gateway has not renewed its lease within its time: its lease is about to end. */
  isLate(gateway: string): boolean {
    const { lease, leases, leaseMs, now } = this.#options;
    if (gateway === lease.gateway) return !lease.isValid;
    const seen = this.#seen.get(gateway);
    return seen !== undefined && now() - seen.at > (leases.granted.get(gateway)?.leaseMs ?? leaseMs);
  }

  #others(): KnownLease[] {
    const { lease, leases } = this.#options;
    return [...leases.granted.values()].filter(({ gateway }) => gateway !== lease.gateway);
  }

  async #stateApplied(): Promise<void> {
    while (this.#applied < this.#changedAt) {
      const position = this.#changedAt;
      try {
        await this.#options.applied(position);
      } catch (error) {
        return this.#options.onError(error);
      }
      this.#applied = position;
      if (this.hasOthers()) await this.#state();
    }
  }

  async #renew(): Promise<void> {
    if (this.#renewing) return;
    this.#renewing = true;
    await this.#state();
    this.#renewing = false;
  }

  /** Never rejects: what could not be recorded is stated by the next renewal. */
  async #state(): Promise<void> {
    try {
      await this.#options.lease.renew(this.#applied);
      this.#renewedAt = this.#options.now();
    } catch (error) {
      if (!(error instanceof LogUnavailable)) this.#options.onError(error);
    }
  }

  async #endExpired(): Promise<void> {
    const { lease, leaseMs, now } = this.#options;
    const at = now();
    if (at - this.#renewedAt > leaseMs * CUT_OFF) {
      // After an outage of the engine the others get all of their time to renew.
      this.#seen.clear();
      return;
    }
    this.#lookAtAll(at);
    if (this.#ending || !lease.isValid) return;
    this.#ending = true;
    for (const one of this.#expiredAt(at)) await this.#takeOver(one);
    this.#ending = false;
  }

  async #takeOver(one: KnownLease): Promise<void> {
    const { lease, expired, onError } = this.#options;
    try {
      await lease.inheritFrom(one);
      expired(one.gateway);
    } catch (error) {
      // Another gateway was faster, or the lease was renewed.
      if (!(error instanceof WrongExpectedRevision || error instanceof LogUnavailable)) onError(error);
    }
  }

  /**
   * Those that this gateway is to end now, as they are now: a renewal that is read before the end of one is appended must
   * refuse that end.
   */
  #expiredAt(at: number): KnownLease[] {
    const expired = this.#silentFor(PATIENCE, at);
    if (expired.length === 0) return [];
    const { leases, lease } = this.#options;
    const silent = new Set(this.#silentFor(MISSED, at).map(({ gateway }) => gateway));
    const alive = [...leases.granted.keys()].filter((gateway) => !silent.has(gateway));
    const mine = expired.filter((one) => {
      const waiting = PATIENCE + placeInTakeoverOrder(one, lease.gateway, alive) * TURN;
      return this.#isSilentFor(waiting, one, at);
    });
    return mine.map((one) => ({ ...one }));
  }

  /** The others that were not heard of for so many times their lease. */
  #silentFor(times: number, at: number): KnownLease[] {
    return this.#others().filter((one) => this.#isSilentFor(times, one, at));
  }

  #isSilentFor(times: number, { gateway, leaseMs }: KnownLease, at: number): boolean {
    const seen = this.#seen.get(gateway);
    return seen !== undefined && at - seen.at > (leaseMs ?? this.#options.leaseMs) * times;
  }

  /** Notes the renewals that were read. */
  #lookAtAll(at: number): void {
    const { granted } = this.#options.leases;
    for (const gateway of this.#seen.keys()) if (!granted.has(gateway)) this.#seen.delete(gateway);
    for (const { gateway, events } of this.#others()) {
      if (this.#seen.get(gateway)?.events !== events) this.#seen.set(gateway, { events, at });
    }
  }
}

function everyMs(ms: number, work: () => void): () => void {
  const timer = setInterval(work, ms);
  return () => clearInterval(timer);
}

function afterMs(ms: number, work: () => void): () => void {
  const timer = setTimeout(work, ms).unref();
  return () => clearTimeout(timer);
}

// Which gateway ends an expired lease first. Without a line, every gateway would try at the same time, and all but one in
// vain. The order of the log alone decides who has succeeded; the line only saves appends.

/** The last place: all gateways behind it try at the same time. */
const LAST_PLACE = 4;

/**
 * The place of a gateway in the takeover order of a lease, from 0 on. Each lease has its own first one, so many that expire
 * together are divided among all gateways.
 * @param alive the gateways that may end it, in the order in which all of them know each other
 */
export function placeInTakeoverOrder(
  expired: Pick<KnownLease, 'grantedAt'>,
  own: string,
  alive: readonly string[],
): number {
  const place = alive.indexOf(own);
  if (place === -1) return LAST_PLACE;
  const first = parsePosition(expired.grantedAt) % alive.length;
  return Math.min((place - first + alive.length) % alive.length, LAST_PLACE);
}

// The ends of leases whose open exchanges may have become those of this gateway; the fold `in-flight` has which did.

/** Their positions, kept until there is code that takes the exchanges. */
export class Inheritance {
  gateway: string | undefined;
  #latest: Position | undefined;
  #take: ((position: Position) => void) | undefined;

  passTo(take: (position: Position) => void): void {
    this.#take = take;
    if (this.#latest !== undefined) take(this.#latest);
  }

  read(event: RecordedEvent): void {
    if (event.type !== leaseEnded.type) return;
    const { heir } = event.data as z.infer<typeof leaseEnded.data>;
    if (heir !== undefined && heir !== this.gateway) return;
    this.#latest = event.position;
    this.#take?.(event.position);
  }
}
