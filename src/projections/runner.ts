/**
 * Runs projections: from the last snapshot, or the beginning, to the end of the log, and then with each new event.
 *
 * Guarantees: `apply` gets every event that matches the filter exactly once and in the log's order; the snapshot and
 * its checkpoint are saved together; an unusable snapshot costs time, but never makes the state wrong. A projection
 * that throws stops there and reports the error: an event is only skipped by an operator (`skipped-events.ts`).
 */
import type { Position, RecordedEvent } from '../events/event.ts';
import { type EventLog, START } from '../events/log.ts';
import { isCaughtUp } from './known-event.ts';
import type { Projection } from './projection.ts';
import { SharedReading } from './shared-reading.ts';
import { type Skipped, skippedBy, skippedEvents, UnprocessableEvent } from './skipped-events.ts';
import type { MovedSnapshot, Snapshot, ViewStore } from './view-store.ts';

export interface ProjectionStatus {
  readonly name: string;
  readonly version: number;
  readonly phase: 'catching-up' | 'live' | 'stopped';
  /** Every event up to this position is in the state. */
  readonly position: Position;
  readonly checkpoint: Position;
  /** How the state was made: from a snapshot, or by folding the whole log, and why. */
  readonly startedFrom: string;
  /** Age of the state, in milliseconds: 0 at the end of the log, else the time since it was last there. */
  readonly lagMs: number;
  /** Why it stopped. */
  readonly error?: string;
}

export interface RunningProjection<State> {
  readonly name: string;
  readonly state: State;
  readonly position: Position;
  /** Resolves when the projection has reached the end of the log for the first time. Rejects when it stops before. */
  readonly caughtUp: Promise<void>;
  /**
   * Resolves when everything up to `position` is in the state: at once, when it already is.
   * @throws ProjectionStopped
   */
  whenProcessed(position: Position): Promise<void>;
  status(): ProjectionStatus;
}

export interface RunnerOptions {
  /**
   * How often changed snapshots are saved, in milliseconds; less often when saving takes long, since it blocks the
   * event loop. Default 5000.
   */
  readonly saveEveryMs?: number;
  /** Called when a projection stopped, and when a snapshot could not be saved. */
  readonly onError?: (error: Error) => void;
}

export interface ProjectionRunner {
  run<State>(projection: Projection<State>): RunningProjection<State>;
  /** One entry for each projection, in the order they were started. */
  status(): ProjectionStatus[];
  /** Resolves when everything up to `position` is in the state of each projection that has not stopped. */
  whenAllProcessed(position: Position): Promise<void>;
  /** The same without those that have not reached the end of the log yet: nothing depends on them. */
  whenLiveProcessed(position: Position): Promise<void>;
  /** Saves changed snapshots now. @throws what SQLite throws when the disk is full */
  save(): void;
  /** Stops all projections and saves them. The log and the store stay open. */
  close(): Promise<void>;
}

/** Largest share of the time spent on saving: a two-hundredth. */
const PAUSE = 200;

export class ProjectionStopped extends Error {
  readonly code = 'projection_stopped';
  readonly projection: string;
  constructor(projection: string, position: Position, cause: unknown) {
    const why = cause instanceof Error ? cause.message : String(cause);
    super(`projection ${projection} stopped after position ${position}: ${why}`, { cause });
    this.projection = projection;
  }
}

/** What the runner needs of each projection to save it. */
interface Saveable {
  whenProcessed(position: Position): Promise<void>;
  /** Undefined when there is nothing new to save. */
  snapshot(): Snapshot | MovedSnapshot | undefined;
  saved(snapshot: Snapshot | MovedSnapshot): void;
  status(): ProjectionStatus;
  finished: Promise<void>;
}

/** Without `views` no snapshot is kept, and every start folds the whole log. */
export function createProjectionRunner(
  log: EventLog,
  views?: ViewStore,
  options: RunnerOptions = {},
): ProjectionRunner {
  const { saveEveryMs = 5000, onError = () => {} } = options;
  const stopping = new AbortController();
  const reading = new SharedReading(log, stopping.signal);
  const running: Saveable[] = [];
  let skipped: Promise<readonly Skipped[]> | undefined;

  function save(): void {
    const changed = running.flatMap((one) => {
      const snapshot = one.snapshot();
      return snapshot === undefined ? [] : [{ one, snapshot }];
    });
    views?.save(changed.map(({ snapshot }) => snapshot));
    for (const { one, snapshot } of changed) one.saved(snapshot);
  }

  let pauseUntil = 0;
  const timer = setInterval(() => {
    const began = performance.now();
    if (began < pauseUntil) return;
    try {
      save();
    } catch (error) {
      onError(new Error(`snapshots of the projections could not be saved: ${String(error)}`, { cause: error }));
    }
    const ended = performance.now();
    pauseUntil = ended + (ended - began) * PAUSE;
  }, saveEveryMs);
  timer.unref();

  return {
    run<State>(projection: Projection<State>) {
      const one = start(log, projection, views, reading, stopping.signal, onError, () => {
        skipped ??= skippedEvents(log);
        return skipped;
      });
      running.push(one);
      return one;
    },
    status: () => running.map((one) => one.status()),
    whenAllProcessed: (position) => allProcessed(running, position),
    whenLiveProcessed: (position) =>
      allProcessed(
        running.filter((one) => one.status().phase === 'live'),
        position,
      ),
    save,
    async close() {
      clearInterval(timer);
      stopping.abort();
      await Promise.all(running.map((one) => one.finished));
      save();
    },
  };
}

