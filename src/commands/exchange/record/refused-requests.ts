/**
 * Records every request that begins no exchange, and every refused one, at a bounded cost. A limited number of
 * refusals per key and minute is recorded one by one. Further refusals are counted by key, user path and reason;
 * answered requests are counted by key, user path, route and status. Each count is recorded as one event when the
 * minute ends, or when the gateway stops. Counts that are not yet recorded are lost when the process is killed.
 */
import {
  requestReceived,
  requestRefused,
  requestsAnswered,
  requestsRefused,
} from '../../../events/catalogue/exchange.ts';
import { type Actor, type EpochMs, type NewEvent, streamName, type UserPath } from '../../../events/event.ts';
import { mintEventId } from '../../../events/event-id.ts';
import type { EventLog } from '../../../events/log.ts';
import type { Caller, ModelRequest } from '../../model-request/model-request.ts';
import type { Refusal } from '../../refusal.ts';
import { cutContent, isOfRequest } from './end-events.ts';

const MINUTE_MS = 60_000;
const RETRY_MS = 5_000;
/** Keys whose refusals are recorded one by one in a minute; of further keys, all are counted. */
const MAX_KEYS = 10_000;
/** User paths of one key that are counted separately in a minute; a key may name any with each request. */
const MAX_PATHS = 64;
/** Beyond this number of counts, refusals are counted by reason alone, and answered requests by route alone. */
const MAX_COUNTS = 10_000;
/** Counts per append. */
const APPENDED = 500;

export interface RefusedRequest {
  readonly caller: Pick<Caller, 'actor' | 'userPath' | 'authMethod'>;
  readonly endpoint: string;
  readonly durationMs: number;
}

interface AnsweredRequest {
  readonly caller: Pick<Caller, 'actor' | 'userPath' | 'authMethod'>;
  readonly method: string;
  /** The route, with its parameters by name. */
  readonly endpoint: string;
  readonly status: number;
  /** The code of the error that was returned. */
  readonly code?: string | null | undefined;
}

interface RefusedRequestsOptions {
  readonly log: Pick<EventLog, 'append'>;
  /** Refusals of one key in one minute that are recorded one by one. */
  readonly alone: number;
  readonly now?: () => EpochMs;
  readonly onError: (error: unknown) => void;
}

/** The facts that the requests of one count share. */
type Counted =
  | { readonly kind: 'refused'; readonly reason: Pick<Refusal, 'status' | 'type' | 'code'> }
  | ({ readonly kind: 'answered' } & Pick<AnsweredRequest, 'method' | 'status' | 'code'>);

interface Count {
  readonly actor: Actor;
  readonly userPath: UserPath | undefined;
  readonly authMethod: Caller['authMethod'];
  readonly what: Counted;
  readonly firstAt: number;
  lastAt: number;
  /** Undefined when the endpoints of the counted requests differ. */
  endpoint: string | undefined;
  count: number;
  durationMs: number;
}

interface OfKey {
  alone: number;
  readonly paths: Set<string>;
}

export class RefusedRequests {
  readonly #options: Required<RefusedRequestsOptions>;
  #minute = -1;
  readonly #keys = new Map<Actor, OfKey>();
  #counts = new Map<string, Count>();
  /**
   * Counts converted to events. They keep their ids until an append of them succeeds, so that they are recorded once.
   */
  #unwritten: NewEvent[] = [];
  #writing: Promise<void> | undefined;
  /** Whether the current counts are to be recorded next. */
  #isDue = false;
  #minuteEnds: NodeJS.Timeout | undefined;
  #retries: NodeJS.Timeout | undefined;

  constructor(options: RefusedRequestsOptions) {
    this.#options = { now: Date.now, ...options };
  }

  /**
   * Whether the caller is to record this refusal on its own; if not, it is counted here, and the caller records
   * nothing.
   */
  recordsAlone(request: RefusedRequest, refusal: Refusal): boolean {
    const key = this.#keyOf(request.caller.actor);
    if (key !== undefined && key.alone < this.#options.alone) {
      key.alone += 1;
      return true;
    }
    this.count(request, refusal);
    return false;
  }

  count(request: RefusedRequest, { status, type, code }: Refusal): void {
    this.#count(request, `${status} ${type} ${code}`, { kind: 'refused', reason: { status, type, code } });
  }

  /** Counts a request that was answered and began no exchange. */
  countAnswered({ caller, method, endpoint, status, code }: AnsweredRequest): void {
    const request = { caller, endpoint, durationMs: 0 };
    this.#count(request, `${method} ${endpoint} ${status} ${code}`, { kind: 'answered', method, status, code });
  }

