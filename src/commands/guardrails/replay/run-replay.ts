/**
 * One run of a draft over the recorded requests of a range. The log is read once as a stream, so
 * memory is bounded whatever the length of the log; other work runs every few milliseconds. Nothing is changed, and
 * providers are called only for the sample.
 */
import { usageRecorded } from '../../../events/catalogue/exchange.ts';
import { formatPosition, parsePosition, streamName } from '../../../events/event.ts';
import type { EventLog } from '../../../events/log.ts';
import type { GuardrailSteps } from '../../exchange/policy.ts';
import type { ReplayDependencies } from '../../exchange/record/replay-answer.ts';
import { tokensInText } from '../../model-request/usage.ts';
import type { ModelRates } from '../../pricing/pricing.ts';
import { timeSlices } from '../../time-slices.ts';
import { WorkflowIndex } from '../../workflows/directory.ts';
import { scopeKey, type WorkflowScope } from '../../workflows/workflow.ts';
import { type GuardrailServices, type ModelCall, ModelCallFailed } from '../guardrail-type.ts';
import type { CheckedDraft, OtherServices } from './draft.ts';
import { evaluateExchange } from './evaluate-exchange.ts';
import {
  exchangesIn,
  type LogRange,
  logRange,
  placeIn,
  type ReplayedExchange,
  type ReplayRange,
  readReplayed,
  requestsIn,
} from './recorded-requests.ts';
import { ReplayFigures, type ReplayResult } from './result.ts';

export interface ReplayOptions {
  readonly range: ReplayRange;
  /** Most requests on which guardrails run that call a model or a server. 0: those guardrails do not run. */
  readonly sample: number;
  /** US dollars: no calls when their estimate is higher, or unknown. Undefined: any cost. */
  readonly maxCost?: number | undefined;
  readonly maxRequests: number;
}

export const replayLimits = {
  requests: { usual: 10_000, most: 100_000 },
  sample: { usual: 0, most: 500 },
} as const;

export interface RunDependencies extends ReplayDependencies {
  /** The scopes of the workflows in force: requests that one of them matches better are not of the draft. */
  readonly scopes: Iterable<WorkflowScope>;
  readonly ratesOf: RatesOf;
}

export interface ReplayProgress {
  /** `estimating` before guardrails that call a model or a server may run. */
  readonly stage: 'estimating' | 'running';
  /** From 0 to 1. */
  readonly done: number;
}

/** Short, because a run may take minutes beside requests. */
const SLICE_MS = 2;
/** The user path of the calls of all runs. */
const CALLS_PATH = '/guardrail-replays';

export class ReplayRun {
  readonly #id: string;
  readonly #draft: CheckedDraft;
  readonly #options: ReplayOptions;
  readonly #deps: RunDependencies;
  readonly #figures = new ReplayFigures();
  readonly #index: WorkflowIndex<'draft' | 'other'>;
  readonly #letOthersWork = timeSlices(SLICE_MS);
  #progress: ReplayProgress = { stage: 'running', done: 0 };

  constructor(id: string, draft: CheckedDraft, options: ReplayOptions, deps: RunDependencies) {
    this.#id = id;
    this.#draft = draft;
    this.#options = options;
    this.#deps = deps;
    const own = scopeKey(draft.scope);
    const others = [...deps.scopes].filter((scope) => scopeKey(scope) !== own);
    this.#index = new WorkflowIndex([...others.map((scope) => [scope, 'other'] as const), [draft.scope, 'draft']]);
  }

  get progress(): ReplayProgress {
    return this.#progress;
  }

  /** What was evaluated so far. */
  result(): ReplayResult {
    return this.#figures.result();
  }

