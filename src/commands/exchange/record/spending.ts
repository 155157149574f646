/** The cost of an answer: noted on the record, and charged to the caller. */
import { ownOutputLimit } from '../../admission/cost-bound.ts';
import type { Ticket } from '../../model-request/admission.ts';
import type { DeferredWork, WorkPart } from '../../model-request/deferred-work.ts';
import type { ModelRequest } from '../../model-request/model-request.ts';
import type { ParsedRequest } from '../../model-request/parsed-request.ts';
import type { Target } from '../../model-request/target.ts';
import { callsFor, expectedOutput, promptTokens, requestedAnswers } from '../../model-request/token-estimate.ts';
import type { EstimatedTokens } from '../../model-request/units.ts';
import { withThinking } from '../../model-request/usage.ts';
import type { PricedUsage, Pricing, UsageCost } from '../../pricing/pricing.ts';
import type { ExchangeDialect } from '../dialect.ts';
import type { ExchangeRecord } from '../exchange-record.ts';
import type { Relay } from '../relay.ts';
import { noteDeferred, noteUsage } from './end-events.ts';

export interface Spender {
  readonly dialect: ExchangeDialect;
  readonly parsedRequest: ParsedRequest;
  readonly record: ExchangeRecord;
  readonly request: ModelRequest;
  readonly ticket: Ticket;
  readonly pricing: Pricing;
  /** Whether the workflow of the request records usage; if not, nothing is charged either. */
  readonly recordsUsage: boolean;
}

export interface SpendingFacts {
  readonly isPartial: boolean;
  /** Number of the failed attempt that spent it; undefined when the answer did. */
  readonly failedAttempt?: number;
  /** The estimate to charge when the provider did not report usage. */
  readonly estimate?: EstimatedTokens | undefined;
}

/** @param target the target that was called, which the ticket has entered */
export function noteSpending(
  { dialect, parsedRequest, record, request, ticket, pricing, recordsUsage }: Spender,
  { provider, model }: Target,
  relay: Pick<Relay, 'usage' | 'model' | 'answerId'>,
  { isPartial, failedAttempt, estimate }: SpendingFacts,
): void {
  if (!recordsUsage) return;
  const spent = {
    provider: provider.name,
    providerType: provider.type,
    model: model || (relay.model?.() ?? ''),
    endpoint: endpointOf(dialect, request.path),
    answerId: relay.answerId?.(),
    usage: relay.usage(),
    units: dialect.units?.(parsedRequest),
    calls: callsFor(dialect.endpoint, provider.type, parsedRequest.json),
    isPartial,
  };
  const passed = estimate === undefined ? undefined : dialect.passed?.();
  const limited = passed ?? { endpoint: dialect.endpoint, parsedRequest };
  const own = ownOutputLimit(limited.endpoint, limited.parsedRequest.json);
  const limit = ticket.outputLimit({ provider, model }) ?? own;
  const { charged, cost } = priced(spent, withinLimit(estimate, limit, limited.parsedRequest), pricing);
  noteUsage(record, charged, cost, request, failedAttempt);
  const isFailed = failedAttempt !== undefined;
  ticket.charge({ usage: charged.usage, estimate: charged.estimate, totalCost: cost.totalCost, isFailed });
}

/** No answer is estimated longer than the limit that its provider got. */
export function withinLimit(
  estimate: EstimatedTokens | undefined,
  limit: number | undefined,
  { json }: Pick<ParsedRequest, 'json'>,
): EstimatedTokens | undefined {
  if (estimate === undefined || limit === undefined) return estimate;
  return { ...estimate, outputTokens: Math.min(estimate.outputTokens, limit * requestedAnswers(json)) };
}

/** The endpoint under which usage is recorded: on a provider's own API, the path of the request. */
export function endpointOf({ name, endpoint }: Pick<ExchangeDialect, 'name' | 'endpoint'>, path: string): string {
  return name === 'passthrough' ? (path.split('?', 1)[0] ?? path) : endpoint;
}

/**
 * The estimate applies unless the cost is known without it: a price per request or per piece needs no tokens, and some
 * providers report the cost.
 */
export function priced(
  given: PricedUsage,
  estimate: EstimatedTokens | undefined,
  pricing: Pricing,
): { readonly charged: PricedUsage; readonly cost: UsageCost } {
  const spent = { ...given, usage: withThinking(given.usage, given.providerType) };
  const cost = pricing.costOf(spent);
  const isKnown =
    cost.totalCost !== null && (spent.usage.source === 'unknown' || cost.priceSource === 'provider_reported');
  if (estimate === undefined || isKnown) return { charged: spent, cost };
  const charged = { ...spent, estimate };
  return { charged, cost: pricing.costOf(charged) };
}

/**
 * The provider continues its work after the answer: its cost is recorded when it is over, and stays reserved until
 * then.
 */
export function noteDeferral(
  { dialect, parsedRequest, record, request, ticket, recordsUsage }: Spender,
  { provider, model }: Target,
  work: DeferredWork,
  relay: Pick<Relay, 'model'>,
): void {
  if (!recordsUsage) return;
  const named = model || (relay.model?.() ?? '');
  const facts = {
    provider: provider.name,
    providerType: provider.type,
    model: named,
    endpoint: endpointOf(dialect, request.path),
    reserved: ticket.defer(),
  };
  const parts = work.parts ?? (work.kind === 'response' ? [partOf(named, parsedRequest.json)] : undefined);
  noteDeferred(record, { ...work, parts }, facts, request);
}

/** The expected size of a response, charged if its provider never reports the usage. */
export function partOf(model: string, json: Readonly<Record<string, unknown>>): WorkPart {
  return { model, answers: 1, inputTokens: promptTokens(json), outputTokens: expectedOutput(json) };
}
