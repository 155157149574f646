/**
 * The cost of work that providers continue after their answer. It is recorded as soon as the gateway learns that the
 * work is over: when a client fetches the response or the batch, or when the gateway itself queries the provider.
 */

import { usageDeferred, usageSettled } from '../../events/catalogue/exchange.ts';
import { type EventContext, type NewEvent, type StreamName, streamName } from '../../events/event.ts';
import { type EventLog, type StreamWrite, WrongExpectedRevision } from '../../events/log.ts';
import { isObject } from '../../json/is-object.ts';
import type { OpenWork } from '../../projections/deferred-usage.ts';
import type { Provider } from '../../providers/provider.ts';
import { usageEvent } from '../exchange/record/end-events.ts';
import { missingTokens } from '../exchange/record/spending.ts';
import {
  isCounted,
  isReported,
  promptTokens,
  readUsage,
  type TokenUsage,
  tokensInText,
  unknownUsage,
} from '../model-request/usage.ts';
import type { PricedUsage, Pricing } from '../pricing/pricing.ts';
import {
  answerIn,
  type FileQuestion,
  type ResultFile,
  readLines,
  resultFiles,
} from '../provider-objects/ask-provider.ts';
import { batchKindOf } from '../provider-objects/tracked.ts';
import { type OpenWorks, outcomeIn, type WorkOutcome } from './open-work.ts';

