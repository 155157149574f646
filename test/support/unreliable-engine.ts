/** Any engine, of whose appends the answers can be lost. */
import {
  type EnginePlace,
  EngineUnavailable,
  type LogEngine,
  type PlaceState,
  type ReadBatch,
  type SequencedAppend,
} from '../../src/events/replicated/engine.ts';

export class UnreliableEngine implements LogEngine {
  readonly name: string;
  readonly maxAppendBytes: number;
  readonly #engine: LogEngine;
  /** Of each answer to lose: whether the appends are recorded. */
  readonly #lost: boolean[] = [];

  constructor(engine: LogEngine) {
    this.#engine = engine;
    this.name = engine.name;
    this.maxAppendBytes = engine.maxAppendBytes;
  }

  /** Makes the outcome of the next call of `append` that has events unknown. */
  loseAnswer(recorded: boolean): void {
    this.#lost.push(recorded);
  }

  open(hasEvents?: boolean): Promise<void> {
    return this.#engine.open(hasEvents);
  }

  async append(appends: readonly SequencedAppend[]): Promise<void> {
    const recorded = appends.some(({ writes }) => writes.length > 0) ? this.#lost.shift() : undefined;
    if (recorded !== false) await this.#engine.append(appends);
    if (recorded !== undefined) throw new EngineUnavailable('the answer was lost', 'unknown');
  }

  read(after: EnginePlace | undefined, signal: AbortSignal): AsyncIterable<ReadBatch> {
    return this.#engine.read(after, signal);
  }

  verify(place: EnginePlace | undefined): Promise<PlaceState> {
    return this.#engine.verify(place);
  }

  close(): Promise<void> {
    return this.#engine.close();
  }
}