  /** Returns early when the signal is aborted. @throws the errors of reading the log */
  async run(signal: AbortSignal): Promise<void> {
    const { range, maxRequests } = this.#options;
    const { log } = this.#deps;
    const within = await logRange(range, log);
    const pure = this.#draft.pure();
    const sampled = this.#draft.hasCalls ? await this.#sample(within, signal) : new Set<string>();
    const counter = new ModelCallCounter(this.#deps.ratesOf);
    const full = sampled.size === 0 ? pure : this.#draft.withCalls(counter.counting(this.#path), 'all');
    this.#progress = { stage: 'running', done: 0 };
    const reading = { log, signal, letOthersWork: this.#letOthersWork };
    for await (const exchange of exchangesIn(range, within, reading)) {
      const { received } = exchange.recorded;
      this.#progress = { stage: 'running', done: placeIn(within, received) };
      if (this.#figures.requests >= maxRequests) {
        this.#figures.truncatedAt = received.at;
        break;
      }
      if (!this.#isOfDraft(exchange)) {
        this.#figures.noteOtherWorkflow();
        continue;
      }
      const isSampled = sampled.has(exchange.recorded.id) && !this.#isSpent(counter);
      await this.#evaluate(exchange, isSampled ? full : pure, signal, isSampled);
    }
    const { sample } = this.#figures;
    if (sample?.state !== 'evaluated') return;
    this.#figures.sample = { ...sample, calls: counter.calls, cost: await recordedCost(counter.exchanges, log) };
  }

  async #evaluate(exchange: ReplayedExchange, steps: GuardrailSteps, signal: AbortSignal, isSampled: boolean) {
    const evaluated = await evaluateExchange(exchange, steps, this.#evaluation, signal);
    if (signal.aborted) return;
    const { sample } = this.#figures;
    if (isSampled && sample !== undefined) this.#figures.sample = { ...sample, evaluated: sample.evaluated + 1 };
    if (typeof evaluated === 'string') this.#figures.noteObstacle(evaluated);
    else this.#figures.note(exchange, evaluated);
  }

  /** Chooses the sample and estimates its cost. Empty when the calls may not be made. */
  async #sample(within: Parameters<typeof placeIn>[0], signal: AbortSignal): Promise<ReadonlySet<string>> {
    const { range, sample: size, maxCost } = this.#options;
    const nothing = { size, evaluated: 0, calls: 0, estimatedCost: null, cost: null };
    this.#figures.sample = { ...nothing, state: size === 0 ? 'not_requested' : 'estimating' };
    if (size === 0) return new Set();
    this.#progress = { stage: 'estimating', done: 0 };
    const counter = new ModelCallCounter(this.#deps.ratesOf);
    const calling = this.#draft.withCalls((services) => counter.estimating(services), 'calling');
    const { log } = this.#deps;
    const isOfDraft = (exchange: ReplayedExchange) => this.#isOfDraft(exchange);
    const options = { range, within, size, log, signal, isOfDraft, letOthersWork: this.#letOthersWork };
    const chosen = new Set<string>();
    for await (const exchange of sampledRequests(options)) {
      await evaluateExchange(exchange, calling, this.#evaluation, signal);
      chosen.add(exchange.recorded.id);
      this.#progress = { stage: 'estimating', done: chosen.size / size };
    }
    const { dollars } = counter;
    const estimatedCost = dollars === undefined ? null : nanoDollars(dollars);
    const isTooMuch = maxCost !== undefined && (dollars === undefined || dollars > maxCost);
    const state = !isTooMuch ? 'evaluated' : dollars === undefined ? 'price_unknown' : 'too_expensive';
    this.#figures.sample = { ...nothing, size: chosen.size, state, estimatedCost };
    return isTooMuch ? new Set() : chosen;
  }

  get #evaluation() {
    return { ...this.#deps, letOthersWork: this.#letOthersWork };
  }

  get #path(): string {
    return `${CALLS_PATH}/${this.#id}`;
  }

  #isOfDraft({ recorded, target }: ReplayedExchange): boolean {
    const { userPath } = recorded.received.context;
    return this.#index.find(userPath, target?.provider, target?.model) === 'draft';
  }

  #isSpent({ dollars }: ModelCallCounter): boolean {
    const { maxCost } = this.#options;
    return maxCost !== undefined && (dollars === undefined || dollars > maxCost);
  }
}

/** In nano-dollars; null when the cost of one of the exchanges is unknown. */
async function recordedCost(exchanges: readonly string[], log: EventLog): Promise<string | null> {
  let sum = 0n;
  for (const id of exchanges) {
    for await (const { type, data } of log.readStream(streamName('exchange', id))) {
      if (type !== usageRecorded.type) continue;
      const { totalCost } = usageRecorded.data.parse(data);
      if (totalCost === null) return null;
      sum += BigInt(totalCost);
    }
  }
  return String(sum);
}

function nanoDollars(dollars: number): string {
  return String(BigInt(Math.ceil(dollars * 1e9)));
}

/**
 * The requests on which guardrails run that call a model or a server: spread evenly over the range, chosen before the
 * run so that its cost can be estimated.
 */
interface SampleOptions {
  readonly range: ReplayRange;
  readonly within: LogRange;
  readonly size: number;
  readonly log: EventLog;
  readonly signal: AbortSignal;
  isOfDraft(exchange: ReplayedExchange): boolean;
  letOthersWork(): Promise<void>;
}

/** Requests that are read to find one of a part of the range. */
const MOST_READ = 200;

/** One request from each of `size` parts of the range, where there is one. */
async function* sampledRequests(options: SampleOptions): AsyncGenerator<ReplayedExchange> {
  const { range, within, size, log, signal, isOfDraft, letOthersWork } = options;
  const begin = parsePosition(within.after);
  const length = parsePosition(within.last) - begin;
  const known = new Set<string>();
  for (let part = 0; part < size && !signal.aborted; part++) {
    const first = begin + Math.floor((length * part) / size);
    let read = 0;
    for await (const event of requestsIn(range, within, { log, signal }, formatPosition(first))) {
      await letOthersWork();
      read += 1;
      if (read > MOST_READ) break;
      if (known.has(event.stream)) continue;
      const exchange = await readReplayed(event.stream, log);
      if (exchange === undefined || !isOfDraft(exchange)) continue;
      known.add(event.stream);
      yield exchange;
      break;
    }
  }
}

/** The services of guardrails in a run: their calls are counted, priced before and after, and made at one user path. */
type RatesOf = (call: Pick<ModelCall, 'model' | 'provider'>) => ModelRates | undefined;

class ModelCallCounter {
  readonly #ratesOf: RatesOf;
  readonly #exchanges: string[] = [];
  #calls = 0;
  #dollars: number | undefined = 0;

