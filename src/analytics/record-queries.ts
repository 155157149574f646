/** Records queries of the analytics process: the gateway that started it writes them to the log. */
import type { RecordQuery } from '../http/clickhouse/reader-request.ts';
import { type QueryRecorded, type QueryToRecord, queryRecorded } from './messages.ts';

/** The used part of `process`. */
export interface GatewayChannel {
  readonly connected: boolean;
  send?(message: QueryToRecord): unknown;
  on(event: 'message', listener: (message: unknown) => void): unknown;
}

/** Without an answer after this time, a query is refused. */
const TIMEOUT_MS = 10_000;

/** @returns a function that rejects without a gateway, when it cannot write the log, and when it does not answer */
export function recordThroughGateway(gateway: GatewayChannel, patienceMs = TIMEOUT_MS): RecordQuery {
  const waiting = new Map<number, (answer: Pick<QueryRecorded, 'error'>) => void>();
  let last = 0;
  gateway.on('message', (message) => {
    const answer = queryRecorded.safeParse(message);
    if (answer.success) waiting.get(answer.data.id)?.(answer.data);
  });
  return async (query) => {
    if (!gateway.connected) throw new Error('the gateway has ended');
    last += 1;
    const id = last;
    const answered = Promise.withResolvers<Pick<QueryRecorded, 'error'>>();
    const tooLate = setTimeout(() => answered.resolve({ error: 'the gateway does not answer' }), patienceMs);
    waiting.set(id, answered.resolve);
    try {
      gateway.send?.({ type: 'query', id, ...query });
      const { error } = await answered.promise;
      if (error !== undefined) throw new Error(error);
    } finally {
      clearTimeout(tooLate);
      waiting.delete(id);
    }
  };
}
