/** What an answer cost: noted on the record, and charged to whoever asked. */
import type { Pricing } from '../pricing/pricing.ts';
import type { Ticket } from './admission.ts';
import type { ModelRequest } from './client.ts';
import type { Asked, ExchangeDialect, Target } from './dialect.ts';
import { noteUsage } from './end-events.ts';
import type { ExchangeRecord } from './exchange-record.ts';
import type { Relay } from './relay.ts';

export interface Spender {
  readonly dialect: ExchangeDialect;
  readonly asked: Asked;
  readonly record: ExchangeRecord;
  readonly request: ModelRequest;
  readonly ticket: Ticket;
  readonly pricing: Pricing;
}

/**
 * @param target who was asked, and is the one the ticket has entered
 * @param failedAttempt when it is not of the answer, but of an attempt that failed
 */
export function noteSpending(
  { dialect, asked, record, request, ticket, pricing }: Spender,
  { provider, model }: Target,
  relay: Pick<Relay, 'usage' | 'model'>,
  { isPartial, failedAttempt }: { readonly isPartial: boolean; readonly failedAttempt?: number },
): void {
  const usage = relay.usage();
  const spent = {
    provider: provider.name,
    providerType: provider.type,
    model: model || (relay.model?.() ?? ''),
    endpoint: dialect.endpoint,
    usage,
    units: dialect.units?.(asked),
    isPartial,
  };
  const cost = pricing.costOf(spent);
  noteUsage(record, spent, cost, request, failedAttempt);
  ticket.charge({ usage, totalCost: cost.totalCost, isFailed: failedAttempt !== undefined });
}
