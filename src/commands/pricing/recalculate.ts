/**
 * Prices recorded usage again. Recorded events are not changed: where the cost of an exchange differs now, a
 * correction is appended to its stream, with the previous cost. A second run with the same prices appends nothing.
 * The log is read as a stream, so memory is bounded whatever its length; the gateway keeps serving requests
 * meanwhile.
 */
import type { z } from 'zod';
import { usageRecalculated, usageRecorded } from '../../events/catalogue/exchange.ts';
import type { EventContext, RecordedEvent, UserPath } from '../../events/event.ts';
import { type EventLog, LogUnavailable, type StreamWrite, WrongExpectedRevision } from '../../events/log.ts';
import { readUsage, type TokenUsage } from '../model-request/usage.ts';
import { refusals } from '../refusal.ts';
import { timeSlices } from '../time-slices.ts';
import { PRICE_PER_CALL, type PricedUsage, type Pricing, RESERVATION, type UsageCost } from './pricing.ts';

export interface RecalculationScope {
  /** Milliseconds since the epoch: from `from`, inclusive, to `until`, exclusive. */
  readonly from?: number | undefined;
  readonly until?: number | undefined;
  /** This path and all paths below it. */
  readonly userPath?: UserPath | undefined;
  /** Any of these; `provider` may be a name or a type. */
  readonly models?: readonly { readonly provider: string; readonly model: string }[] | undefined;
}

export interface Recalculation {
  readonly scope: RecalculationScope;
  /** The context of the administrator's request. */
  readonly context: EventContext;
  /** Ends the run early; corrections made until then stay. */
  readonly signal: AbortSignal;
}

export interface Recalculated {
  /** `partial` when it was ended early. Another run does the rest. */
  readonly status: 'ok' | 'partial';
  /** How many recorded usages are in scope. */
  readonly matched: number;
  /** How many of them have another cost now. */
  readonly recalculated: number;
  readonly withPricing: number;
  readonly withoutPricing: number;
}

type Recorded = RecordedEvent<string, z.infer<typeof usageRecorded.data>>;

interface Waiting {
  readonly event: Recorded;
  readonly cost: UsageCost;
  readonly write: StreamWrite;
}

/** Corrections per append. */
const BATCH = 128;

interface RecalculationDependencies {
  readonly log: EventLog;
  readonly pricing: Pricing;
}

/** Runs work while no other gateway runs such work, with the log for it. @throws what `otherwise` returns */
type Alone = <Result>(work: (log: EventLog) => Promise<Result>, otherwise: () => Error) => Promise<Result>;

/**
 * @returns a function that runs one recalculation at a time
 * @throws (the function) Refusal 409 while one is running, and the errors of `recalculate`
 */
export function createRecalculator(pricing: Pricing, alone: Alone): (job: Recalculation) => Promise<Recalculated> {
  let running = false;
  return async (job) => {
    if (running) throw refusals.recalculationRunning();
    running = true;
    try {
      return await alone((log) => recalculate(job, { log, pricing }), refusals.recalculationRunning);
    } finally {
      running = false;
    }
  };
}

/** @throws Refusal 503 when the log cannot be written: earlier corrections stay */
export async function recalculate(
  { scope, context, signal }: Recalculation,
  { log, pricing }: RecalculationDependencies,
): Promise<Recalculated> {
  const run = new Run(log, pricing, context);
  try {
    for await (const event of log.readAll({ filter: { types: [usageRecalculated.type] }, signal })) {
      if (isRecalculated(event)) {
        run.corrections.note(event.data.usageId, { costs: event.data, revision: event.revision });
      }
      await run.letOthersWork();
    }
    for await (const event of log.readAll({ filter: { types: [usageRecorded.type] }, signal })) {
      if (signal.aborted) break;
      await run.letOthersWork();
      if (isRecorded(event) && isInScope(event, scope)) await run.price(event);
    }
    await run.append();
  } catch (error) {
    if (error instanceof LogUnavailable) throw refusals.logUnavailable(error);
    if (!(signal.aborted && error instanceof Error && error.name === 'AbortError')) throw error;
  }
  return { status: signal.aborted ? 'partial' : 'ok', ...run.counts };
}

class Run {
  readonly corrections = new NewestCorrections();
  readonly counts = { matched: 0, recalculated: 0, withPricing: 0, withoutPricing: 0 };
  readonly #log: EventLog;
  readonly #pricing: Pricing;
  readonly #admin: EventContext;
  #waiting: Waiting[] = [];
  readonly letOthersWork = timeSlices();

  constructor(log: EventLog, pricing: Pricing, admin: EventContext) {
    this.#log = log;
    this.#pricing = pricing;
    this.#admin = admin;
  }

