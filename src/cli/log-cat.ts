/** `chancery log cat <stream>` */
import type { StreamName } from '../events/event.ts';
import type { EventLog } from '../events/log.ts';
import type { ParsedArguments } from './command.ts';
import { eventPrinter } from './event-printer.ts';
import { complain, type Terminal } from './terminal.ts';

export async function logCat(args: ParsedArguments, log: EventLog, terminal: Terminal): Promise<number> {
  const stream = (args.operands[0] ?? '') as StreamName;
  const print = eventPrinter(args, terminal, true);
  let found = false;
  for await (const event of log.readStream(stream)) {
    found = true;
    if (!(await print(event))) return 0;
  }
  if (found) return 0;
  complain(terminal, `there is no stream "${stream}" in this log; "chancery log tail" shows the names of streams`);
  return 1;
}
