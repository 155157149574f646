/** One projection of a runner: its state, its snapshots, and what it does when it stops. */
import { deserialize, serialize } from 'node:v8';
import { type Position, type RecordedEvent, START } from '../events/event.ts';
import { CompiledFilter, type EventFilter, type EventLog } from '../events/log.ts';
import {
  isCaughtUp,
  type Projection,
  type ProjectionStatus,
  ProjectionStopped,
  type RunningProjection,
} from './projection.ts';
import {
  logIdOf,
  type RebuildRequest,
  rebuildRequests,
  type Skipped,
  skippedBy,
  skippedEvents,
  snapshotBasis,
  UnprocessableEvent,
  whenSkipped,
} from './snapshot-basis.ts';
import type { MovedSnapshot, Snapshot, ViewStore } from './view-store.ts';

/** What operators have recorded about projections. */
export interface OperatorDecisions {
  readonly skipped: readonly Skipped[];
  readonly rebuilds: ReadonlyMap<string, RebuildRequest>;
}

export async function operatorDecisions(log: EventLog): Promise<OperatorDecisions> {
  return { skipped: await skippedEvents(log), rebuilds: await rebuildRequests(log) };
}

export interface FollowOptions {
  readonly log: EventLog;
  readonly views: ViewStore | undefined;
  readonly reading: SharedReading;
  readonly signal: AbortSignal;
  readonly hasEffects: boolean;
  readonly onError: (error: Error) => void;
  /** As of the start. */
  decisions(): Promise<OperatorDecisions>;
}

/** What the runner needs of each projection. */
export interface FollowedProjection {
  readonly name: string;
  whenProcessed(position: Position): Promise<void>;
  whenContinued(position: Position): Promise<void>;
  /** Undefined when there is nothing new to save. */
  snapshot(): Snapshot | MovedSnapshot | undefined;
  saved(snapshot: Snapshot | MovedSnapshot): void;
  status(): ProjectionStatus;
  readonly finished: Promise<void>;
}

interface Waiting {
  readonly position: Position;
  resolve(): void;
  /** Undefined: it waits also while the projection is stopped. */
  readonly reject?: (error: Error) => void;
}