  async price(event: Recorded): Promise<void> {
    const { counts } = this;
    counts.matched += 1;
    const { data } = event;
    // What a budget had reserved, and what a call of a tool cost, depends on no tokens.
    const isFixed =
      data.cacheType !== undefined || data.priceSource === RESERVATION || data.priceSource === PRICE_PER_CALL;
    const cost = isFixed ? data : this.#pricing.costOf(spentIn(data));
    if (cost.totalCost === null) counts.withoutPricing += 1;
    else counts.withPricing += 1;
    // The usage of a failed attempt is never the end of its stream. The usage of an answer nearly always is; where it
    // is not, the append fails on the expected revision.
    const known = data.failedAttempt === undefined ? this.corrections.of(event.id) : 'unsure';
    const last = known === 'unsure' ? await this.#lastWord(event) : known;
    const { costs, revision } = last ?? { costs: data, revision: event.revision };
    if (isSameCost(costs, cost)) return;
    this.#waiting.push({ event, cost, write: this.#correcting(event, cost, { costs, revision }) });
    if (this.#waiting.length === BATCH) await this.append();
  }

  #correcting(event: Recorded, cost: UsageCost, { costs, revision }: LastWord): StreamWrite {
    return {
      stream: event.stream,
      events: [usageRecalculated.create(correction(event, cost, costs), this.#contextOf(event))],
      expectedRevision: revision,
    };
  }

  /** The newest recorded cost of the usage, and the last revision of its stream. */
  async #lastWord(event: Recorded): Promise<LastWord> {
    let revision = event.revision;
    let isNewest = true;
    for await (const later of this.#log.readStream(event.stream, { direction: 'backwards' })) {
      if (isNewest) revision = later.revision;
      isNewest = false;
      if (isRecalculated(later) && later.data.usageId === event.id) return { costs: later.data, revision };
      if (later.revision === event.revision) break;
    }
    return { costs: event.data, revision };
  }

  async append(): Promise<void> {
    const waiting = this.#waiting;
    this.#waiting = [];
    if (waiting.length === 0) return;
    try {
      await this.#log.append(waiting.map(({ write }) => write));
      this.counts.recalculated += waiting.length;
    } catch (error) {
      if (!(error instanceof WrongExpectedRevision)) throw error;
      for (const one of waiting) await this.#appendOne(one);
    }
  }

  async #appendOne({ event, cost }: Waiting): Promise<void> {
    const last = await this.#lastWord(event);
    if (isSameCost(last.costs, cost)) return;
    try {
      await this.#log.append([this.#correcting(event, cost, last)]);
      this.counts.recalculated += 1;
    } catch (error) {
      // Another process changed the stream at the same moment: the next run corrects this usage.
      if (!(error instanceof WrongExpectedRevision)) throw error;
    }
  }

  /** The actor is the administrator; the user path is the one that spent the usage. */
  #contextOf({ context }: Recorded): EventContext {
    const { actor, requestId } = this.#admin;
    return { actor, userPath: context.userPath, requestId };
  }
}

function isInScope({ at, context, data }: Recorded, { from, until, userPath, models }: RecalculationScope): boolean {
  if ((from !== undefined && at < from) || (until !== undefined && at >= until)) return false;
  if (userPath !== undefined && userPath !== '/') {
    const path = context.userPath ?? '/';
    if (path !== userPath && !path.startsWith(`${userPath}/`)) return false;
  }
  if (models === undefined) return true;
  const { provider, providerType, model } = data;
  return models.some((one) => one.model === model && (one.provider === provider || one.provider === providerType));
}

/** The provider's raw report is parsed again, since an older gateway may have read fewer of its members. */
function spentIn(data: Recorded['data']): PricedUsage {
  const { provider, providerType, model, endpoint, inputCharacters, outputImages, partial, answers, calls } = data;
  const { estimated, estimatedInputTokens: inputTokens = 0, estimatedOutputTokens: outputTokens = 0 } = data;
  const usage: TokenUsage = data.raw === null ? data : readUsage(data.raw);
  return {
    provider,
    providerType,
    model,
    endpoint,
    usage,
    units: { inputCharacters, outputImages },
    ...(estimated === true ? { estimate: { inputTokens, outputTokens } } : {}),
    answers,
    calls,
    isPartial: partial,
  };
}

