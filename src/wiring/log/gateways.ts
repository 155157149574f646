/** This gateway among those on its log: its lease, and the changes that all of them have applied. */
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import type { Logger } from 'pino';
import { configurationCategories, FencedLog } from '../../commands/gateways/fenced-log.ts';
import { gatewayStream, type KnownLeases, Lease, sameSecrets } from '../../commands/gateways/lease.ts';
import { Inheritance, LeaseKeeper } from '../../commands/gateways/lease-keeper.ts';
import type { SharedSecrets } from '../../commands/gateways/shared-secrets.ts';
import { followCancellations } from '../../commands/response-lifecycle/lifecycle.ts';
import type { Config } from '../../config/config.ts';
import { gatewayVersion } from '../../config/gateway-version.ts';
import { configurationReloaded, gatewayStarted, gatewayStopped } from '../../events/catalogue/gateway.ts';
import type { EventContext, NewEvent, Position, StreamName } from '../../events/event.ts';
import { mintEventId } from '../../events/event-id.ts';
import { type EventLog, LogUnavailable } from '../../events/log.ts';
import type { GatewayFacts } from '../../http/admin/gateways.ts';
import { type Leases, leasesView } from '../../projections/leases.ts';
import { isA, isCaughtUp } from '../../projections/projection.ts';
import type { ProjectionRunner } from '../../projections/runner.ts';
import type { ReloadRecord } from '../reload.ts';
import type { WorkerPlace } from '../workers/messages.ts';

const FOLDER_ID = 'gateway-folder.id';
const context: EventContext = { actor: 'system' };

export interface GatewayLeaseOptions {
  readonly config: Pick<Config, 'dataDir' | 'log'>;
  /** Of a service with several. */
  readonly worker: Pick<WorkerPlace, 'number' | 'leased'> | undefined;
  /** As it was opened. */
  readonly opened: EventLog;
  readonly projections: ProjectionRunner;
  /** Those that all gateways must share; undefined where only one can use the log. */
  readonly secrets: SharedSecrets | undefined;
  readonly logger: Logger;
  readonly onError: (error: unknown) => void;
}

/** The log for the code of the gateway: with the conditions of the lease where several gateways can use the log. */
export function gatewayLogOf(opened: EventLog, { leaseMs }: Config['log']): EventLog {
  return leaseMs === undefined ? opened : new FencedLog(opened);
}

export type GatewayLease = Awaited<ReturnType<typeof takeGatewayLease>>;

/**
 * Resolves when this gateway may append, and has read everything before its lease.
 * @param log `gatewayLogOf` the opened log
 * @throws LogUnavailable, DifferentSecrets
 */
