/**
 * The cost of usage at a price. Pure and exact: everything is added up in whole pico-dollars, and each side is
 * rounded once, half a nano-dollar upwards. So the total is exactly the sum of its sides, and a sum of costs is off
 * by at most half a nano-dollar per side.
 */
import { isObject } from '../../json/is-object.ts';
import { contradictionIn, hasNoOutput, type TokenUsage, type Units } from '../model-request/usage.ts';
import type { Band, Price, Rates } from './model-pricing.ts';
import type { PricedUsage, UsageCost } from './pricing.ts';

const PICO_PER_NANO = 1000n;
/** Everything under these endpoints is charged as part of a batch. */
const BATCHES = new Set(['/v1/batches', '/v1/messages/batches']);

type Spent = Pick<PricedUsage, 'endpoint' | 'usage' | 'units' | 'answers' | 'calls' | 'isPartial'>;

/** One side of the bill, in pico-dollars; undefined when it is unknown. */
interface Side {
  readonly amount: bigint | undefined;
  /** Whether any rate applied to a count. */
  readonly charged: boolean;
}

export function costAt(price: Price, spent: Spent): UsageCost {
  const { usage, units, calls = 1, answers = calls } = spent;
  const band = bandFor(price, usage.inputTokens === null ? null : usage.inputTokens / answers);
  const { prices, isFree } = band;
  if (isFree) {
    return { inputCost: '0', outputCost: '0', totalCost: '0', price: prices, priceSource: price.source };
  }
  const asBatch = isBatch(spent.endpoint) || usage.raw?.service_tier === 'batch';
  const rates = asBatch ? batchRates(band.rates) : band.rates;
  const countsTokens = rates.input_per_mtok !== undefined || rates.output_per_mtok !== undefined;
  const input = inputSide(rates, spent, countsTokens);
  const output = outputSide(rates, usage, units, countsTokens);
  const known = input.charged || output.charged;
  const inputCost = known && input.amount !== undefined ? nanoDollars(input.amount) : null;
  const outputCost = known && output.amount !== undefined ? nanoDollars(output.amount) : null;
  return {
    inputCost: textOf(inputCost),
    outputCost: textOf(outputCost),
    totalCost: inputCost === null || outputCost === null ? null : (inputCost + outputCost).toString(),
    price: prices,
    priceSource: price.source,
    caveat: caveatOf(spent, band, { isBatch: asBatch, hasBands: price.bands.length > 1 }, { input, output }),
  };
}

/** Whether requests to the endpoint are charged as a part of a batch. */
export function isBatch(endpoint: string): boolean {
  return BATCHES.has(endpoint);
}

function bandFor({ bands }: Price, inputTokens: number | null): Band {
  const size = inputTokens ?? 0;
  const found = bands.find(({ upTo }) => size <= upTo);
  if (found === undefined) throw new Error('a price has a last band that is without end');
  return found;
}

function batchRates(rates: Rates): Rates {
  const { batch_input_per_mtok: input, batch_output_per_mtok: output } = rates;
  return {
    ...rates,
    ...(input === undefined ? {} : { input_per_mtok: input }),
    ...(output === undefined ? {} : { output_per_mtok: output }),
  };
}

/** @param countsTokens whether plain tokens have a price, so that a missing count leaves the cost unknown */
function inputSide(rates: Rates, { usage, units, calls = 1, answers = calls }: Spent, countsTokens: boolean): Side {
  const sum = new CostSum();
  sum.add(answers, rates.per_request);
  sum.add(usage.inputSeconds, rates.per_second_input);
  sum.add(units?.inputCharacters, rates.per_character_input);
  const { inputTokens } = usage;
  if (!countsTokens) return sum.side();
  if (inputTokens === null) return sum.side(isCharged(rates.input_per_mtok));
  const written = usage.cacheWriteInputTokens ?? 0;
  const forAnHour = Math.min(usage.cacheWrite1hInputTokens ?? 0, written);
  const apart =
    sum.add(usage.cachedInputTokens, rates.cached_input_per_mtok) +
    sum.add(written - forAnHour, rates.cache_write_per_mtok) +
    sum.add(forAnHour, rates.cache_write_1h_per_mtok ?? rates.cache_write_per_mtok) +
    sum.add(usage.audioInputTokens, rates.audio_input_per_mtok) +
    sum.add(usage.imageInputTokens, rates.image_input_per_mtok);
  return sum.rest(inputTokens - apart, rates.input_per_mtok);
}

