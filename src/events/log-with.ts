import type { EventLog } from './log.ts';

/** The same log, with methods replaced. */
export function logWith(log: EventLog, replaced: Partial<Pick<EventLog, 'append' | 'readStream'>>): EventLog {
  return {
    append: (writes, options) => log.append(writes, options),
    readStream: (stream, options) => log.readStream(stream, options),
    readAll: (options) => log.readAll(options),
    subscribe: (options) => log.subscribe(options),
    head: () => log.head(),
    capabilities: log.capabilities,
    status: () => log.status(),
    onStatusChange: (listener) => log.onStatusChange(listener),
    close: () => log.close(),
    ...replaced,
  };
}