export async function takeGatewayLease(log: EventLog, options: GatewayLeaseOptions) {
  const { config, worker, opened, projections, secrets, logger, onError } = options;
  const inheritance = new Inheritance();
  const { leases, running } = followLeases(projections, inheritance);
  await running.caughtUp;
  const now = () => performance.now();
  const leaseMs = config.log.leaseMs;
  const folder = worker === undefined ? folderIdIn(config.dataDir) : `worker ${worker.number}`;
  const lease = await Lease.take({ log: opened, leases, folder, leaseMs, secrets, now });
  worker?.leased(lease.gateway);
  inheritance.gateway = lease.gateway;
  const following = new AbortController();
  let keeper: LeaseKeeper | undefined;
  const appliers: (() => Promise<void>)[] = [];
  const applied = async (position: Position) => {
    await projections.whenLiveProcessed(position);
    await Promise.all(appliers.map((apply) => apply()));
  };
  if (log instanceof FencedLog && leaseMs !== undefined) {
    keeper = new LeaseKeeper({
      lease,
      leaseMs,
      leases,
      applied,
      expired: (gateway) =>
        logger.warn(`the lease of gateway ${gateway} has expired; this one takes over its exchanges`),
      onError,
      now,
    });
    const keeping = keeper;
    log.use({
      lease,
      async appliedEverywhere(position) {
        await Promise.all([keeping.appliedEverywhere(position), applied(position)]);
      },
      processed: (position) => projections.whenLiveProcessed(position),
      hasOthers: () => keeping.hasOthers(),
      knownToOthers: () => keeping.knownToOthers(),
    });
    void followChanges(log, lease.grantedAt, keeper, following.signal).catch((error: unknown) => {
      if (!following.signal.aborted) onError(error);
    });
  }
  if (secrets !== undefined) {
    await sameSecrets(lease, leases, secrets).catch(async (error: unknown) => {
      keeper?.stop();
      following.abort();
      await lease.end([]);
      throw error;
    });
  }
  const stream = gatewayStream(lease.gateway);
  return {
    gateway: lease.gateway,
    /** The leases of all gateways. */
    known: leases,
    /** Resolves when other gateways have taken over from this one. */
    lost: lease.lost,
    get isLost() {
      return lease.isLost;
    },
    /** Whether every change that another gateway has confirmed is in force here. */
    isCurrent: () => lease.isValid,
    /** Resolves when the other gateways have read the lease of this one: from then on they wait before reads. */
    async knownToOthers(): Promise<void> {
      await keeper?.appliedEverywhere(lease.grantedAt).catch((error: unknown) => {
        if (!lease.isLost) logger.warn(`not all gateways know of this one: ${String(error)}`);
      });
    },
    /** Undefined where no other gateway can use the log. */
    readToPresent: log instanceof FencedLog ? () => log.readToPresent() : undefined,
    /** Those whose leases have not ended, in the order in which they joined. */
    gateways: (): GatewayFacts[] =>
      [...running.state.values()].map((one) => ({
        ...one,
        isSelf: one.gateway === lease.gateway,
        isLate: keeper?.isLate(one.gateway) === true,
      })),
    /** Whether there are other gateways on the log. */
    hasOthers: () => keeper?.hasOthers() === true,
    /**
     * @param apply called after changes of the configuration are in the read models. Other gateways confirm them when it
     *   has resolved. Must not throw.
     */
    onConfigurationChanged(apply: () => Promise<void>): void {
      appliers.push(apply);
    },
    /** @param cancel called with the id of each response that a client of another gateway cancels */
    onCancelled(cancel: (responseId: string) => void) {
      if (keeper === undefined) return;
      void followCancellations(log, cancel, following.signal).catch((error: unknown) => {
        if (!following.signal.aborted) onError(error);
      });
    },
    /** @param reload called when another gateway has read its configuration again, unless that followed another one */
    onReloaded(reload: () => void) {
      if (keeper === undefined || worker !== undefined) return;
      void followReloads(log, stream, reload, following.signal).catch((error: unknown) => {
        if (!following.signal.aborted) onError(error);
      });
    },
    /** @throws LogUnavailable */
    async recordReload({ data, context }: ReloadRecord): Promise<void> {
      await log.append([{ stream, events: [configurationReloaded.create(data, context)], expectedRevision: 'any' }]);
    },
    /** @param take called when exchanges of another gateway have become those of this one */
    onInherited: (take: (position: Position) => void) => inheritance.passTo(take),
    /** @throws LogUnavailable */
    async recordStart() {
      const { durability } = config.log;
      const started = gatewayStarted.create(
        { version: gatewayVersion, node: process.version, durability, pid: process.pid, host: hostname() },
        context,
      );
      await log.append([{ stream, events: [started], expectedRevision: 'any' }]);
    },
    /**
     * Stops to renew the lease, ends it, records the stop and closes the log.
     * @returns why that could not be recorded: the next start then takes it for a crash
     * @throws LogUnavailable when acknowledged events may not be on disk; the log is closed in that case too
     */
    async end(reason: string, cutExchanges: number): Promise<LogUnavailable | undefined> {
      keeper?.stop();
      following.abort();
      if (lease.isLost && worker === undefined) forgetFolderId(config.dataDir);
      const events: NewEvent[] = [gatewayStopped.create({ reason, cutExchanges }, context)];
      let unrecorded: LogUnavailable | undefined;
      try {
        await lease.end([{ stream, events, expectedRevision: 'any' }]);
      } catch (error) {
        if (!(error instanceof LogUnavailable)) throw error;
        unrecorded = error;
      } finally {
        await opened.close();
      }
      return unrecorded;
    },
  };
}

function followLeases(projections: ProjectionRunner, inheritance: Inheritance) {
  let waiting = Promise.withResolvers<void>();
  const running = projections.run(
    {
      ...leasesView,
      apply(state: Leases, event) {
        const next = leasesView.apply(state, event);
        inheritance.read(event);
        waiting.resolve();
        waiting = Promise.withResolvers<void>();
        return next;
      },
    },
    { hasEffects: true },
  );
  const leases: KnownLeases = {
    get granted() {
      return running.state;
    },
    whenProcessed: (position) => running.whenProcessed(position),
    changed: () => waiting.promise,
  };
  return { leases, running };
}

async function followChanges(log: EventLog, after: Position, keeper: LeaseKeeper, signal: AbortSignal): Promise<void> {
  // A gateway that joins waits until the others know of it.
  const streams = [...configurationCategories, 'lease'].map((category) => `${category}-`);
  for await (const event of log.subscribe({ after, filter: { streams }, signal })) {
    if (!isCaughtUp(event)) keeper.changeRead(event.position);
  }
}

async function followReloads(log: EventLog, own: StreamName, reload: () => void, signal: AbortSignal): Promise<void> {
  const filter = { types: [configurationReloaded.type] };
  for await (const event of log.subscribe({ after: await log.head(), filter, signal })) {
    if (isCaughtUp(event) || !isA(event, configurationReloaded)) continue;
    if (event.stream !== own && event.data.origin !== 'gateway') reload();
  }
}

/** Which data folder it is. Without it, the lease of the last run on this folder expires before it is replaced. */
function folderIdIn(dataDir: string): string {
  const file = join(dataDir, FOLDER_ID);
  try {
    const known = readFileSync(file, 'utf8').trim();
    if (known !== '') return known;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
  const id = mintEventId();
  writeFileSync(file, `${id}\n`);
  return id;
}

/** A copy of the folder may run elsewhere: this one becomes another folder. */
function forgetFolderId(dataDir: string): void {
  rmSync(join(dataDir, FOLDER_ID), { force: true });
}