function outputSide(rates: Rates, usage: TokenUsage, units: Units | undefined, countsTokens: boolean): Side {
  const sum = new CostSum();
  sum.add(units?.outputImages, rates.per_image);
  const { outputTokens } = usage;
  if (!countsTokens) return sum.side();
  if (outputTokens === null) return sum.side(!hasNoOutput(usage) && isCharged(rates.output_per_mtok));
  const apart =
    sum.add(usage.reasoningTokens, rates.reasoning_output_per_mtok) +
    sum.add(usage.audioOutputTokens, rates.audio_output_per_mtok) +
    sum.add(usage.imageOutputTokens, rates.output_image_per_mtok);
  return sum.rest(outputTokens - apart, rates.output_per_mtok);
}

class CostSum {
  #amount = 0n;
  #charged = false;

  /** @returns how many were charged at this rate and must not be charged again as plain tokens */
  add(count: number | null | undefined, rate: bigint | undefined): number {
    if (rate === undefined || count === null || count === undefined) return 0;
    this.#charged = true;
    if (count === 0) return 0;
    this.#amount += Number.isInteger(count) ? BigInt(count) * rate : (BigInt(Math.round(count * 1000)) * rate) / 1000n;
    return count;
  }

  /** Charges the remaining count at the plain rate; the side is unknown when there is a remainder and no such rate. */
  rest(count: number, rate: bigint | undefined): Side {
    if (rate === undefined) return this.side(count > 0);
    this.add(Math.max(0, count), rate);
    return this.side();
  }

