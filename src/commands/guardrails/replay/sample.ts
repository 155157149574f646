/**
 * The requests on which guardrails run that call a model or a server: spread evenly over the range, chosen before the
 * run so that its cost can be estimated.
 */

import type { EventLog } from '../../../events/log.ts';
import { formatPosition, parsePosition } from '../../../events/sequence-position.ts';
import {
  type LogRange,
  type ReplayedExchange,
  type ReplayRange,
  readReplayed,
  requestsIn,
} from './recorded-requests.ts';

export interface SampleOptions {
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
export async function* sampledRequests(options: SampleOptions): AsyncGenerator<ReplayedExchange> {
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
