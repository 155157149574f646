/** Many requests at once, over all gateways, under a budget that half of them fit into. The provider counts what it served. */
import { type Answer, objectOf, type ProviderCall, type SentRequest, type Violation } from '../evidence.ts';
import type { Random } from '../random.ts';
import { eventOf, type RecordedLog } from '../recorded-log.ts';
import type { SpreadWire } from './spread-wire.ts';

export const BUDGET_USD = 10;
/** In millionths of US dollars, of one token of an answer. What a request says costs nothing. */
const TOKEN = 5_000;
const REQUESTS = 200;
/** Afterwards, one after another: reservations that were given back are not to be spent twice. */
const LATER = 12;
const model = 'llamacpp/budgeted';

export interface Burst {
  readonly path: string;
  /** Whether nothing was disturbed meanwhile. */
  isQuiet: boolean;
  readonly statuses: Map<number | undefined, number>;
}

export interface BurstSum {
  bursts: number;
  requests: number;
  served: number;
  refused: number;
  /** The most that a provider has served under one budget, in US dollars. */
  mostServedUsd: number;
  /** The least under one budget without a disturbance. */
  leastServedUsd: number | undefined;
}

export function emptyBurstSum(): BurstSum {
  return { bursts: 0, requests: 0, served: 0, refused: 0, mostServedUsd: 0, leastServedUsd: undefined };
}

/** @throws when the gateway refuses the price */
export async function setPrice(wire: SpreadWire): Promise<void> {
  const pricing = { input_per_mtok: 0, output_per_mtok: TOKEN };
  const answer = await wire.ask(admin('PUT', '/admin/model-pricing-overrides', { selector: model, pricing }));
  if (answer.status !== 200) throw new Error(`${answer.status}: ${answer.body}`);
}

/** @returns undefined when the budget could not be set */
export async function budgetBurst(wires: readonly SpreadWire[], n: number, chance: Random): Promise<Burst | undefined> {
  const [wire] = wires;
  const path = `/budget/${n}`;
  const setting = await wire?.ask(
    admin('PUT', `/admin/budgets/${encodeURIComponent(path)}/daily`, { amount: BUDGET_USD }),
  );
  if (wire === undefined || setting?.status !== 200) return undefined;
  const statuses: Burst['statuses'] = new Map();
  const count = ({ status }: Answer) => statuses.set(status, (statuses.get(status) ?? 0) + 1);
  let sent = 0;
  const ask = async (through: SpreadWire) => {
    sent += 1;
    count(await through.ask(requestOf(path, `b${n}-${sent}`, chance)));
  };
  await Promise.all(Array.from({ length: REQUESTS }, (_, index) => ask(wires[index % wires.length] ?? wire)));
  for (let later = 0; later < LATER; later++) await ask(wire);
  return { path, isQuiet: false, statuses };
}

/** Answers of exactly `max_tokens` tokens. */
function requestOf(path: string, requestId: string, chance: Random): SentRequest {
  const stream = chance.happens(0.4);
  const json = {
    ...{ model, stream, max_tokens: chance.between(10, 30) },
    messages: [{ role: 'user', content: `Write 120 words about ${path}.` }],
    simulate: stream ? { paceMs: chance.between(1, 20) } : { headerDelayMs: chance.between(20, 500) },
  };
  return {
    ...{ route: 'chat', provider: 'llamacpp', stream, method: 'POST', path: '/v1/chat/completions', requestId },
    headers: { 'x-gateway-user-path': path },
    body: Buffer.from(JSON.stringify(json)),
  };
}

/** What the provider has served under the path, in US dollars: also answers that no gateway and no client received. */
export function servedUsd(path: string, calls: readonly ProviderCall[]): number {
  const own = calls.filter(({ body }) => body?.includes(`Write 120 words about ${path}.`));
  return own.reduce((sum, call) => sum + tokensOf(call) * TOKEN, 0) / 1_000_000;
}

/**
 * What providers may have served under the path and no event shows, in US dollars: the rest of the reservations of streams
 * that another gateway closed, and charged by the recorded text.
 */
export function notRecordedUsd(path: string, { exchanges }: Pick<RecordedLog, 'exchanges'>): number {
  let nano = 0;
  for (const exchange of exchanges.values()) {
    const [reserved, usage] = [eventOf(exchange, 'cost.reserved'), eventOf(exchange, 'usage.recorded')];
    if (exchange.events[0]?.context.userPath !== path || usage?.context.actor !== 'system') continue;
    const { estimated, totalCost } = usage.data as { estimated?: boolean; totalCost: string | null };
    const { amount } = (reserved?.data ?? { amount: '0' }) as { amount: string };
    if (estimated === true) nano += Math.max(0, Number(amount) - Number(totalCost));
  }
  return nano / 1_000_000_000;
}

function tokensOf({ body = '', isAnswered, framesSent }: ProviderCall): number {
  const most: unknown = objectOf(body)?.['max_tokens'];
  if (typeof most !== 'number') return Number.POSITIVE_INFINITY;
  // The first frame has no token.
  return isAnswered ? most : Math.min(most, Math.max(0, framesSent - 1));
}

export function checkBurst(
  { path, isQuiet, statuses }: Burst,
  calls: readonly ProviderCall[],
  sum: BurstSum,
  notRecorded = 0,
): Violation[] {
  const served = servedUsd(path, calls);
  sum.bursts += 1;
  for (const [status, count] of statuses) {
    sum.requests += count;
    if (status === 200) sum.served += count;
    if (status === 429) sum.refused += count;
  }
  sum.mostServedUsd = Math.max(sum.mostServedUsd, served);
  if (isQuiet) sum.leastServedUsd = Math.min(sum.leastServedUsd ?? served, served);
  const complain = (what: string) => [
    {
      check: 'budget',
      what: `budget of ${BUDGET_USD} USD at ${path}: the provider served ${served.toFixed(3)} USD (${what})`,
    },
  ];
  const answered = [...statuses].map(([status, count]) => `${count} × ${status}`).join(', ');
  if (served > BUDGET_USD + notRecorded) return complain(answered);
  // Each request needs less than a sixtieth of the budget.
  if (isQuiet && served < BUDGET_USD * LEAST) return complain(`${answered}; most of it was refused without a reason`);
  return [];
}

const LEAST = 0.8;

function admin(method: 'PUT', path: string, json: object): SentRequest {
  const facts = { route: 'retrieve', provider: 'llamacpp', stream: false, requestId: undefined } as const;
  return { ...facts, method, path, body: Buffer.from(JSON.stringify(json)) };
}