  #count({ caller, endpoint, durationMs }: RefusedRequest, common: string, what: Counted): void {
    const at = this.#options.now();
    const key = this.#keyOf(caller.actor);
    let { actor, userPath } = caller;
    if (key === undefined || (userPath !== undefined && !isCountedByPath(key, userPath))) userPath = undefined;
    let name = `${actor}\n${userPath ?? ''}\n${common}`;
    if (!this.#counts.has(name) && this.#counts.size >= MAX_COUNTS) {
      actor = 'system';
      userPath = undefined;
      name = common;
    }
    const counted = this.#counts.get(name);
    if (counted === undefined) {
      const { authMethod } = caller;
      const first = { firstAt: at, lastAt: at, endpoint, count: 1, durationMs };
      this.#counts.set(name, { actor, userPath, authMethod, what, ...first });
      return;
    }
    counted.count += 1;
    counted.lastAt = at;
    counted.durationMs += durationMs;
    if (counted.endpoint !== endpoint) counted.endpoint = undefined;
  }

  /** Ends the minute: the counts are recorded as soon as the previous counts are in the log. */
  write(): void {
    this.#isDue = true;
    this.#advance();
  }

  /** Resolves when everything is recorded, or the log has refused it. */
  async stop(): Promise<void> {
    this.write();
    while (this.#writing !== undefined) await this.#writing;
    clearTimeout(this.#minuteEnds);
    clearTimeout(this.#retries);
  }

  #advance(): void {
    if (this.#writing !== undefined) return;
    if (this.#unwritten.length === 0 && this.#isDue) {
      this.#isDue = false;
      this.#unwritten = [...this.#counts.values()].map(eventOf);
      this.#counts = new Map();
    }
    if (this.#unwritten.length > 0) this.#writing = this.#append();
  }

  async #append(): Promise<void> {
    let failed = false;
    try {
      while (this.#unwritten.length > 0) {
        const events = this.#unwritten.slice(0, APPENDED);
        await this.#options.log.append(writesOf(events));
        this.#unwritten = this.#unwritten.slice(events.length);
      }
    } catch (error) {
      failed = true;
      this.#options.onError(error);
    }
    this.#writing = undefined;
    if (!failed) return this.#advance();
    clearTimeout(this.#retries);
    this.#retries = setTimeout(() => this.#advance(), RETRY_MS).unref();
  }

  #keyOf(actor: Actor): OfKey | undefined {
    const at = this.#options.now();
    const minute = Math.floor(at / MINUTE_MS);
    if (minute !== this.#minute) {
      this.#minute = minute;
      this.#keys.clear();
      this.write();
      clearTimeout(this.#minuteEnds);
      this.#minuteEnds = setTimeout(() => this.write(), (minute + 1) * MINUTE_MS - at).unref();
    }
    let key = this.#keys.get(actor);
    if (key === undefined && this.#keys.size < MAX_KEYS) {
      key = { alone: 0, paths: new Set() };
      this.#keys.set(actor, key);
    }
    return key;
  }
}

function isCountedByPath({ paths }: OfKey, userPath: string): boolean {
  if (paths.has(userPath)) return true;
  if (paths.size >= MAX_PATHS) return false;
  paths.add(userPath);
  return true;
}

function eventOf({ actor, userPath, authMethod, what, endpoint, durationMs, ...counted }: Count): NewEvent {
  const context = { actor, userPath };
  const { count, firstAt, lastAt } = counted;
  const times = { count, firstAt, lastAt };
  const event =
    what.kind === 'refused'
      ? requestsRefused.create({ ...what.reason, authMethod, endpoint, ...times, durationMs }, context)
      : requestsAnswered.create(
          { method: what.method, endpoint: endpoint ?? '', status: what.status, code: what.code, authMethod, ...times },
          context,
        );
  return { ...event, id: mintEventId() };
}

function writesOf(events: readonly NewEvent[]) {
  const byStream = Map.groupBy(events, ({ type, context: { actor } }) => {
    const id = actor.startsWith('key:') ? actor.slice('key:'.length) : actor;
    return streamName(type === requestsRefused.type ? 'refusals' : 'requests', id);
  });
  return [...byStream].map(([stream, ofStream]) => ({ stream, events: ofStream, expectedRevision: 'any' as const }));
}

// Records the refusal of a request that began no exchange: refused by its route, for its body, or by its handler. The
// refusal is recorded on its own, or counted once its key has exceeded the limit of single records.

export interface RefusalRecording {
  readonly log: Pick<EventLog, 'append'>;
  readonly refused: Pick<RefusedRequests, 'recordsAlone' | 'count'>;
  newId(): string;
}

/**
 * Requests over a rate limit, and those that the gateway failed to handle, are always counted: neither may wait for
 * the log. If the log cannot be written, the request is counted as well, and the count is recorded when the log can
 * be written again.
 * @returns the id of the recorded exchange; undefined when the request was counted
 */
export async function recordRefusal(
  request: ModelRequest,
  endpoint: string,
  durationMs: number,
  refusal: Refusal,
  { log, refused, newId }: RefusalRecording,
): Promise<string | undefined> {
  const { caller } = request;
  const counted = { caller, endpoint, durationMs };
  if (refusal.status === 429 || !isOfRequest(refusal)) {
    refused.count(counted, refusal);
    return undefined;
  }
  if (!refused.recordsAlone(counted, refusal)) return undefined;
  const id = newId();
  const events = cutContent(eventsOf(request, durationMs, refusal));
  try {
    await log.append([{ stream: streamName('exchange', id), events, expectedRevision: 'noStream' }]);
    return id;
  } catch {
    refused.count(counted, refusal);
    return undefined;
  }
}

/** Without the body: the body of an administrator's request may hold secrets that cannot be located in it. */
function eventsOf(request: ModelRequest, durationMs: number, refusal: Refusal) {
  const { caller, requestId, traceparent, method, path, headers, clientIp, clientSubject, labels, sessionId } = request;
  const { authMethod } = caller;
  const context = { actor: caller.actor, userPath: caller.userPath, requestId, traceparent };
  const { status, type, code, param } = refusal;
  // The message quotes a part of the body.
  const message = code === 'invalid_json' ? 'The request body is not valid JSON.' : refusal.message;
  const facts = { method, path, headers, clientIp, clientSubject, authMethod, labels, sessionId };
  return [
    requestReceived.create({ dialect: 'none', stream: false, capture: 'metadata', ...facts }, context),
    requestRefused.create({ status, type, code, param, message, durationMs }, context),
  ];
}