async function allProcessed(projections: readonly Saveable[], position: Position): Promise<void> {
  const ignoreStopped = (error: unknown) => {
    if (!(error instanceof ProjectionStopped)) throw error;
  };
  await Promise.all(projections.map((one) => one.whenProcessed(position).catch(ignoreStopped)));
}

function start<State>(
  log: EventLog,
  projection: Projection<State>,
  views: ViewStore | undefined,
  reading: SharedReading,
  signal: AbortSignal,
  onError: (error: Error) => void,
  everSkipped: () => Promise<readonly Skipped[]>,
): RunningProjection<State> & Saveable {
  const { name, version, filter } = projection;
  let state = projection.initial();
  let position = START;
  let checkpoint = START;
  let logId: string | undefined;
  /** Whether the state differs from the last snapshot. */
  let changed = true;
  let phase: ProjectionStatus['phase'] = 'catching-up';
  let startedFrom = 'the beginning';
  let failure: ProjectionStopped | undefined;
  let behind = true;
  let skipped: ReadonlySet<Position> = new Set();
  let knewEverythingAt = performance.now();
  let waiting: { position: Position; resolve: () => void; reject: (error: Error) => void }[] = [];
  const first = Promise.withResolvers<void>();
  // Without a caller that waits, this must not become an unhandled rejection: `status` and `onError` report the error.
  first.promise.catch(() => {});

  function reached(): void {
    if (waiting.length === 0) return;
    const done = waiting.filter((one) => one.position <= position);
    waiting = waiting.filter((one) => one.position > position);
    for (const one of done) one.resolve();
  }

  async function load(): Promise<void> {
    if (views === undefined || projection.load === undefined) return;
    const snapshot = views.load(name);
    if (snapshot === undefined) return;
    const unusable = await reasonToRebuild(log, snapshot, version);
    if (unusable !== undefined) {
      startedFrom = `the beginning: ${unusable}`;
      return;
    }
    try {
      state = projection.load(JSON.parse(snapshot.state));
    } catch (error) {
      startedFrom = `the beginning: the snapshot does not read (${String(error)})`;
      state = projection.initial();
      return;
    }
    logId = snapshot.logId;
    position = snapshot.position;
    checkpoint = snapshot.position;
    changed = false;
    startedFrom = `the snapshot at ${position}`;
  }

  function take(event: RecordedEvent): void {
    behind = true;
    changed = true;
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

  async function catchUp(): Promise<void> {
    reading.expect();
    try {
      skipped = skippedBy(name, await everSkipped());
      await load();
    } catch (error) {
      reading.leave();
      throw error;
    }
    const upTo = await reading.join({ after: position, filter, take });
    if (upTo > position) position = upTo;
    reached();
  }

  async function follow(): Promise<void> {
    await catchUp();
    for await (const event of log.subscribe({ after: position, filter, signal })) {
      logId ??= await logIdOf(log);
      if (isCaughtUp(event)) {
        if (event.position > position) position = event.position;
        phase = 'live';
        behind = false;
        knewEverythingAt = performance.now();
        first.resolve();
        reached();
      } else take(event);
    }
  }

  const finished = follow()
    .catch((error: unknown) => {
      if (signal.aborted && isAbort(error)) return;
      failure = new ProjectionStopped(name, position, error);
      onError(failure);
    })
    .then(() => {
      phase = 'stopped';
      const error = failure ?? new ProjectionStopped(name, position, new Error('the gateway is stopping'));
      first.reject(error);
      for (const one of waiting.splice(0)) one.reject(error);
    });

  return {
    name,
    get state() {
      return state;
    },
    get position() {
      return position;
    },
    caughtUp: first.promise,
    async whenProcessed(target) {
      if (target <= position) return;
      if (phase === 'stopped') throw failure ?? new ProjectionStopped(name, position, new Error('it was closed'));
      await new Promise<void>((resolve, reject) => waiting.push({ position: target, resolve, reject }));
    },
    status() {
      return {
        name,
        version,
        phase,
        position,
        checkpoint,
        startedFrom,
        lagMs: phase === 'live' && !behind ? 0 : Math.round(performance.now() - knewEverythingAt),
        ...(failure === undefined ? {} : { error: failure.message }),
      };
    },
    finished,
    snapshot() {
      // The state of a projection that threw may contain half of an event: the last complete snapshot is kept.
      if (failure !== undefined || logId === undefined || position === checkpoint) return undefined;
      if (projection.save === undefined || views === undefined || views.isReadOnly === true) return undefined;
      if (!changed) return { name, version, logId, position };
      return { name, version, logId, position, state: JSON.stringify(projection.save(state)) ?? 'null' };
    },
    saved(snapshot) {
      checkpoint = snapshot.position;
      changed = false;
    },
  };
}

/** Why this snapshot cannot be used, or undefined when it can. */
async function reasonToRebuild(log: EventLog, snapshot: Snapshot, version: number): Promise<string | undefined> {
  if (snapshot.version !== version) return `the snapshot is of version ${snapshot.version}, not ${version}`;
  if (snapshot.logId !== (await logIdOf(log))) return 'the snapshot is of another log';
  if (snapshot.position > (await log.head())) return 'the snapshot is newer than the log';
  return undefined;
}

/** The id of the log's first event, which identifies the log. Undefined while the log is empty. */
export async function logIdOf(log: EventLog): Promise<string | undefined> {
  for await (const event of log.readAll({ maxCount: 1 })) return event.id;
  return undefined;
}

function isAbort(error: unknown): boolean {
  return error instanceof Error && error.name === 'AbortError';
}
