/**
 * The cost of work that providers continue after their answer. It is recorded as soon as the gateway learns that the
 * work is over: when a client fetches the response or the batch, or when the gateway itself queries the provider.
 */
import type { EventLog, StreamWrite } from '../../events/log.ts';
import type { Provider } from '../../providers/provider.ts';
import type { Pricing } from '../pricing/pricing.ts';
import { type FileQuestion, type ResultFile, readLines, resultFiles } from '../provider-objects/batch-files.ts';
import { batchKindOf } from '../provider-objects/tracked.ts';
import { batchSpent } from './batch-spent.ts';
import type { OpenWork, OpenWorks, WorkOutcome } from './open-work.ts';
import { responseSpent } from './response-spent.ts';
import { settleWork, spentUnknown } from './settle-work.ts';
import { outcomeIn } from './work-end.ts';

export interface DeferredUsageDependencies {
  readonly log: EventLog;
  readonly pricing: Pricing;
  readonly works: OpenWorks;
  /** Called with the tokens of a response, once they are on record. */
  readonly countTokens: (work: OpenWork, tokens: number) => void;
}

type ProviderObjectMembers = Readonly<Record<string, unknown>>;

export class DeferredUsage {
  readonly #deps: DeferredUsageDependencies;
  /** Batches whose output is being read. */
  readonly #reading = new Map<string, Promise<unknown>>();

  constructor(deps: DeferredUsageDependencies) {
    this.#deps = deps;
  }

  /**
   * Appends `writes`, together with the cost of the response if its provider made it in the background and it is
   * over.
   * @throws LogUnavailable; WrongExpectedRevision of one of the writes
   */
  async responseSeen(
    provider: string,
    id: string,
    response: ProviderObjectMembers,
    writes: readonly StreamWrite[],
  ): Promise<void> {
    const { log, works } = this.#deps;
    const work = works.find('response', provider, id);
    const outcome = outcomeIn(response);
    if (work !== undefined && outcome !== undefined) {
      const spent = responseSpent(work, outcome, response);
      if (await settleWork(work, outcome, spent, this.#deps, writes)) {
        for (const { usage } of spent) if (usage.totalTokens !== null) this.#deps.countTokens(work, usage.totalTokens);
        return;
      }
    }
    if (writes.length > 0) await log.append(writes);
  }

  /**
   * Records the cost of a batch that is over, before its client learns where its output is.
   * @throws Refusal when the output cannot be read now; LogUnavailable
   */
  async settleBatch(provider: Provider, batch: ProviderObjectMembers, question: FileQuestion): Promise<void> {
    const { id } = batch;
    const work = typeof id === 'string' ? this.#deps.works.find('batch', provider.name, id) : undefined;
    const outcome = outcomeIn(batch);
    if (work === undefined || outcome === undefined) return;
    const settle = async () => {
      const read = ({ path }: ResultFile, onLine: (value: unknown) => void) =>
        readLines(provider, path, question, onLine);
      const files = resultFiles(batchKindOf(provider), batch);
      await settleWork(work, outcome, await batchSpent(work, files, read), this.#deps);
    };
    const settling = this.#reading.get(work.exchangeId) ?? settle();
    this.#reading.set(work.exchangeId, settling);
    try {
      await settling;
    } finally {
      this.#reading.delete(work.exchangeId);
    }
  }

  /** The cost can no longer be determined: the estimate is charged. @throws LogUnavailable */
  async settleAtEstimate(work: OpenWork, outcome: Extract<WorkOutcome, 'lost' | 'deleted'>): Promise<void> {
    await settleWork(work, outcome, spentUnknown(work), this.#deps);
  }

  find(kind: OpenWork['kind'], provider: string, id: string): OpenWork | undefined {
    return this.#deps.works.find(kind, provider, id);
  }
}