export function followProjection<State>(
  projection: Projection<State>,
  { log, views, reading, signal, hasEffects, onError, decisions }: FollowOptions,
): RunningProjection<State> & FollowedProjection {
  const { name, version, filter } = projection;
  let state = projection.initial();
  let position = START;
  let checkpoint = START;
  /** See `snapshotBasis`. */
  let basis: string | undefined;
  let rebuild: RebuildRequest | undefined;
  /** What readers get while it continues after a stop, until it has reached the end of the log. */
  let shown: { readonly state: State; readonly position: Position } | undefined;
  /** Whether the state differs from the last snapshot. */
  let changed = true;
  /** Whether it has changed since `snapshot` was called. */
  let changedSince = true;
  let phase: ProjectionStatus['phase'] = 'catching-up';
  let startedFrom = 'the beginning';
  let failure: ProjectionStopped | undefined;
  let stoppedAt: ProjectionStatus['stoppedAt'];
  let behind = true;
  let skipped: ReadonlySet<Position> = new Set();
  let knewEverythingAt = performance.now();
  let waiting: Waiting[] = [];
  let first = Promise.withResolvers<void>();
  // Without a caller that waits, this must not become an unhandled rejection: `status` and `onError` report the error.
  first.promise.catch(() => {});

  function reached(): void {
    if (waiting.length === 0 || shown !== undefined) return;
    const done = waiting.filter((one) => one.position <= position);
    waiting = waiting.filter((one) => one.position > position);
    for (const one of done) one.resolve();
  }

  async function load(): Promise<void> {
    if (views === undefined || projection.load === undefined) return;
    const snapshot = views.load(name);
    if (snapshot === undefined) return;
    const unusable = await reasonToRebuild(log, snapshot, version, rebuild);
    if (unusable !== undefined) {
      startedFrom = `the beginning: ${unusable}`;
      return;
    }
    try {
      state = projection.load(deserialize(snapshot.state));
    } catch (error) {
      startedFrom = `the beginning: the snapshot does not read (${String(error)})`;
      state = projection.initial();
      return;
    }
    basis = snapshot.logId;
    position = snapshot.position;
    checkpoint = snapshot.position;
    changed = false;
    startedFrom = `the snapshot at ${position}`;
  }

  function take(event: RecordedEvent): void {
    behind = true;
    changed = true;
    changedSince = true;
    if (skipped.size === 0 || !skipped.has(event.position)) {
      try {
        state = projection.apply(state, event);
      } catch (error) {
        throw new UnprocessableEvent(name, event, error);
      }
    }
    position = event.position;
    reached();
  }

  async function catchUp(isContinuing: boolean): Promise<void> {
    reading.expect();
    try {
      const decided = await (isContinuing ? operatorDecisions(log) : decisions());
      skipped = skippedBy(name, decided.skipped);
      rebuild = decided.rebuilds.get(name);
      await load();
    } catch (error) {
      reading.leave();
      throw error;
    }
    const upTo = await reading.join({ after: position, filter, take });
    if (upTo > position) position = upTo;
    reached();
  }

  async function follow(isContinuing: boolean): Promise<void> {
    await catchUp(isContinuing);
    for await (const event of log.subscribe({ after: position, filter, signal })) {
      basis ??= await currentBasis();
      if (isCaughtUp(event)) {
        if (event.position > position) position = event.position;
        phase = 'live';
        behind = false;
        knewEverythingAt = performance.now();
        shown = undefined;
        first.resolve();
        reached();
      } else take(event);
    }
  }

  async function currentBasis(): Promise<string | undefined> {
    const logId = await logIdOf(log);
    return logId === undefined ? undefined : snapshotBasis(logId, rebuild);
  }

  /** @param error undefined when it has been closed */
  function stop(error?: unknown): void {
    if (!signal.aborted || !(error === undefined || isAbort(error))) {
      failure = new ProjectionStopped(name, position, error);
      if (error instanceof UnprocessableEvent) stoppedAt = error.event;
      onError(failure);
    }
    phase = 'stopped';
    shown = undefined;
    const why = failure ?? new ProjectionStopped(name, position, new Error('the gateway is stopping'));
    first.reject(why);
    const ended = waiting.filter(({ reject }) => reject !== undefined);
    waiting = waiting.filter(({ reject }) => reject === undefined);
    for (const one of ended) one.reject?.(why);
    reached();
  }

  /** The state may contain half of the event on which it stopped: it is read from the snapshot, or the beginning, again. */
  function restart(): void {
    shown = { state, position };
    state = projection.initial();
    position = START;
    checkpoint = START;
    changed = true;
    changedSince = true;
    basis = undefined;
    startedFrom = 'the beginning';
    phase = 'catching-up';
    failure = undefined;
    stoppedAt = undefined;
    first = Promise.withResolvers();
    first.promise.catch(() => {});
  }

  async function run(): Promise<void> {
    for (let isContinuing = false; ; isContinuing = true) {
      await follow(isContinuing).catch(stop);
      if (stoppedAt === undefined || hasEffects) break;
      await whenSkipped(name, stoppedAt.position, log, signal);
      restart();
    }
  }

  const finished = run()
    // Without the log, no skip is found: it stays stopped until the next start.
    .catch(() => {})
    .then(() => {
      if (phase !== 'stopped') stop();
      waiting = [];
    });

  const shownPosition = () => shown?.position ?? position;

  return {
    name,
    get state() {
      return shown === undefined ? state : shown.state;
    },
    get position() {
      return shownPosition();
    },
    get caughtUp() {
      return first.promise;
    },
    async whenProcessed(target) {
      if (target <= shownPosition()) return;
      if (phase === 'stopped') throw failure ?? new ProjectionStopped(name, position, new Error('it was closed'));
      await new Promise<void>((resolve, reject) => waiting.push({ position: target, resolve, reject }));
    },
    async whenContinued(target) {
      if (target <= shownPosition()) return;
      await new Promise<void>((resolve) => waiting.push({ position: target, resolve }));
    },
    status() {
      return {
        name,
        version,
        phase,
        position: shownPosition(),
        checkpoint,
        startedFrom,
        lagMs: phase === 'live' && !behind ? 0 : Math.round(performance.now() - knewEverythingAt),
        continues: !hasEffects,
        isSaved: projection.save !== undefined && views !== undefined,
        rebuiltFor: rebuild?.position,
        ...(failure === undefined ? {} : { error: failure.message }),
        ...(stoppedAt === undefined ? {} : { stoppedAt }),
      };
    },
    finished,
    snapshot() {
      // The state of a projection that threw may contain half of an event: the last complete snapshot is kept.
      if (failure !== undefined || basis === undefined || position === checkpoint) return undefined;
      if (projection.save === undefined || views === undefined || views.isReadOnly === true) return undefined;
      changedSince = false;
      if (!changed) return { name, version, logId: basis, position };
      return { name, version, logId: basis, position, state: serialize(projection.save(state)) };
    },
    saved(snapshot) {
      checkpoint = snapshot.position;
      changed = changedSince;
    },
  };
}

