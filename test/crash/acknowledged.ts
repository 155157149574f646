/** Single requests around a fault of what stores the log: their answers, and whether the answered ones are recorded. */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { formatPosition } from '../../src/events/event.ts';
import { openLog } from '../../src/events/open-log.ts';
import { ask, type ServedGateway } from '../e2e/gateway-process.ts';
import type { Violation } from './evidence.ts';

const RECOVERS_WITHIN_MS = 20_000;
const VISIBLE_WITHIN_MS = 5_000;

interface Complaints {
  readonly complain: (violation: Violation) => void;
}

/** Asks until the gateway answers again. */
export async function recovers(
  check: string,
  { url }: ServedGateway,
  acknowledged: Acknowledged,
  { complain }: Complaints,
): Promise<void> {
  const deadline = performance.now() + RECOVERS_WITHIN_MS;
  for (;;) {
    const answer = await acknowledged.ask(url);
    if (answer.status === 200) return;
    if (performance.now() > deadline) {
      complain({ check, what: `it did not recover: ${JSON.stringify(answer)}` });
      return;
    }
    await sleep(50);
  }
}

interface ChatStatus {
  /** Undefined when there was no answer. */
  readonly status: number | undefined;
  readonly code?: unknown;
  readonly retryAfter?: string | null;
  readonly shouldRetry?: string | null;
}

/** Requests, and those of them that were answered whole. */
export class Acknowledged {
  readonly #dataDir: string;
  readonly #exchanges = new Set<string>();
  #begin = formatPosition(0);

  constructor(dataDir: string) {
    this.#dataDir = dataDir;
  }

  async begin(): Promise<void> {
    const log = await openLog(logUrl(this.#dataDir), { readOnly: true });
    this.#begin = await log.head();
    await log.close();
  }

  async ask(url: string): Promise<ChatStatus> {
    try {
      const json = { model: 'llamacpp/small', messages: [{ role: 'user', content: 'Grüße' }] };
      const answer = await ask(url, '/v1/chat/completions', { json });
      const text = await answer.text();
      const exchange = answer.headers.get('x-exchange-id');
      if (answer.status === 200 && exchange !== null) this.#exchanges.add(exchange);
      const code = answer.status === 200 ? undefined : JSON.parse(text).error?.code;
      return { status: answer.status, code, ...retryOf(answer) };
    } catch {
      return { status: undefined };
    }
  }

  /** All of them are in the log as completed. */
  async check(check: string, { complain }: Complaints): Promise<void> {
    const missing = new Set(this.#exchanges);
    const log = await openLog(logUrl(this.#dataDir), { readOnly: true });
    // another process may see the gateway's newest events a little later
    const signal = AbortSignal.timeout(VISIBLE_WITHIN_MS);
    try {
      const filter = { types: ['exchange.completed'] };
      for await (const event of log.subscribe({ after: this.#begin, filter, signal })) {
        if ('stream' in event) missing.delete(event.stream.slice('exchange-'.length));
        if (missing.size === 0) break;
      }
    } finally {
      await log.close();
    }
    for (const exchange of missing) complain({ check, what: `exchange ${exchange} was answered and is not on record` });
  }
}

/** The files of the log in a gateway's data folder. */
export function logUrl(dataDir: string): string {
  return `file:${join(dataDir, 'log')}`;
}

function retryOf({ headers }: Response): Pick<ChatStatus, 'retryAfter' | 'shouldRetry'> {
  return { retryAfter: headers.get('retry-after'), shouldRetry: headers.get('x-should-retry') };
}
