/**
 * The lease of this gateway. While it lasts, other gateways neither end the exchanges of this one nor confirm a change
 * of the configuration that this one has not applied. Its end is an event: the order of the log decides what the gateway
 * appended before it.
 *
 * Clocks of machines are not compared. The gateway counts its time from when it sent the renewal, the others count theirs from
 * when they read it, which is later. It believes the faster one of its two clocks: one stands while its machine is suspended,
 * the other may be set back.
 */
import { leaseEnded, leaseGranted, leaseRenewed } from '../../events/catalogue/gateway.ts';
import { type EventContext, type Position, START, type StreamName, streamName } from '../../events/event.ts';
import { mintEventId } from '../../events/event-id.ts';
import {
  type Appended,
  type EventLog,
  LogUnavailable,
  type StreamWrite,
  WrongExpectedRevision,
} from '../../events/log.ts';
import {
  checksOf,
  type DifferentSecret,
  differentSecret,
  type SecretChecks,
  type SharedSecrets,
} from './shared-secrets.ts';

/** The lease of this gateway has ended: another gateway has its exchanges now. Nothing was recorded. */
export class LeaseLost extends LogUnavailable {
  constructor() {
    super('the lease of this gateway has ended, and other gateways have taken over its exchanges', 'none');
  }
}

interface LeaseOptions {
  readonly log: EventLog;
  readonly leases: KnownLeases;
  /** Id of the data folder. */
  readonly folder: string;
  /** Undefined where only one gateway can use the log. */
  readonly leaseMs: number | undefined;
  /** Stated with the lease, as check values. */
  readonly secrets?: SharedSecrets | undefined;
  /** Milliseconds, never going back. */
  readonly now: () => number;
  /** Milliseconds of the time of day, which go on while a suspended machine's other clock stands. Default: `Date.now`. */
  readonly wallClock?: () => number;
}

/** The same moment by both clocks. */
interface Moment {
  readonly now: number;
  readonly wall: number;
}

const MAX_ATTEMPTS = 20;
const context: EventContext = { actor: 'system' };

export function leaseStream(gateway: string): StreamName {
  return streamName('lease', gateway);
}

export function gatewayStream(gateway: string): StreamName {
  return streamName('gateway', gateway);
}

/** Ends a lease; refused when it has ended. */
function endOf(gateway: string, reason: 'stopped' | 'replaced' | 'expired' | 'exited', heir?: string): StreamWrite {
  const events = [leaseEnded.create({ reason, heir }, context)];
  return { stream: leaseStream(gateway), events, expectedRevision: 0n };
}

function saltOf({ granted }: KnownLeases): string | undefined {
  return [...granted.values()].find(({ secrets }) => secrets !== undefined)?.secrets?.salt;
}

/** Accepted while the lease lasts. */
function notEnded(gateway: string): StreamWrite {
  return { stream: leaseStream(gateway), events: [], expectedRevision: 0n };
}

export class Lease {
  /** Id of this gateway. */
  readonly gateway = mintEventId();
  /** Accepted while the lease has not ended. Part of every append of this gateway. */
  readonly condition = notEnded(this.gateway);
  /** Resolves when the lease was found to have ended, other than by `end`. */
  readonly lost: Promise<undefined>;
  /** Everything before it was read here. */
  grantedAt: Position = START;
  readonly #options: LeaseOptions;
  readonly #lose: (value: undefined) => void;
  #sentAt: Moment = { now: Number.NEGATIVE_INFINITY, wall: Number.NEGATIVE_INFINITY };
  #isLost = false;

  private constructor(options: LeaseOptions) {
    this.#options = options;
    const { promise, resolve } = Promise.withResolvers<undefined>();
    this.lost = promise;
    this.#lose = resolve;
  }