/** Why this snapshot cannot be used, or undefined when it can. */
async function reasonToRebuild(
  log: EventLog,
  snapshot: Snapshot,
  version: number,
  rebuild: RebuildRequest | undefined,
): Promise<string | undefined> {
  if (snapshot.version !== version) return `the snapshot is of version ${snapshot.version}, not ${version}`;
  const logId = await logIdOf(log);
  if (rebuild !== undefined && logId !== undefined && snapshot.logId !== snapshotBasis(logId, rebuild)) {
    return `${rebuild.by} has requested it`;
  }
  if (rebuild === undefined && snapshot.logId !== logId) return 'the snapshot is of another log';
  if (snapshot.position > (await log.head())) return 'the snapshot is newer than the log';
  return undefined;
}

function isAbort(error: unknown): boolean {
  return error instanceof Error && error.name === 'AbortError';
}

/**
 * Projections that start together, and from the same position, read the existing log together: each event is fetched
 * and decoded once for all of them. After that each follows the log by itself.
 */
interface Member {
  /** Exclusive. */
  readonly after: Position;
  readonly filter: EventFilter;
  /** Every event of the filter, in the log's order. One that throws gets no further ones. */
  take(event: RecordedEvent): void;
}

interface WaitingMember {
  readonly member: Member;
  readonly resolve: (position: Position) => void;
  readonly reject: (error: unknown) => void;
}

export class SharedReading {
  readonly #log: EventLog;
  readonly #signal: AbortSignal;
  #expected = 0;
  #waiting: WaitingMember[] = [];

  constructor(log: EventLog, signal: AbortSignal) {
    this.#log = log;
    this.#signal = signal;
  }

  /** Announces one later `join` or `leave`. The reading begins when all announced calls have been made. */
  expect(): void {
    this.#expected += 1;
  }

  leave(): void {
    this.#expected -= 1;
    if (this.#expected > 0) return;
    const together = Map.groupBy(this.#waiting.splice(0), ({ member }) => member.after);
    for (const [after, readers] of together) void this.#read(after, readers);
  }

  /**
   * Resolves with the position up to which every event was taken: for a member that reads alone, its own `after`.
   * @throws what `take` threw, or the log, or AbortError when the signal is aborted
   */
  join(member: Member): Promise<Position> {
    const { promise, resolve, reject } = Promise.withResolvers<Position>();
    this.#waiting.push({ member, resolve, reject });
    this.leave();
    return promise;
  }

  async #read(after: Position, readers: readonly WaitingMember[]): Promise<void> {
    const sharing = readers.filter(({ member: { filter } }) => filter.types !== undefined);
    const alone = sharing.length < 2 ? readers : readers.filter((one) => !sharing.includes(one));
    for (const { resolve } of alone) resolve(after);
    if (alone.length === readers.length) return;
    try {
      const head = await this.#log.head();
      await this.#dispatch(after, new Set(sharing));
      this.#signal.throwIfAborted();
      for (const { resolve } of sharing) resolve(head > after ? head : after);
    } catch (error) {
      for (const { reject } of sharing) reject(error);
    }
  }

  async #dispatch(after: Position, sharing: Set<WaitingMember>): Promise<void> {
    const types = [...new Set([...sharing].flatMap(({ member }) => member.filter.types ?? []))];
    const filters = new Map([...sharing].map((one) => [one, new CompiledFilter(one.member.filter)] as const));
    const takers = new Map<string, WaitingMember[]>();
    for await (const event of this.#log.readAll({ after, filter: { types }, signal: this.#signal })) {
      let wanting = takers.get(event.type);
      if (wanting === undefined) {
        wanting = [...sharing].filter((one) => filters.get(one)?.acceptsType(event.type));
        takers.set(event.type, wanting);
      }
      for (const one of wanting) {
        if (!(sharing.has(one) && filters.get(one)?.acceptsStream(event.stream))) continue;
        try {
          one.member.take(event);
        } catch (error) {
          sharing.delete(one);
          one.reject(error);
        }
      }
    }
  }
}