  side(isUnknown = false): Side {
    return { amount: isUnknown ? undefined : this.#amount, charged: this.#charged };
  }
}

function isCharged(rate: bigint | undefined): boolean {
  return rate !== undefined && rate > 0n;
}

function nanoDollars(picoDollars: bigint): bigint {
  return (picoDollars + PICO_PER_NANO / 2n) / PICO_PER_NANO;
}

function textOf(amount: bigint | null): string | null {
  return amount === null ? null : amount.toString();
}

function caveatOf(
  { usage, isPartial, answers = 1 }: Spent,
  { rates }: Band,
  { isBatch, hasBands }: { readonly isBatch: boolean; readonly hasBands: boolean },
  { input, output }: { readonly input: Side; readonly output: Side },
): string | undefined {
  const caveats: string[] = [];
  if (usage.source === 'unknown') caveats.push('the provider reported no usage');
  else {
    if (input.amount === undefined) caveats.push('there is no rate for input, or its tokens are not reported');
    if (output.amount === undefined) caveats.push('there is no rate for output, or its tokens are not reported');
  }
  const contradiction = contradictionIn(usage);
  if (contradiction !== undefined) caveats.push(`the report contradicts itself: ${contradiction}`);
  if (isPartial === true && usage.source === 'provider') caveats.push('the answer broke off');
  if (hasBands && answers > 1) caveats.push(`priced by the average size of ${answers} answers`);
  const plain = chargedAtBaseRate(usage, rates);
  if (plain.length > 0) caveats.push(`without a rate of their own: ${plain.join(', ')}`);
  const unmapped = unmappedFields(usage.raw);
  if (unmapped.length > 0) caveats.push(`not priced: ${unmapped.join(', ')}`);
  const tier = usage.raw?.service_tier;
  if (isBatch ? rates.batch_input_per_mtok === undefined : isSpecialTier(tier)) {
    caveats.push(`service tier '${isBatch ? 'batch' : String(tier)}' priced as standard`);
  }
  const uncounted: string[] = [];
  for (const name of UNCOUNTED) if (isCharged(rates[name])) uncounted.push(name);
  if (uncounted.length > 0) caveats.push(`not counted: ${uncounted.join(', ')}`);
  return caveats.length === 0 ? undefined : caveats.join('; ');
}

/** Rates for which the gateway has no counts. */
const UNCOUNTED = ['input_per_image', 'per_second_output', 'per_page'] as const;

/** Counts without a rate of their own that every provider charges at a multiple of text. */
function chargedAtBaseRate(usage: TokenUsage, rates: Rates): string[] {
  const { audioInputTokens: heard, audioOutputTokens: spoken, imageOutputTokens: drawn } = usage;
  const found: string[] = [];
  if (rates.audio_input_per_mtok === undefined && (heard ?? 0) > 0) found.push('audio input tokens');
  if (rates.audio_output_per_mtok === undefined && (spoken ?? 0) > 0) found.push('audio output tokens');
  if (rates.output_image_per_mtok === undefined && (drawn ?? 0) > 0) found.push('image output tokens');
  return found;
}

function isSpecialTier(tier: unknown): boolean {
  return typeof tier === 'string' && tier !== '' && tier !== 'standard' && tier !== 'default' && tier !== 'auto';
}

// Counts in a provider's usage object for which the gateway has no price.

/** The counts that are read, and those that repeat them under other names. */
const known = new Set([
  'prompt_tokens',
  'completion_tokens',
  'input_tokens',
  'output_tokens',
  'total_tokens',
  'text_tokens',
  'cached_tokens',
  'cached_text_tokens',
  'cache_read_input_tokens',
  'cache_creation_input_tokens',
  'cache_write_tokens',
  'cache_write_1h_tokens',
  'cache_creation_tokens',
  'ephemeral_5m_input_tokens',
  'ephemeral_1h_input_tokens',
  'prompt_cache_hit_tokens',
  'prompt_cache_miss_tokens',
  'reasoning_tokens',
  'thinking_tokens',
  'audio_tokens',
  'image_tokens',
  'accepted_prediction_tokens',
  'rejected_prediction_tokens',
]);

/** Counts besides tokens that are charged, such as searches. */
const CHARGED_FIELDS = /token|search|server_tool/;

/** The names of the counts above 0, with the object that contains them. */
function unmappedFields(raw: Record<string, unknown> | null): string[] {
  const found: string[] = [];
  if (raw !== null) collect(raw, '', found);
  return found;
}

function collect(fields: Record<string, unknown>, prefix: string, found: string[]): void {
  for (const name in fields) {
    if (known.has(name)) continue;
    const value = fields[name];
    if (typeof value === 'number') {
      if (value > 0 && CHARGED_FIELDS.test(prefix === '' ? name : `${prefix}.${name}`)) {
        found.push(prefix === '' ? name : `${prefix}.${name}`);
      }
    } else if (prefix === '' && isObject(value)) collect(value, name, found);
  }
}

/**
 * The cost that a provider itself reports for a request. It is the billed amount, so it takes precedence over any
 * table.
 */
const NANO_PER_DOLLAR = 1e9;
/** A million dollars: a higher cost of one request is a mistake. */
const MAX_NANO = 1e15;
/** xAI counts in ten-thousand-millionths of a dollar ("Cost Tracking" in its documentation). */
const TICKS_PER_NANO = 10;

/**
 * OpenRouter: `cost` is taken from the account. With one's own key at the provider, that provider's bill is added, as
 * `cost_details.upstream_inference_cost`.
 * @returns nano-dollars; undefined when nothing is reported
 */
export function reportedCost(providerType: string, raw: Record<string, unknown> | null): string | undefined {
  if (raw === null) return undefined;
  if (providerType === 'xai') return reportedNanoDollars(raw.cost_in_usd_ticks, (ticks) => ticks / TICKS_PER_NANO);
  if (providerType !== 'openrouter') return undefined;
  const details = isObject(raw.cost_details) ? raw.cost_details.upstream_inference_cost : undefined;
  const upstream = raw.is_byok === true && typeof details === 'number' ? details : 0;
  return reportedNanoDollars(raw.cost, (dollars) => (dollars + upstream) * NANO_PER_DOLLAR);
}

function reportedNanoDollars(reported: unknown, inNano: (amount: number) => number): string | undefined {
  if (typeof reported !== 'number') return undefined;
  const amount = Math.round(inNano(reported));
  return amount >= 0 && amount <= MAX_NANO ? String(amount) : undefined;
}

/** Whether providers of this type report the cost of a request, so that it is known without a price table. */
export function reportsCost(providerType: string): boolean {
  return providerType === 'xai' || providerType === 'openrouter';
}
