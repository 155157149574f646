/** Recorded answers, ready to be sent again: read from the log at the first hit and kept in a bounded memory. */
import { LRUCache } from 'lru-cache';
import type { z } from 'zod';
import { exchangeCompleted, usageRecorded } from '../../../events/catalogue/exchange.ts';
import { streamName } from '../../../events/event.ts';
import type { CachedContent } from '../answer-source.ts';
import { type ReplayDependencies, recordedTemplate } from '../record/replay-answer.ts';

type RecordedUsage = z.infer<typeof usageRecorded.data>;

/** Estimate of what an entry takes besides its bytes. */
const ENTRY_BYTES = 2_000;

export class CachedAnswers {
  readonly #deps: ReplayDependencies;
  readonly #ready: LRUCache<string, CachedContent>;
  readonly #loading = new Map<string, Promise<CachedContent | undefined>>();

  constructor(deps: ReplayDependencies, maxMemoryBytes: number) {
    this.#deps = deps;
    this.#ready = new LRUCache({
      maxSize: Math.max(1, maxMemoryBytes),
      sizeCalculation: ({ template }) => template.bytes + ENTRY_BYTES,
    });
  }

  /** @returns undefined when the answer cannot be reissued. @throws the errors of reading the log */
  of(exchangeId: string): CachedContent | Promise<CachedContent | undefined> {
    const ready = this.#ready.get(exchangeId);
    if (ready !== undefined) return ready;
    const begun = this.#loading.get(exchangeId);
    if (begun !== undefined) return begun;
    const loading = loadContent(exchangeId, this.#deps)
      .then((content) => {
        if (content !== undefined) this.#ready.set(exchangeId, content);
        return content;
      })
      .finally(() => this.#loading.delete(exchangeId));
    this.#loading.set(exchangeId, loading);
    return loading;
  }
}

async function loadContent(exchangeId: string, deps: ReplayDependencies): Promise<CachedContent | undefined> {
  const template = await recordedTemplate(exchangeId, deps, new AbortController().signal);
  return template?.facts.isWhole === true ? { template, ...(await accountOf(exchangeId, deps)) } : undefined;
}

/** The usage of the answer itself, not of attempts that failed before. */
async function accountOf(exchangeId: string, { log }: ReplayDependencies) {
  let usage: RecordedUsage | undefined;
  let finishReason: string | null = null;
  for await (const { type, data } of log.readStream(streamName('exchange', exchangeId))) {
    if (type === usageRecorded.type) {
      const recorded = data as RecordedUsage;
      if (recorded.failedAttempt === undefined) usage = recorded;
    }
    if (type === exchangeCompleted.type) finishReason = (data as z.infer<typeof exchangeCompleted.data>).finishReason;
  }
  return { usage, finishReason };
}
