/**
 * The exchanges of a range in the order in which they began. The log is read once, in its order: the events of the
 * exchanges that have not ended yet are kept, up to a number of bytes. An exchange that does not end within them, or
 * within the range, is read by itself.
 */
import { exchangeEnds } from '../../../events/catalogue/exchange.ts';
import type { RecordedEvent, StreamName } from '../../../events/event.ts';
import type { EventLog } from '../../../events/log.ts';
import {
  isRequestIn,
  type LogRange,
  type ReplayedExchange,
  type ReplayRange,
  readReplayed,
  replayedOf,
} from './recorded-requests.ts';

export interface ExchangesOptions {
  readonly log: EventLog;
  readonly signal: AbortSignal;
  letOthersWork(): Promise<void>;
  /** Default: 32 MiB. */
  readonly mostKeptBytes?: number | undefined;
}

interface KeptExchange {
  readonly events: RecordedEvent[];
  bytes: number;
  hasEnded: boolean;
}

const MOST_KEPT_BYTES = 32 * 1024 * 1024;
/** Of an event beside its body. */
const EVENT_BYTES = 1024;

export async function* exchangesIn(
  range: ReplayRange,
  within: LogRange,
  { log, signal, letOthersWork, mostKeptBytes = MOST_KEPT_BYTES }: ExchangesOptions,
): AsyncGenerator<ReplayedExchange> {
  const kept = new Map<StreamName, KeptExchange>();
  let bytes = 0;

  /** Takes the oldest exchange. */
  async function taken(): Promise<ReplayedExchange | undefined> {
    const [oldest] = kept;
    if (oldest === undefined) return undefined;
    const [stream, exchange] = oldest;
    kept.delete(stream);
    bytes -= exchange.bytes;
    return exchange.hasEnded ? replayedOf(exchange.events) : readReplayed(stream, log);
  }

  for await (const event of log.readAll({ after: within.after, filter: { streams: ['exchange-'] }, signal })) {
    await letOthersWork();
    if (signal.aborted || event.position > within.last) break;
    const { stream, type, body } = event;
    if (isRequestIn(range, event)) kept.set(stream, { events: [], bytes: 0, hasEnded: false });
    const exchange = kept.get(stream);
    if (exchange === undefined || exchange.hasEnded) continue;
    exchange.events.push(event);
    exchange.bytes += (body?.byteLength ?? 0) + EVENT_BYTES;
    bytes += (body?.byteLength ?? 0) + EVENT_BYTES;
    exchange.hasEnded = exchangeEnds.has(type);
    while (kept.values().next().value?.hasEnded === true || bytes > mostKeptBytes) {
      const next = await taken();
      if (next !== undefined) yield next;
    }
  }
  while (kept.size > 0 && !signal.aborted) {
    const next = await taken();
    if (next !== undefined) yield next;
  }
}
