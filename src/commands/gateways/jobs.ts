/**
 * Jobs that exactly one of the gateways on a log does. A gateway takes a job with an append at the revision of the job's stream that it
 * has read, under the condition that the lease of the holder has ended. What is appended for the job has the condition that it
 * was not released or taken since. Work outside of the log gets an epoch, the position of the taking: it grows from holder to holder.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { jobReleased, jobTaken } from '../../events/catalogue/gateway.ts';
import { type EventContext, type Position, type StreamName, streamName } from '../../events/event.ts';
import { type EventLog, LogUnavailable, logWith, type StreamWrite, WrongExpectedRevision } from '../../events/log.ts';
import { type KnownLeases, LeaseLost, leaseStream } from './lease.ts';

/** `analytics`: the writer into a ClickHouse server. */
export type JobName = 'analytics' | 'deferred-work' | 'price-recalculation';

/** The latest event of a job. */
export interface KnownJob {
  /** Undefined when it was released. */
  readonly gateway?: string | undefined;
  readonly revision: bigint;
  readonly position: Position;
}

/** As far as the log was read. */
export interface KnownJobs {
  get(name: string): KnownJob | undefined;
  whenProcessed(position: Position): Promise<void>;
  /** Resolves after the next event of a job. */
  changed(): Promise<void>;
}

export interface HeldJob {
  /** Appends under the condition that this gateway has the job. */
  readonly log: EventLog;
  /** Higher than that of every earlier holder. Undefined where no other gateway can use the log. */
  readonly epoch: Position | undefined;
}

export interface JobsOptions {
  /** With the conditions of this gateway's lease. */
  readonly log: EventLog;
  readonly gateway: string;
  readonly leases: KnownLeases;
  readonly jobs: KnownJobs;
  readonly onError: (error: unknown) => void;
}

/** Pause after the log could not be written. */
const RETRY_MS = 250;
const context: EventContext = { actor: 'system' };

export class Jobs {
  readonly #options: JobsOptions;
  readonly #stopped = Promise.withResolvers<undefined>();
  #isStopped = false;

  constructor(options: JobsOptions) {
    this.#options = options;
  }

  /**
   * Does a job from when no other gateway does it, until this gateway stops or its lease ends.
   * @param begin called at most once. What it starts is stopped with the gateway.
   */
  whenFree(name: JobName, begin: (held: HeldJob) => void): void {
    void this.#waitFor(name, begin).catch(this.#options.onError);
  }

  /**
   * Does a job once.
   * @throws what `work` throws; LogUnavailable; the error of `otherwise` when another gateway does it
   */
  async once<Result>(name: JobName, work: (held: HeldJob) => Promise<Result>, otherwise: () => Error): Promise<Result> {
    const taken = await this.#take(name);
    if (taken === undefined) throw otherwise();
    try {
      return await work(this.#held(name, taken));
    } finally {
      await this.#release(name, taken);
    }
  }

  /** Takes no more jobs. Those that this gateway has end with its lease. */
  stop(): void {
    this.#isStopped = true;
    this.#stopped.resolve(undefined);
  }

  async #waitFor(name: JobName, begin: (held: HeldJob) => void): Promise<void> {
    const { jobs, leases } = this.#options;
    while (!this.#isStopped) {
      const changed = Promise.race([jobs.changed(), leases.changed(), this.#stopped.promise]);
      try {
        const taken = await this.#take(name);
        if (this.#isStopped) return;
        if (taken !== undefined) return begin(this.#held(name, taken));
        await changed;
      } catch (error) {
        if (error instanceof LeaseLost) return;
        if (!(error instanceof LogUnavailable)) throw error;
        await Promise.race([delay(RETRY_MS, undefined, { ref: false }), this.#stopped.promise]);
      }
    }
  }

  /** Undefined when another gateway has it. @throws LogUnavailable */
  async #take(name: JobName): Promise<KnownJob | undefined> {
    const { log, gateway, leases, jobs } = this.#options;
    const known = jobs.get(name);
    // An append with an unknown outcome may have taken it.
    if (known?.gateway === gateway) return known;
    if (known?.gateway !== undefined && leases.granted.has(known.gateway)) return undefined;
    const events = [jobTaken.create({ gateway }, context)];
    const expectedRevision = known?.revision ?? 'noStream';
    const writes: StreamWrite[] = [{ stream: jobStream(name), events, expectedRevision }];
    if (known?.gateway !== undefined) {
      writes.push({ stream: leaseStream(known.gateway), events: [], expectedRevision: 1n });
    }
    try {
      const { position } = await log.append(writes);
      await jobs.whenProcessed(position);
    } catch (error) {
      if (!(error instanceof WrongExpectedRevision)) throw error;
      // Another gateway was faster.
      await jobs.whenProcessed(await log.head());
    }
    const taken = jobs.get(name);
    return taken?.gateway === gateway ? taken : undefined;
  }

  #held(name: JobName, { revision, position }: KnownJob): HeldJob {
    const condition: StreamWrite = { stream: jobStream(name), events: [], expectedRevision: revision };
    return { log: underCondition(this.#options.log, condition), epoch: position };
  }

  async #release(name: JobName, { revision }: KnownJob): Promise<void> {
    const { log, jobs } = this.#options;
    const events = [jobReleased.create({}, context)];
    try {
      const { position } = await log.append([{ stream: jobStream(name), events, expectedRevision: revision }]);
      await jobs.whenProcessed(position);
    } catch (error) {
      // The next work of this gateway goes on with it, or it ends with the lease.
      if (!(error instanceof LogUnavailable)) throw error;
    }
  }
}

function jobStream(name: JobName): StreamName {
  return streamName('job', name);
}

/** The same log, whose appends are accepted only under a condition. */
function underCondition(log: EventLog, condition: StreamWrite): EventLog {
  return logWith(log, {
    async append(writes, options) {
      const { position, revisions } = await log.append([...writes, condition], options);
      return { position, revisions: revisions.slice(0, -1) };
    },
  });
}
