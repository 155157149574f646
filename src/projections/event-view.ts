/** The raw view of the live tail: every recorded event of the log. */
import { LRUCache } from 'lru-cache';
import { requestReceived } from '../events/catalogue/exchange.ts';
import { categoryOf, idOf, managedKeyId, type RecordedEvent, type StreamName } from '../events/event.ts';
import { eventToJson } from '../events/event-json.ts';
import type { EventLog } from '../events/log.ts';
import { isA } from './known-event.ts';
import type { LiveFrame } from './live-frame.ts';
import type { LiveFold, LiveView } from './live-view.ts';
import { previewTypeOf } from './preview-view.ts';
import { isBodyWithheld } from './withheld-body.ts';

/** Maximum number of requests whose path is cached. The path of any other is read from its stream again. */
const MAX_PATHS = 10_000;

export function eventView(log: EventLog): LiveView {
  return { name: 'events', filter: {}, begin: () => new EventFold(log) };
}

class EventFold implements LiveFold {
  readonly #log: EventLog;
  /** `path` is undefined for a stream that does not begin with a request. */
  readonly #paths = new LRUCache<StreamName, { readonly path: string | undefined }>({ max: MAX_PATHS });

  constructor(log: EventLog) {
    this.#log = log;
  }

  apply(event: RecordedEvent): LiveFrame | Promise<LiveFrame> {
    if (categoryOf(event.stream) !== 'exchange') return frameOf(event, undefined);
    if (isA(event, requestReceived)) this.#paths.set(event.stream, { path: event.data.path });
    const known = this.#paths.get(event.stream);
    return known === undefined ? this.#frameFromLog(event) : frameOf(event, known.path);
  }

  due(): LiveFrame[] {
    return [];
  }

  async #frameFromLog(event: RecordedEvent): Promise<LiveFrame> {
    let path: string | undefined;
    for await (const first of this.#log.readStream(event.stream, { maxCount: 1 })) {
      if (isA(first, requestReceived)) path = first.data.path;
    }
    this.#paths.set(event.stream, { path });
    return frameOf(event, path);
  }
}

function frameOf(event: RecordedEvent, path: string | undefined): LiveFrame {
  return {
    type: event.type,
    alias: previewTypeOf(event.type),
    position: event.position,
    at: event.at,
    stream: event.stream,
    exchangeId: categoryOf(event.stream) === 'exchange' ? idOf(event.stream) : undefined,
    requestId: event.context.requestId,
    userPath: event.context.userPath,
    path,
    keyId: managedKeyId(event.context.actor),
    data: { toJSON: () => visibleJson(event) },
    weight: 500 + (event.body?.length ?? 0),
  };
}

/** The event as it is in the log, but for bodies that are only there. */
function visibleJson(event: RecordedEvent): object {
  return isBodyWithheld(event)
    ? { ...eventToJson({ ...event, body: undefined }), body_withheld: true }
    : eventToJson(event);
}
