/** A log from which the events of one exchange were read already: they are not read again. */
import type { RecordedEvent } from '../../../events/event.ts';
import type { EventLog } from '../../../events/log.ts';

/** @param events the whole stream, from its beginning to its end */
export function readOnce(log: EventLog, events: readonly RecordedEvent[]): EventLog {
  const stream = events[0]?.stream;
  return {
    append: (writes, options) => log.append(writes, options),
    readStream: (name, options) =>
      name === stream && options === undefined ? inTurn(events) : log.readStream(name, options),
    readAll: (options) => log.readAll(options),
    subscribe: (options) => log.subscribe(options),
    head: () => log.head(),
    capabilities: log.capabilities,
    status: () => log.status(),
    onStatusChange: (listener) => log.onStatusChange(listener),
    close: () => log.close(),
  };
}

async function* inTurn(events: readonly RecordedEvent[]): AsyncGenerator<RecordedEvent> {
  yield* events;
}
