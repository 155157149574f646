/** A model of the live logs: a history of requests, and connections to it that break anywhere. */
import fc from 'fast-check';
import type { LiveEvent, RequestPreview } from '../../dashboard/src/live/live-event.ts';

/** Time of the event at position 1. */
const BEGIN = Date.parse('2026-01-01T00:00:00Z');

type EventOfHistory = Extract<LiveEvent, { kind: 'request' | 'usage' }>;

export interface ModelRequest {
  readonly updates: number;
  readonly pieces: number;
  readonly usages: number;
  /** Undefined: it does not end. */
  readonly outcome: 'completed' | 'failed' | 'refused' | 'disconnected' | undefined;
  /** Usage is recorded after the end. */
  readonly isUsageLate: boolean;
}

const modelRequest: fc.Arbitrary<ModelRequest> = fc.record({
  updates: fc.nat(2),
  pieces: fc.nat(3),
  usages: fc.nat(2),
  outcome: fc.constantFrom('completed', 'completed', 'failed', 'refused', 'disconnected', undefined),
  isUsageLate: fc.boolean(),
});

export function positionOf(index: number): string {
  return String(index + 1).padStart(16, '0');
}

/** Events of several requests, in any order between requests. */
export const histories: fc.Arbitrary<readonly EventOfHistory[]> = fc
  .tuple(fc.array(modelRequest, { minLength: 1, maxLength: 8 }), fc.array(fc.nat(), { minLength: 60, maxLength: 60 }))
  .map(([requests, picks]) => {
    const waiting = requests.map((request, index) => eventsOf(request, `request-${index}`));
    const events: EventOfHistory[] = [];
    for (let turn = 0; waiting.some((rest) => rest.length > 0); turn += 1) {
      const open = waiting.filter((rest) => rest.length > 0);
      const next = open[(picks[turn % picks.length] ?? 0) % open.length]?.shift();
      if (next !== undefined) events.push(placed(next, events));
    }
    return events;
  });

/** With its position, and the time of the request's first event. */
function placed(event: EventOfHistory, before: readonly EventOfHistory[]): EventOfHistory {
  const position = positionOf(before.length);
  const at = BEGIN + before.length;
  if (event.kind === 'usage') return { ...event, position, at };
  const first = before.find((one) => one.kind === 'request' && one.request.id === event.request.id);
  return { ...event, position, at, request: { ...event.request, startedAt: first?.at ?? at } };
}

function eventsOf({ updates, pieces, usages, outcome, isUsageLate }: ModelRequest, id: string): EventOfHistory[] {
  const sent = { position: '', at: 0, isNew: true } as const;
  const about = (members: Partial<RequestPreview>): EventOfHistory => ({
    ...{ ...sent, kind: 'request' },
    request: { id, startedAt: 0, path: `/v1/${id}`, ...members },
  });
  const costs: EventOfHistory[] = Array.from({ length: usages }, (_, index) => ({
    ...{ ...sent, kind: 'usage' },
    usage: { id: `${id}-${index}`, exchangeId: id, inputTokens: index + 1, outputTokens: null, cost: 0.5 },
  }));
  const end = outcome === undefined ? [] : [about({ outcome, status: outcome === 'completed' ? 200 : 500 })];
  return [
    about({}),
    ...Array.from({ length: updates }, (_, index) => about({ resolvedModel: `provider/model-${index}` })),
    ...Array.from({ length: pieces }, (_, index) => about({ answerTail: 'word '.repeat(index + 1) })),
    ...(isUsageLate ? [...end, ...costs] : [...costs, ...end]),
  ];
}

/** Requests that have begun and not ended among the first `head` events. */
function inFlight(history: readonly EventOfHistory[], head: number): RequestPreview[] {
  const open = new Map<string, RequestPreview>();
  for (const event of history.slice(0, head)) {
    if (event.kind !== 'request') continue;
    const { answerTail, ...request } = { ...open.get(event.request.id), ...event.request };
    if (request.outcome === undefined) open.set(request.id, request);
    else open.delete(request.id);
  }
  return [...open.values()];
}

/**
 * What the gateway sends to a client that connects when the log has `head` events: missed events, or the requests in
 * flight, then a heartbeat.
 * @param replayed number of events that are sent again; when more were missed, a reset comes first
 */
export function sentAtConnection(
  history: readonly EventOfHistory[],
  head: number,
  cursor: string | undefined,
  replayed: number,
): LiveEvent[] {
  const position = head === 0 ? '0' : positionOf(head - 1);
  const at = BEGIN + head;
  const heartbeat: LiveEvent = { kind: 'heartbeat', position, at, isNew: true };
  const received = cursor === undefined ? 0 : Number(cursor);
  if (cursor !== undefined && head - received <= replayed) return [...history.slice(received, head), heartbeat];
  const open = inFlight(history, head).map(
    (request): LiveEvent => ({ kind: 'request', position, at, isNew: false, request }),
  );
  const reset: LiveEvent[] = cursor === undefined ? [] : [{ kind: 'reset', position, at, isNew: true }];
  return [...reset, ...open, heartbeat];
}

/** What happens to a client, step by step. */
export interface Step {
  /** Events that are appended while the client is connected. */
  readonly appended: number;
  /** Of what was sent, how much arrives before the connection breaks; in thousandths. */
  readonly arrives: number;
  /** How many of the last events arrive twice. */
  readonly repeated: number;
  /** Events that are appended while it is not connected. */
  readonly missed: number;
}

export const steps: fc.Arbitrary<readonly Step[]> = fc.array(
  fc.record({ appended: fc.nat(8), arrives: fc.nat(1000), repeated: fc.nat(3), missed: fc.nat(12) }),
  { maxLength: 8 },
);
