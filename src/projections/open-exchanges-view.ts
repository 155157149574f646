/**
 * The open exchanges, read by the start after a crash and by listeners of the live tail. A running gateway knows its
 * own open exchanges, so the fold starts with the first read. Until then a checkpoint is saved regularly: the position
 * before the oldest open exchange, where a fold has to begin.
 */
import type { Position } from '../events/event.ts';
import type { EventLog } from '../events/log.ts';
import { type InFlight, inFlight } from './in-flight.ts';
import { createProjectionRunner, type ProjectionRunner, type RunningProjection } from './runner.ts';
import { logIdOf, saveBound } from './snapshot-basis.ts';
import type { ViewStore } from './view-store.ts';

export interface OpenExchangesViewOptions {
  readonly log: EventLog;
  readonly views: ViewStore;
  readonly projections: ProjectionRunner;
  /** Before the first event of the oldest open exchange. */
  readonly foldFrom: () => Position;
  /** Default 5000. */
  readonly markEveryMs?: number;
  readonly onError: (error: unknown) => void;
}

/** Without leases: in files there is one gateway at a time, and its start names it as the heir of the last one. */
const nothingOpen = JSON.stringify(inFlight.save?.(inFlight.initial()));

export class OpenExchangesView implements Pick<RunningProjection<InFlight>, 'state' | 'position' | 'whenProcessed'> {
  readonly #options: OpenExchangesViewOptions;
  readonly #timer: NodeJS.Timeout;
  #running: RunningProjection<InFlight> | undefined;
  #logId: string | undefined;
  #marked: Position | undefined;

  constructor(options: OpenExchangesViewOptions) {
    this.#options = options;
    this.#timer = setInterval(() => void this.mark().catch(options.onError), options.markEveryMs ?? 5000);
    this.#timer.unref();
  }

  get state(): InFlight {
    return this.#run().state;
  }

  get position(): Position {
    return this.#run().position;
  }

  whenProcessed(position: Position): Promise<void> {
    return this.#run().whenProcessed(position);
  }

  /** Begins the fold now. Needed where other gateways have open exchanges, which the mark does not include. */
  follow(): void {
    this.#run();
  }

  /** Saves the position at which the next fold begins. @throws what SQLite throws when the disk is full */
  async mark(): Promise<void> {
    // After the first read the projection follows the log and is saved like any other.
    if (this.#running !== undefined) return;
    const { log, views, foldFrom } = this.#options;
    this.#logId ??= await logIdOf(log);
    const position = foldFrom();
    if (this.#logId === undefined || position === this.#marked || this.#running !== undefined) return;
    const { name, version } = inFlight;
    const snapshot = { name, version, logId: this.#logId, position, state: nothingOpen };
    if ((await saveBound(log, views, [snapshot])) !== undefined) this.#marked = position;
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #run(): RunningProjection<InFlight> {
    this.#running ??= this.#options.projections.run(inFlight);
    return this.#running;
  }
}

/**
 * Begins to read which exchanges are open, with the other projections.
 * @returns resolves with those that are open at the end of the log; to be called before this process begins one
 */
export function readOpenExchanges(
  log: EventLog,
  views: ViewStore,
  together: ProjectionRunner,
): () => Promise<InFlight> {
  const projections = createProjectionRunner(log, views, { together });
  const folded = projections.run(inFlight);
  return async () => {
    await folded.whenProcessed(await log.head());
    await projections.close();
    return folded.state;
  };
}
