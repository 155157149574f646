/** The usage reports, folded from the log in plain TypeScript: the REST answers must be the same, to the last unit. */
import { usageRecalculated, usageRecorded } from '../../src/events/catalogue/exchange.ts';
import type { EventLog } from '../../src/events/log.ts';

/** The usage at one time. Costs are nano-dollars; null is not known. */
export interface Used {
  readonly id: string;
  readonly at: number;
  readonly requestId: string;
  /** Empty without a managed key. */
  readonly keyId: string;
  readonly actor: string;
  readonly userPath: string;
  readonly model: string;
  readonly provider: string;
  readonly providerType: string;
  readonly labels: readonly string[];
  readonly sessionId: string;
  readonly cacheType: string;
  readonly requests: number;
  readonly input: number;
  readonly output: number;
  readonly total: number;
  readonly cached: number;
  readonly cacheWrite: number;
  readonly known: boolean;
  /** Nano-dollars that an answer from the response cache saved. */
  readonly saved: bigint | null;
  costs: Costs;
}

interface Costs {
  readonly input: bigint | null;
  readonly output: bigint | null;
  readonly total: bigint | null;
}

export async function usedOf(log: EventLog): Promise<Used[]> {
  const used = new Map<string, Used>();
  for await (const event of log.readAll()) {
    if (event.type === usageRecorded.type) {
      const data = usageRecorded.data.parse(event.data);
      const { actor, userPath = '', requestId = '' } = event.context;
      used.set(event.id, {
        id: event.id,
        at: event.at,
        requestId,
        keyId: actor.startsWith('key:') ? actor.slice(4) : '',
        actor,
        userPath,
        model: data.model,
        provider: data.provider,
        providerType: data.providerType,
        labels: data.labels ?? [],
        sessionId: data.sessionId ?? '',
        cacheType: data.cacheType ?? '',
        requests: data.failedAttempt === undefined ? 1 : 0,
        input: data.inputTokens ?? 0,
        output: data.outputTokens ?? 0,
        total: data.totalTokens ?? 0,
        cached: data.cachedInputTokens ?? 0,
        cacheWrite: data.cacheWriteInputTokens ?? 0,
        known: data.source === 'provider',
        saved: data.savedCost == null ? null : BigInt(data.savedCost),
        costs: costsOf(data),
      });
    } else if (event.type === usageRecalculated.type) {
      const data = usageRecalculated.data.parse(event.data);
      const one = used.get(data.usageId);
      if (one !== undefined) one.costs = costsOf(data);
    }
  }
  return [...used.values()];
}

function costsOf(data: { inputCost: string | null; outputCost: string | null; totalCost: string | null }): Costs {
  const nano = (cost: string | null) => (cost === null ? null : BigInt(cost));
  return { input: nano(data.inputCost), output: nano(data.outputCost), total: nano(data.totalCost) };
}

/** The day by the calendar of the zone, `YYYY-MM-DD`. */
export function localDay(at: number, timeZone: string): string {
  const format = new Intl.DateTimeFormat('en-CA', { timeZone, year: 'numeric', month: '2-digit', day: '2-digit' });
  return format.format(at);
}

export interface UsageFilterCase {
  readonly first: string;
  readonly last: string;
  readonly timeZone: string;
  readonly userPath?: string | undefined;
  readonly model?: string | undefined;
  readonly provider?: string | undefined;
  readonly label?: string | undefined;
  readonly session?: string | undefined;
}

/** The events that pass the filter, cached or not. */
export function matching(used: readonly Used[], filter: UsageFilterCase): Used[] {
  const { first, last, timeZone, userPath, model, provider, label, session } = filter;
  return used.filter((one) => {
    const day = localDay(one.at, timeZone);
    if (day < first || day > last) return false;
    const isBelow = userPath === undefined || userPath === '/' || `${one.userPath}/`.startsWith(`${userPath}/`);
    if (!isBelow || (model !== undefined && one.model !== model)) return false;
    if (provider !== undefined && one.provider !== provider && one.providerType !== provider) return false;
    return (label === undefined || one.labels.includes(label)) && (session === undefined || one.sessionId === session);
  });
}

export function inMode(used: readonly Used[], mode: string): Used[] {
  if (mode === 'all') return [...used];
  return used.filter(({ cacheType }) => (cacheType === '') === (mode === 'uncached'));
}

export function figuresOf(used: readonly Used[]) {
  const sum = (column: 'requests' | 'input' | 'output' | 'total' | 'cached' | 'cacheWrite') =>
    used.reduce((total, one) => total + one[column], 0);
  const cost = (kind: keyof Costs) => {
    const known = used.flatMap(({ cacheType, costs }) => (cacheType === '' ? (costs[kind] ?? []) : []));
    const requests = (isHit: boolean) =>
      used.reduce((sum, one) => sum + ((one.cacheType !== '') === isHit ? one.requests : 0), 0);
    const isKnown = known.length > 0 || (requests(false) === 0 && requests(true) > 0);
    return isKnown ? Number(known.reduce((total, one) => total + one, 0n)) / 1e9 : null;
  };
  return {
    requests: sum('requests'),
    input_tokens: sum('input'),
    uncached_input_tokens: sum('input') - sum('cached'),
    cached_input_tokens: sum('cached'),
    cache_write_input_tokens: sum('cacheWrite'),
    output_tokens: sum('output'),
    total_tokens: sum('total'),
    input_cost: cost('input'),
    output_cost: cost('output'),
    total_cost: cost('total'),
  };
}

export function summaryOf(used: readonly Used[]) {
  const of = figuresOf(used);
  return {
    total_requests: of.requests,
    total_input_tokens: of.input_tokens,
    uncached_input_tokens: of.uncached_input_tokens,
    cached_input_tokens: of.cached_input_tokens,
    cache_write_input_tokens: of.cache_write_input_tokens,
    total_output_tokens: of.output_tokens,
    total_tokens: of.total_tokens,
    total_input_cost: of.input_cost,
    total_output_cost: of.output_cost,
    total_cost: of.total_cost,
    rewrite_tokens_saved: 0,
    rewrite_cost_saved: null,
  };
}

/** A row for each group, with cached answers apart. */
export function breakdownOf(used: readonly Used[], mode: string) {
  const cached = inMode(used, 'cached');
  const answered = inMode(used, 'uncached');
  const { requests, input_tokens, output_tokens } = figuresOf(cached);
  const saved = cached.flatMap((one) => one.saved ?? []);
  const unpriced = figuresOf(answered).requests - answered.filter(({ costs }) => costs.total !== null).length;
  return {
    ...figuresOf(inMode(used, mode)),
    local_cached_input_tokens: input_tokens,
    local_cached_output_tokens: output_tokens,
    cache_hits: requests,
    saved_cost: requests > 0 && saved.length === 0 ? null : Number(saved.reduce((sum, one) => sum + one, 0n)) / 1e9,
    unpriced_requests: Math.max(0, unpriced),
  };
}