  /**
   * Resolves when the lease was granted and read back. Leases of earlier runs end in the same append: those of this data
   * folder, and all where only one gateway can use the log.
   * @throws LogUnavailable
   */
  static async take(options: LeaseOptions): Promise<Lease> {
    const lease = new Lease(options);
    const { log, leases, folder, leaseMs, secrets } = options;
    const checks = secrets && (await checksOf(secrets, saltOf(leases)));
    const granted = [leaseGranted.create({ folder, leaseMs, secrets: checks }, context)];
    for (let attempt = 1; ; attempt++) {
      const replaced = [...leases.granted.values()].filter((one) => leaseMs === undefined || one.folder === folder);
      const sentAt = lease.#moment();
      try {
        const { position } = await log.append([
          { stream: lease.condition.stream, events: granted, expectedRevision: 'noStream' },
          ...replaced.map(({ gateway }) => endOf(gateway, 'replaced', lease.gateway)),
        ]);
        lease.#sentAt = sentAt;
        await leases.whenProcessed(position);
        lease.grantedAt = position;
        return lease;
      } catch (error) {
        if (!(error instanceof WrongExpectedRevision) || attempt === MAX_ATTEMPTS) throw error;
        await leases.whenProcessed(await log.head());
      }
    }
  }

  /** Whether no other gateway can have ended the lease: nothing that it forbids the others has happened. */
  get isValid(): boolean {
    const { leaseMs } = this.#options;
    if (this.#isLost || leaseMs === undefined) return !this.#isLost;
    const { now, wall } = this.#moment();
    return now - this.#sentAt.now < leaseMs && wall - this.#sentAt.wall < leaseMs;
  }

  get isLost(): boolean {
    return this.#isLost;
  }

  /** @throws LeaseLost, LogUnavailable */
  async renew(applied: Position): Promise<void> {
    const sentAt = this.#moment();
    const { head } = this.#options.log.status();
    const events = [leaseRenewed.create({ applied, read: head }, context)];
    await this.append([{ stream: gatewayStream(this.gateway), events, expectedRevision: 'any' }]);
    if (sentAt.now >= this.#sentAt.now) this.#sentAt = sentAt;
  }

  #moment(): Moment {
    const { now, wallClock = Date.now } = this.#options;
    return { now: now(), wall: wallClock() };
  }

  /** Appends under the condition that the lease has not ended. @throws as `EventLog.append`, and LeaseLost */
  async append(writes: readonly StreamWrite[], options?: Parameters<EventLog['append']>[1]): Promise<Appended> {
    if (this.#isLost) throw new LeaseLost();
    try {
      const { position, revisions } = await this.#options.log.append([...writes, this.condition], options);
      return { position, revisions: revisions.slice(0, -1) };
    } catch (error) {
      if (!(error instanceof WrongExpectedRevision)) throw error;
      if (error.stream !== this.condition.stream && !(await this.#hasEnded())) throw error;
      this.#isLost = true;
      this.#lose(undefined);
      throw new LeaseLost();
    }
  }

  /** An append is refused by the first condition that is not met: the heir may have appended to the same stream. */
  async #hasEnded(): Promise<boolean> {
    const { log, leases } = this.#options;
    try {
      await leases.whenProcessed(await log.head());
    } catch {
      // Leases are no longer followed: the gateway stops.
      return false;
    }
    return !leases.granted.has(this.gateway);
  }

  /** Takes over from a gateway that has not renewed its lease since this state of it. @throws WrongExpectedRevision when it has */
  async inheritFrom({ gateway, events }: KnownLease): Promise<Appended> {
    const sinceThen: StreamWrite = {
      stream: gatewayStream(gateway),
      events: [],
      expectedRevision: events === 0 ? 'noStream' : BigInt(events - 1),
    };
    return this.append([endOf(gateway, 'expired', this.gateway), sinceThen]);
  }

  /** Leaves the open exchanges to another gateway. @param last the last events of this one. @throws LogUnavailable */
  async end(last: readonly StreamWrite[]): Promise<void> {
    const { log, leases } = this.#options;
    // Gateways that stop at the same time; leases may no longer be followed here.
    const ended = new Set([this.gateway]);
    for (;;) {
      if (this.#isLost) throw new LeaseLost();
      const heir = [...leases.granted.keys()].find((gateway) => !ended.has(gateway));
      const whileItLasts = heir === undefined ? [] : [notEnded(heir)];
      try {
        await log.append([endOf(this.gateway, 'stopped', heir), ...last, ...whileItLasts]);
        return;
      } catch (error) {
        if (!(error instanceof WrongExpectedRevision) || heir === undefined) throw error;
        if (error.stream === this.condition.stream) throw new LeaseLost();
        ended.add(heir);
      }
    }
  }
}

/** The leases of the gateways on the log, as far as the log was read here. */
export interface KnownLease {
  readonly gateway: string;
  /** Id of its data folder. */
  readonly folder: string;
  /** Undefined for a lease that needs no renewal: only one gateway can use its log. */
  readonly leaseMs?: number | undefined;
  /** Absent where only one gateway can use the log. */
  readonly secrets?: SecretChecks | undefined;
  readonly grantedAt: Position;
  /** Number of events of the stream `gateway-<gateway>`. */
  readonly events: number;
  /** Every change of the configuration up to this position is in force at the gateway. */
  readonly applied: Position;
}

export interface KnownLeases {
  /** Those that have not ended, by gateway, in the order in which they were granted. */
  readonly granted: ReadonlyMap<string, KnownLease>;
  /** Resolves when everything up to this position was read. */
  whenProcessed(position: Position): Promise<void>;
  /** Resolves after the next change of a lease. */
  changed(): Promise<void>;
}

// The end of leases of which it is known that their gateways no longer run, without waiting until they expire.

/**
 * Ends the lease of a gateway whose process has ended. Its open exchanges go to the first of `others` whose lease lasts,
 * or else to the next gateway that is granted a lease. Does nothing when the lease has ended.
 * @throws LogUnavailable
 */
export async function endLeaseOf(
  gateway: string,
  others: Iterable<string>,
  log: Pick<EventLog, 'append'>,
): Promise<void> {
  for (const heir of [...others, undefined]) {
    const ended = endOf(gateway, 'exited', heir);
    try {
      await log.append(heir === undefined ? [ended] : [ended, notEnded(heir)]);
      return;
    } catch (error) {
      if (!(error instanceof WrongExpectedRevision)) throw error;
      if (error.stream === leaseStream(gateway)) return;
    }
  }
}

/** Ends the leases of earlier runs, when no gateway runs: the next one that is granted a lease has their open exchanges. */
export async function endAllLeases(gateways: Iterable<string>, log: Pick<EventLog, 'append'>): Promise<void> {
  const ends = [...gateways].map((gateway) => endOf(gateway, 'replaced'));
  if (ends.length > 0) await log.append(ends);
}

/** A gateway whose secrets differ from those of a gateway that was there before does not start. */
class DifferentSecrets extends Error {
  readonly code = 'different_secrets';
  constructor(secret: DifferentSecret, gateway: string, hasMasterKey: boolean) {
    super(messages[secret](gateway, hasMasterKey));
  }
}

const messages: Readonly<Record<DifferentSecret, (gateway: string, hasMasterKey: boolean) => string>> = {
  credentialsKey: (gateway) =>
    `CREDENTIALS_KEY is not the one of gateway ${gateway}, which uses the same log. Set the same key on all gateways; to change it, stop all of them first.`,
  masterKey: (gateway, hasMasterKey) =>
    hasMasterKey
      ? `the master key is not the one of gateway ${gateway}, which uses the same log. Set GATEWAY_MASTER_KEY to the same key on all gateways (without it each one creates its own, in DATA_DIR/master.key); to change it, stop all of them first.`
      : `GATEWAY_UNSAFE_OPEN=true needs no key, but gateway ${gateway}, which uses the same log, has a master key. Set both equally on all gateways.`,
};

/**
 * Resolves when no gateway that has had its lease before has other secrets. One that has is waited for until it renews its
 * lease, or others end it: it may have crashed.
 * @throws DifferentSecrets
 */
export async function sameSecrets(lease: Pick<Lease, 'gateway'>, leases: KnownLeases, secrets: SharedSecrets) {
  const mine = leases.granted.get(lease.gateway)?.secrets ?? (await checksOf(secrets));
  for (const { gateway, events, secrets: theirs } of earlier(leases, lease.gateway)) {
    const different = theirs && (await differentSecret(secrets, mine, theirs));
    if (different === undefined) continue;
    while (leases.granted.get(gateway)?.events === events) await leases.changed();
    if (leases.granted.has(gateway)) throw new DifferentSecrets(different, gateway, secrets.masterKey !== undefined);
  }
}

function earlier({ granted }: KnownLeases, own: string): KnownLease[] {
  const all = [...granted.values()];
  // The fold changes them in place.
  return all
    .slice(
      0,
      all.findIndex(({ gateway }) => gateway === own),
    )
    .map((one) => ({ ...one }));
}