function correction(event: Recorded, cost: UsageCost, before: KnownCosts): z.infer<typeof usageRecalculated.data> {
  const { provider, providerType, model, endpoint, labels, sessionId } = event.data;
  const { inputCost, outputCost, totalCost, price, priceSource, caveat } = cost;
  return {
    provider,
    providerType,
    model,
    endpoint,
    labels,
    sessionId,
    usageId: event.id,
    usageAt: event.at,
    price,
    priceSource,
    inputCost,
    outputCost,
    totalCost,
    caveat,
    previousTotalCost: before.totalCost,
    previousPriceSource: before.priceSource,
  };
}

/** The same amounts at a price of another source are not a correction. */
function isSameCost(one: KnownCosts, other: KnownCosts): boolean {
  return one.totalCost === other.totalCost && one.inputCost === other.inputCost && one.outputCost === other.outputCost;
}

function isRecorded(event: RecordedEvent): event is Recorded {
  return event.type === usageRecorded.type;
}

function isRecalculated(event: RecordedEvent): event is RecordedEvent<string, z.infer<typeof usageRecalculated.data>> {
  return event.type === usageRecalculated.type;
}

/**
 * The cost of usages by their newest corrections, for one pass through the log. A limited number is kept; for further
 * ones only a probabilistic set is kept, so that memory is bounded, and the caller then has to read the stream.
 */
type KnownCosts = Pick<UsageCost, 'inputCost' | 'outputCost' | 'totalCost' | 'priceSource'>;

/** The current cost of a usage, and the last revision of its stream. */
interface LastWord {
  readonly costs: KnownCosts;
  readonly revision: bigint;
}

/** About 30 MB. */
const MAX_KEPT = 100_000;

export class NewestCorrections {
  readonly #kept = new Map<string, LastWord>();
  readonly #maxKept: number;
  #others: SeenNames | undefined;

  constructor(maxKept = MAX_KEPT) {
    this.#maxKept = maxKept;
  }

  /** Called in the log's order: a later correction replaces an earlier one. @param usage its id */
  note(usage: string, { costs, revision }: LastWord): void {
    if (this.#kept.size >= this.#maxKept && !this.#kept.has(usage)) {
      this.#others ??= new SeenNames();
      this.#others.add(usage);
      return;
    }
    const { inputCost, outputCost, totalCost, priceSource } = costs;
    this.#kept.set(usage, { costs: { inputCost, outputCost, totalCost, priceSource }, revision });
  }

  /** Undefined when the usage was never corrected; `unsure` when its stream has to be read. */
  of(usage: string): LastWord | 'unsure' | undefined {
    return this.#kept.get(usage) ?? (this.#others?.mayHave(usage) ? 'unsure' : undefined);
  }
}

/**
 * A set of names in two megabytes, however many there are: one bit per hash of a name. A name in the set is always
 * found; a few names outside it are reported as found too, so the caller has to verify a hit.
 */
const BITS = 24;

export class SeenNames {
  readonly #bits = new Uint8Array(2 ** (BITS - 3));

  add(name: string): void {
    const place = placeOf(name);
    this.#bits[place >>> 3] = this.#byte(place) | (1 << (place & 7));
  }

  mayHave(name: string): boolean {
    const place = placeOf(name);
    return (this.#byte(place) & (1 << (place & 7))) !== 0;
  }

  #byte(place: number): number {
    return this.#bits[place >>> 3] ?? 0;
  }
}

/** FNV-1a, folded to `BITS` bits. */
function placeOf(name: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < name.length; at++) hash = Math.imul(hash ^ name.charCodeAt(at), 0x01000193);
  return ((hash >>> BITS) ^ hash) & (2 ** BITS - 1);
}

// The models that a selector names, as recorded usage names them.

/** `provider` may be a name or a type. */
interface SelectedModel {
  readonly provider: string;
  readonly model: string;
}

export interface KnownModels {
  /** Whether a provider of that name or type exists. */
  knows(provider: string): boolean;
  /** The listed model of this selector. */
  find(selector: string): SelectedModel | undefined;
  /** The models behind an alias; undefined when it is not an alias. */
  behind(alias: string): readonly SelectedModel[] | undefined;
}

/**
 * An alias stands for all models that it leads to; `<provider>/<model>` may also name a model that no provider serves
 * any more.
 * @returns undefined for an unknown name without a provider
 */
export function selectedModels(selector: string, known: KnownModels): readonly SelectedModel[] | undefined {
  const behind = known.behind(selector);
  if (behind !== undefined) return behind;
  const slash = selector.indexOf('/');
  const isSplit = slash > 0 && slash < selector.length - 1;
  const written = { provider: selector.slice(0, slash), model: selector.slice(slash + 1) };
  if (isSplit && known.knows(written.provider)) return [written];
  const listed = known.find(selector);
  if (listed !== undefined) return [{ provider: listed.provider, model: listed.model }];
  return isSplit ? [written] : undefined;
}