  constructor(ratesOf: RatesOf) {
    this.#ratesOf = ratesOf;
  }

  get calls(): number {
    return this.#calls;
  }

  /** The exchanges that are the records of the calls. */
  get exchanges(): readonly string[] {
    return this.#exchanges;
  }

  /** US dollars; undefined when the price of a model is unknown. */
  get dollars(): number | undefined {
    return this.#dollars;
  }

  /** Services that call nothing: each call counts with the longest answer that it allows. */
  estimating(services: GuardrailServices): GuardrailServices {
    return {
      ...services,
      callModel: async (call) => {
        this.#note(call, call.maxTokens);
        return { text: '{"verdict":"allow"}', isCut: false, exchangeId: '' };
      },
      // Of an analyzer that finds nothing.
      fetch: async () => ({ status: 200, text: async () => '[]' }),
    };
  }

  /** The services with their calls counted, all below `path`. */
  counting(path: string): OtherServices {
    return (services) => ({
      ...services,
      callModel: async (call) => {
        const { userPath } = call;
        const own = `${path}${userPath.slice(userPath.lastIndexOf('/guardrails/'))}`;
        try {
          const answer = await services.callModel({ ...call, userPath: own });
          this.#note(call, tokensInText(answer.text), answer.exchangeId);
          return answer;
        } catch (error) {
          const exchangeId = error instanceof ModelCallFailed ? error.exchangeId : undefined;
          if (exchangeId !== undefined) this.#note(call, 0, exchangeId);
          throw error;
        }
      },
    });
  }

  #note(call: ModelCall, outputTokens: number, exchangeId?: string): void {
    this.#calls += 1;
    if (exchangeId !== undefined) this.#exchanges.push(exchangeId);
    const rates = this.#ratesOf(call);
    const inputTokens = call.messages.reduce((sum, { content }) => sum + tokensInText(content), 0);
    const dollars = rates === undefined ? undefined : costOf(rates, inputTokens, outputTokens);
    this.#dollars = dollars === undefined || this.#dollars === undefined ? undefined : this.#dollars + dollars;
  }
}

function costOf({ inputPerMtok, outputPerMtok, perRequest }: ModelRates, input: number, output: number) {
  if (inputPerMtok === undefined || outputPerMtok === undefined) return undefined;
  return (input * inputPerMtok + output * outputPerMtok) / 1e6 + perRequest;
}
