/** `chancery log tail` */
import {
  formatPosition,
  InvalidPosition,
  type Position,
  parsePosition,
  type RecordedEvent,
  START,
} from '../events/event.ts';
import type { EventFilter, EventLog } from '../events/log.ts';
import { type ParsedArguments, UsageError } from './command.ts';
import { eventPrinter } from './event-printer.ts';
import { typeFilter } from './event-types.ts';
import type { Terminal } from './terminal.ts';

const usualCount = 20;
/** Factor by which each further read goes back that has not found enough events. */
const widening = 16;

export async function logTail(args: ParsedArguments, log: EventLog, terminal: Terminal): Promise<number> {
  const filter = { types: typeFilter(args.lists['type'] ?? []), streams: args.lists['stream'] };
  const print = eventPrinter(args, terminal, false);
  const after = args.values['after'];
  const head = await log.head();

  if (after !== undefined) {
    for await (const event of log.readAll({ after: typedPosition(after, head), filter, signal: terminal.signal })) {
      if (event.position > head) break;
      if (!(await print(event))) return 0;
    }
  } else {
    for (const event of await newest(log, head, filter, countOf(args.values['last']), terminal.signal)) {
      if (!(await print(event))) return 0;
    }
  }
  if (!args.switches.has('follow')) return 0;
  for await (const event of log.subscribe({ after: head, filter, signal: terminal.signal })) {
    if ('revision' in event && !(await print(event))) return 0;
  }
  return 0;
}

/** The last `count` events that pass the filter, oldest first: reads a short range, then ever longer ones. */
async function newest(
  log: EventLog,
  head: Position,
  filter: EventFilter,
  count: number,
  signal: AbortSignal,
): Promise<readonly RecordedEvent[]> {
  for (let back = count; count > 0; back *= widening) {
    const after = before(head, back);
    const found: RecordedEvent[] = [];
    for await (const event of log.readAll({ after, filter, signal })) {
      if (event.position > head) break;
      found.push(event);
      // Removed in batches: removing single events from the front would move all the others each time.
      if (found.length >= 2 * count) found.splice(0, found.length - count);
    }
    if (found.length >= count || after === START || signal.aborted) return found.slice(-count);
  }
  return [];
}

/** `count` positions before `position`, or the start. */
function before(position: Position, count: number): Position {
  return formatPosition(Math.max(0, parsePosition(position) - count));
}

/** A position from the command line; leading zeros may be left out. @throws UsageError */
function typedPosition(typed: string, head: Position): Position {
  try {
    return formatPosition(parsePosition(typed));
  } catch (error) {
    if (!(error instanceof InvalidPosition)) throw error;
    throw new UsageError(`--after ${typed}: positions of this log look like ${head}`);
  }
}

function countOf(typed: string | undefined): number {
  if (typed === undefined) return usualCount;
  if (!/^\d{1,6}$/.test(typed)) throw new UsageError(`--last ${typed}: expected a whole number up to 999999`);
  return Number(typed);
}
