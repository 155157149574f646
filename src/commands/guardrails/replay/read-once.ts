/** A log from which the events of one exchange were read already: they are not read again. */
import type { RecordedEvent } from '../../../events/event.ts';
import type { EventLog } from '../../../events/log.ts';
import { logWith } from '../../../events/log-with.ts';

/** @param events the whole stream, from its beginning to its end */
export function readOnce(log: EventLog, events: readonly RecordedEvent[]): EventLog {
  const stream = events[0]?.stream;
  return logWith(log, {
    readStream: (name, options) =>
      name === stream && options === undefined ? inTurn(events) : log.readStream(name, options),
  });
}

async function* inTurn(events: readonly RecordedEvent[]): AsyncGenerator<RecordedEvent> {
  yield* events;
}
