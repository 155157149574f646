/** Events of reservations at chosen times, without a log. */
import {
  costReserved,
  exchangeFailed,
  requestRefused,
  usageDeferred,
  usageSettled,
} from '../../src/events/catalogue/exchange.ts';
import { type NewEvent, type RecordedEvent, streamName, type UserPath } from '../../src/events/event.ts';
import { at } from './history.ts';

const spentOn = { provider: 'local', providerType: 'llamacpp', model: 'tiny', endpoint: '/v1/chat/completions' };
export const context = (userPath: string) => ({ actor: 'master' as const, userPath: userPath as UserPath });

const failure = { status: 503, type: 'internal_error', code: null, message: '', chunks: 0, durationMs: 0 };
const failed = exchangeFailed.create({ ...failure, reason: 'provider_error' }, { actor: 'master' });
/** By another gateway, which does not know what the provider has served. */
export const interrupted = exchangeFailed.create({ ...failure, reason: 'gateway_stopped' }, { actor: 'system' });
export const refused = requestRefused.create(
  { status: 429, type: 'rate_limit_error', code: 'budget_exceeded', param: null, message: '', durationMs: 0 },
  { actor: 'system' },
);

export interface Account {
  readonly userPath: string;
  readonly labels?: readonly string[];
}

export function reserved(ms: number, exchange: string, amount: number, { userPath, labels }: Account, bounded = true) {
  const data = { amount: String(amount), bounded, ...(labels === undefined ? {} : { labels }) };
  return at(ms, costReserved.create(data, context(userPath)), streamName('exchange', exchange));
}

export function ended(ms: number, exchange: string, event: NewEvent = failed): RecordedEvent {
  return at(ms, event, streamName('exchange', exchange));
}

export function deferred(ms: number, exchange: string, reservedCost: string | null, { userPath, labels }: Account) {
  const data = { ...spentOn, kind: 'response' as const, workId: 'w', reservedCost, ...(labels ? { labels } : {}) };
  return at(ms, usageDeferred.create(data, context(userPath)), streamName('exchange', exchange));
}

export function settled(ms: number, exchange: string): RecordedEvent {
  const event = usageSettled.create({ kind: 'response', workId: 'w', outcome: 'completed' }, { actor: 'system' });
  return at(ms, event, streamName('exchange', exchange));
}

export const hourly = { subject: '/', periodSeconds: 3600 };
