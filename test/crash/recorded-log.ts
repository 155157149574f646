/** The log, folded for the checks. Grows round by round: only new events are read. */
import { createHash } from 'node:crypto';
import { categoryOf, idOf, type Position, parsePosition, type RecordedEvent, START } from '../../src/events/event.ts';
import { CacheHistory } from './cache-history.ts';
import type { Violation } from './evidence.ts';
import { GatewayHistory } from './several/gateway-history.ts';

export interface RecordedExchange {
  readonly id: string;
  readonly events: RecordedEvent[];
}

export interface RecordedResponse {
  readonly id: string;
  readonly events: RecordedEvent[];
}

export class RecordedLog {
  readonly exchanges = new Map<string, RecordedExchange>();
  readonly responses = new Map<string, RecordedResponse>();
  /** Exchange ids by the request id that the client sent or got. */
  readonly byRequestId = new Map<string, string[]>();
  /** Gaps and repetitions found while reading. */
  readonly violations: Violation[] = [];
  /** The gateway's last event: `gateway.started` while it runs or was killed. */
  lastOfGateway: string | undefined;
  /** Process ids of the gateways that recorded their start. */
  readonly startedPids = new Set<number>();
  readonly cache = new CacheHistory();
  readonly gateways = new GatewayHistory();
  events = 0;
  /** Each event as `id stream revision`, in the order of the log. */
  readonly places: string[] = [];
  #position: Position = START;
  #sequence = 0;
  readonly #revisions = new Map<string, bigint>();
  readonly #ids = new Set<string>();
  readonly #hash = createHash('sha256');

  /** Read the log after this. */
  get position(): Position {
    return this.#position;
  }

  /** Of every event so far: an event that was read once must read the same for ever. */
  digest(): string {
    return this.#hash.copy().digest('hex');
  }

  add(event: RecordedEvent): void {
    this.events += 1;
    this.places.push(`${event.id} ${event.stream} ${event.revision}`);
    this.#checkPlace(event);
    this.#addToDigest(event);
    if (event.type.startsWith('gateway.')) this.lastOfGateway = event.type;
    if (event.type === 'gateway.started') this.startedPids.add(numberIn(event, 'pid') ?? 0);
    this.cache.add(event);
    this.gateways.add(event);
    const category = categoryOf(event.stream);
    const id = idOf(event.stream);
    if (category === 'exchange') this.#addToExchange(id, event);
    if (category === 'response') entryOf(this.responses, id).events.push(event);
  }

  /** Frees what has been checked, except for the fact that it existed. */
  forget(): void {
    this.exchanges.clear();
    this.responses.clear();
    this.#ids.clear();
  }

  #checkPlace({ position, stream, revision, type, id }: RecordedEvent): void {
    const sequence = parsePosition(position);
    if (sequence !== this.#sequence + 1) this.#complain('positions', `${position} follows ${this.#position}`);
    this.#sequence = sequence;
    this.#position = position;
    const expected = (this.#revisions.get(stream) ?? -1n) + 1n;
    if (revision !== expected) {
      this.#complain('revisions', `${stream}: ${type} has revision ${revision}, and ${expected} comes next`);
    }
    this.#revisions.set(stream, revision);
    if (this.#ids.has(id)) this.#complain('event ids', `${id} (${type} at ${position}) is there twice`);
    this.#ids.add(id);
  }

  #addToDigest({ position, id, stream, type, schema, at, context, data, body }: RecordedEvent): void {
    this.#hash.update(JSON.stringify([position, id, stream, type, schema, at, context, data, body?.length]));
    if (body !== undefined) this.#hash.update(body);
  }

  #addToExchange(id: string, event: RecordedEvent): void {
    const { requestId } = event.context;
    if (event.type === 'request.received' && requestId !== undefined) {
      const known = this.byRequestId.get(requestId);
      if (known === undefined) this.byRequestId.set(requestId, [id]);
      else known.push(id);
    }
    entryOf(this.exchanges, id).events.push(event);
  }

  #complain(check: string, what: string): void {
    this.violations.push({ check, what });
  }
}

function entryOf(entries: Map<string, { id: string; events: RecordedEvent[] }>, id: string) {
  let entry = entries.get(id);
  if (entry === undefined) {
    entry = { id, events: [] };
    entries.set(id, entry);
  }
  return entry;
}

export function eventOf({ events }: RecordedExchange, type: string): RecordedEvent | undefined {
  return events.findLast((event) => event.type === type);
}

/** The provider's answer: the pieces of the last attempt that brought any. */
export function piecesOf({ events }: RecordedExchange): readonly Buffer[] {
  const chunks = events.filter(({ type }) => type === 'chunk.received');
  const attempt = attemptOf(chunks.at(-1));
  return chunks.filter((chunk) => attemptOf(chunk) === attempt).map(({ body }) => Buffer.from(body ?? []));
}

function attemptOf(event: RecordedEvent | undefined): number | undefined {
  return numberIn(event, 'attempt');
}

export function numberIn(event: RecordedEvent | undefined, member: string): number | undefined {
  const value = memberOf(event, member);
  return typeof value === 'number' ? value : undefined;
}

export function textIn(event: RecordedEvent | undefined, member: string): string | undefined {
  const value = memberOf(event, member);
  return typeof value === 'string' ? value : undefined;
}

function memberOf(event: RecordedEvent | undefined, member: string): unknown {
  const data: unknown = event?.data;
  return typeof data === 'object' && data !== null ? Reflect.get(data, member) : undefined;
}
