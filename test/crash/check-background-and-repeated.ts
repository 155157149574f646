/** Promises hold over a crash: a background response comes to one end, a key gives one answer. */
import { isDeepStrictEqual } from 'node:util';
import { objectOf, type Violation } from './evidence.ts';
import { type RecordedExchange, type RecordedLog, textIn } from './recorded-log.ts';

/** Every whole answer that one idempotency key gave, over all rounds. */
export interface AnswerUnderKey {
  readonly key: string;
  readonly answers: readonly Buffer[];
}

/** The state of a background response, as `GET` returns it after the restart. */
export interface BackgroundOutcome {
  readonly id: string;
  readonly status: number;
  readonly response: Record<string, unknown> | undefined;
  /** The answer to its cancellation, if there was one. */
  readonly cancelled?: Record<string, unknown> | undefined;
  /** Its state at the check before. */
  readonly earlier?: Record<string, unknown>;
}

const ENDED = new Set<unknown>(['completed', 'incomplete', 'failed', 'cancelled']);

export function checkPromises(kept: readonly BackgroundOutcome[], given: readonly AnswerUnderKey[]): Violation[] {
  const promises = kept.flatMap((one) => {
    const wrong = wrongWith(one);
    return wrong === undefined ? [] : [{ check: 'promises', what: `background response ${one.id}: ${wrong}` }];
  });
  const keys = given
    .filter(({ answers: [first, ...others] }) => others.some((other) => first?.equals(other) === false))
    .map(({ key }) => ({ check: 'keys', what: `the key ${key} gave answers that differ` }));
  return [...promises, ...keys];
}

function wrongWith({ status, response, cancelled, earlier }: BackgroundOutcome): string | undefined {
  if (response === undefined) return `GET says ${status}`;
  if (!ENDED.has(response.status)) return `it is ${response.status} and comes to no end`;
  const reported = earlier ?? (ENDED.has(cancelled?.status) ? cancelled : undefined);
  if (reported !== undefined && !isDeepStrictEqual(response, reported))
    return `it was told as ${reported.status} and is another now`;
  if (cancelled !== undefined && reported === undefined)
    return `its cancellation was answered with ${cancelled.status}`;
  return undefined;
}

/** Whether the next start may take it up: a background request without any recorded answer. */
export function isPromise({ events }: RecordedExchange): boolean {
  const [received] = events;
  if (textIn(received, 'dialect') !== 'responses' || received?.body === undefined) return false;
  return objectOf(Buffer.from(received.body))?.background === true;
}

/** No provider is called again once anything of its answer is on record. (These providers do not fail.) */
export function checkNotMadeTwice(log: RecordedLog): Violation[] {
  return [...log.exchanges.values()].filter(isPromise).flatMap(({ id, events }) => {
    const types = events.map(({ type }) => type);
    const said = types.indexOf('chunk.received');
    if (said === -1 || !types.includes('attempt.started', said)) return [];
    return [{ check: 'promises', what: `exchange ${id} was made again after it had begun: ${types.join(', ')}` }];
  });
}