interface DeferredUsageDependencies {
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

/** Reads a file line by line. @returns false when the file does not exist. @throws Refusal */
type ReadLines = (file: ResultFile, onLine: (value: unknown) => void) => Promise<boolean>;

type Count = Exclude<keyof TokenUsage, 'source' | 'raw' | 'inputSeconds' | 'byCall'>;
const counts = Object.keys(unknownUsage).filter((name): name is Count => name !== 'source' && name !== 'raw');

interface Sum {
  answers: number;
  usage: TokenUsage;
}

/**
 * An answer without usage is charged by its estimate. So is every answer of a batch whose output is gone.
 * @throws Refusal when the provider cannot be reached now
 */
async function batchSpent(
  work: OpenWork,
  files: readonly ResultFile[],
  readLines: ReadLines,
): Promise<readonly WorkSpent[]> {
  const sums = new Map<string, Sum>();
  const unreported = new Map<string, number>();
  const onLine = (line: unknown): void => {
    const response = answerIn(line);
    if (!isObject(response?.body)) return;
    const { model: reportedModel, usage: raw } = response.body;
    const model = requestedModelIn(work, typeof reportedModel === 'string' ? reportedModel : '');
    const usage = readUsage(raw);
    if (isCounted(usage)) add(sums, model, usage);
    else if (Number(response.status) < 400) unreported.set(model, (unreported.get(model) ?? 0) + 1);
  };
  let isOutputGone = false;
  for (const file of files) if (!(await readLines(file, onLine))) isOutputGone ||= file.isOutput;
  if (isOutputGone) return spentUnknown(work);
  return [
    ...[...sums].map(([model, { answers, usage }]) => ({ model, usage, answers })),
    ...[...unreported].map(([model, answers]) => estimated(work, model, answers)),
  ];
}

function add(sums: Map<string, Sum>, model: string, usage: TokenUsage): void {
  const sum = sums.get(model);
  // Provider-specific usage besides the counts cannot be summed.
  if (sum === undefined) sums.set(model, { answers: 1, usage: { ...usage, raw: null } });
  else {
    const total = Object.fromEntries(counts.map((name) => [name, plus(sum.usage[name], usage[name])]));
    sums.set(model, { answers: sum.answers + 1, usage: { ...sum.usage, ...total } });
  }
}

function plus(one: number | null, other: number | null): number | null {
  return one === null && other === null ? null : (one ?? 0) + (other ?? 0);
}

/** Answers name a version, such as `gpt-4o-2024-08-06`; prices are those of the requested model. */
function requestedModelIn({ parts = [] }: OpenWork, reportedModel: string): string {
  const [only] = parts;
  if (parts.length === 1 && only !== undefined) return only.model;
  const matchingModels = parts
    .map(({ model }) => model)
    .filter((model) => reportedModel === model || reportedModel.startsWith(`${model}-`));
  return matchingModels.sort((one, other) => other.length - one.length)[0] ?? reportedModel;
}

function estimated({ parts = [] }: OpenWork, model: string, answers: number): WorkSpent {
  const part = parts.find((one) => one.model === model);
  if (part === undefined) return { model, usage: unknownUsage, answers };
  const share = Math.min(1, answers / part.answers);
  const inputTokens = Math.ceil(part.inputTokens * share);
  const outputTokens = Math.ceil(part.outputTokens * share);
  return { model, usage: unknownUsage, answers, estimate: { inputTokens, outputTokens } };
}

/** The usage of one model. */
type WorkSpent = Pick<PricedUsage, 'model' | 'usage' | 'answers' | 'estimate'>;

interface SettleDependencies {
  readonly log: Pick<EventLog, 'append' | 'readStream'>;
  readonly pricing: Pricing;
}

/**
 * Records the cost of the work and its end, together with `others`.
 * @returns whether this call recorded it: when another call did so before, nothing is appended
 * @throws LogUnavailable; WrongExpectedRevision of one of the others
 */
async function settleWork(
  work: OpenWork,
  outcome: WorkOutcome,
  spent: readonly WorkSpent[],
  { log, pricing }: SettleDependencies,
  others: readonly StreamWrite[] = [],
): Promise<boolean> {
  const stream = streamName('exchange', work.exchangeId);
  const events = eventsOf(work, outcome, spent, pricing);
  for (;;) {
    const revision = await unsettledRevision(stream, log);
    if (revision === undefined) return false;
    try {
      await log.append([{ stream, events, expectedRevision: revision }, ...others]);
      return true;
    } catch (error) {
      // The stream was changed by a correction of an attempt's cost, or by another call that recorded the end: it is
      // read again.
      if (!(error instanceof WrongExpectedRevision) || error.stream !== stream) throw error;
    }
  }
}

/** Undefined when the cost of the work is on record already. */
async function unsettledRevision(stream: StreamName, log: SettleDependencies['log']): Promise<bigint | undefined> {
  let newest: bigint | undefined;
  for await (const event of log.readStream(stream, { direction: 'backwards' })) {
    newest ??= event.revision;
    if (event.type === usageSettled.type) return undefined;
    if (event.type === usageDeferred.type) return newest;
  }
  return undefined;
}

function eventsOf(work: OpenWork, outcome: WorkOutcome, spent: readonly WorkSpent[], pricing: Pricing): NewEvent[] {
  const { kind, workId, actor, userPath, requestId, provider, providerType, endpoint } = work;
  const context: EventContext = { actor, userPath, requestId };
  const usages = spent.map((one) => {
    const priced = { ...one, provider, providerType, endpoint, answerId: workId };
    return usageEvent(context, priced, pricing.costOf(priced), work);
  });
  return [...usages, usageSettled.create({ kind, workId, outcome }, context)];
}

/** The charge for work of which only the request is known. */
function spentUnknown({ model, parts }: OpenWork): readonly WorkSpent[] {
  if (parts === undefined) return [{ model, usage: unknownUsage }];
  return parts.map(({ model: named, answers, inputTokens, outputTokens }) => ({
    model: named,
    usage: unknownUsage,
    answers,
    estimate: { inputTokens, outputTokens },
  }));
}

/**
 * A failed response costs nothing, unless its provider reports a cost. A cancelled one may have been generated to its
 * end: it is charged by the estimate, or by its reported usage if that is more.
 */
export function responseSpent(
  { model, parts }: OpenWork,
  outcome: WorkOutcome,
  response: Readonly<Record<string, unknown>>,
): readonly WorkSpent[] {
  const usage = readUsage(response.usage);
  if (isReported(usage)) return [{ model, usage }];
  if (outcome === 'failed') return [];
  const inputTokens = parts?.reduce((sum, part) => sum + part.inputTokens, 0) ?? 0;
  const expected = parts?.reduce((sum, part) => sum + part.outputTokens, 0) ?? 0;
  const estimatedTokens = tokensSaid(response.output);
  const outputTokens = outcome === 'cancelled' ? Math.max(estimatedTokens, expected) : estimatedTokens;
  return [{ model, usage, estimate: missingTokens(usage, inputTokens, outputTokens, true) }];
}

function tokensSaid(output: unknown): number {
  if (!Array.isArray(output)) return 0;
  return output.reduce<number>((sum, item) => sum + (isObject(item) ? itemTokens(item) : 0), 0);
}

function itemTokens({ content, summary, arguments: call }: Readonly<Record<string, unknown>>): number {
  if (typeof call === 'string') return tokensInText(call);
  return promptTokens([content, summary].flat().map((part) => (isObject(part) ? part.text : undefined)));
}
