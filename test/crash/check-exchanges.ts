/** Every exchange begins, proceeds and ends by the rules: none stays open, no event is recorded twice. */
import type { RecordedEvent } from '../../src/events/event.ts';
import type { Violation } from './evidence.ts';
import { eventOf, numberIn, type RecordedExchange, type RecordedLog, textIn } from './recorded-log.ts';

const ENDS = new Set(['request.refused', 'exchange.completed', 'exchange.failed', 'client.disconnected']);

export function endsOf({ events }: RecordedExchange): readonly RecordedEvent[] {
  return events.filter(({ type }) => ENDS.has(type));
}

export function checkExchanges(log: RecordedLog): Violation[] {
  return [...log.exchanges.values()].flatMap(checkExchange);
}

function checkExchange(exchange: RecordedExchange): Violation[] {
  const { id, events } = exchange;
  const found: Violation[] = [];
  const complain = (check: string, what: string) => found.push({ check, what: `exchange ${id}: ${what}` });
  const types = events.map(({ type }) => type);
  const count = (type: string) => types.filter((one) => one === type).length;

  if (types[0] !== 'request.received' || count('request.received') !== 1) {
    complain('one beginning', `it reads ${types.join(', ')}`);
  }
  const ends = endsOf(exchange);
  if (ends.length !== 1) complain('one end', `${ends.length} ends: ${types.join(', ')}`);
  const afterEnd = types
    .slice(types.findIndex((type) => ENDS.has(type)) + 1)
    .filter((type) => type !== 'usage.recorded');
  if (ends.length === 1 && afterEnd.length > 0) complain('one end', `after its end come ${afterEnd.join(', ')}`);
  // The usage of a failed attempt is recorded beside that of the answer, once too.
  const spent = events.filter(({ type }) => type === 'usage.recorded').map((one) => numberIn(one, 'failedAttempt'));
  const usages = spent.filter((attempt) => attempt === undefined).length;
  // A passthrough answer need not report any.
  const spends = types.includes('chunk.received') && textIn(events[0], 'dialect') !== 'passthrough';
  const isTwice = new Set(spent).size < spent.length;
  if (isTwice || (spends && spent.length === 0)) complain('usage once', `usage is recorded ${usages} times`);

  const attempts = events.filter(({ type }) => type === 'attempt.started').map((event) => numberIn(event, 'attempt'));
  if (attempts.some((attempt, index) => attempt !== index + 1)) complain('attempts', `numbered ${attempts.join(', ')}`);
  const pieces = events.filter(({ type }) => type === 'chunk.received');
  checkPieces(pieces, attempts, complain);

  const completed = eventOf(exchange, 'exchange.completed');
  // An answer that was replayed is recorded where it was made.
  if (completed !== undefined && !types.includes('answer.replayed')) {
    const attempt = numberIn(completed, 'attempt');
    const own = pieces.filter((piece) => numberIn(piece, 'attempt') === attempt);
    const bytes = own.reduce((sum, { body }) => sum + (body?.length ?? 0), 0);
    const [saidChunks, saidBytes] = [numberIn(completed, 'chunks'), numberIn(completed, 'bytes')];
    if (saidChunks !== own.length || saidBytes !== bytes) {
      const there = `${own.length} with ${bytes} bytes are there`;
      complain('pieces', `it says ${saidChunks} pieces with ${saidBytes} bytes, and ${there}`);
    }
  }
  return found;
}

function checkPieces(
  pieces: readonly RecordedEvent[],
  attempts: readonly (number | undefined)[],
  complain: (check: string, what: string) => void,
): void {
  const next = new Map<number | undefined, number>();
  for (const piece of pieces) {
    const attempt = numberIn(piece, 'attempt');
    const expected = next.get(attempt) ?? 0;
    const index = numberIn(piece, 'index');
    if (!attempts.includes(attempt))
      complain('pieces', `piece ${index} belongs to attempt ${attempt}, which never began`);
    if (index !== expected) complain('pieces', `piece ${index} comes where ${expected} is due`);
    next.set(attempt, (index ?? expected) + 1);
  }
}
