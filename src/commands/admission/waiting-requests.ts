/**
 * Requests that wait for room in a budget: what others have reserved does not leave enough, and what those are likely to
 * cost does. Requests of the same budgets are admitted in the order in which they came.
 */
import type { AdmissionRequest } from '../model-request/admission.ts';
import {
  type BoundedShare,
  budgetSubject,
  type CompleteForecast,
  completed,
  type FitsWithoutBound,
  likelyOf,
  mayFitLater,
  type Room,
  refusalOf,
  SumsBySubject,
  shareOf,
  subjectsOfRooms,
} from './budget-decision.ts';
import type { CostForecast } from './cost-forecast.ts';

/** What a gate knows of one request. */
export interface Deciding<Hold> {
  /** The budgets that count the request; none when it is free. */
  rooms(): readonly Room[];
  forecast(): CostForecast;
  readonly fits: FitsWithoutBound;
  /** Milliseconds since the epoch. */
  now(): number;
  /** Reserves what was decided. */
  hold(share: BoundedShare, forecast: CompleteForecast, rooms: readonly Room[]): Hold;
  /** Nano-dollars that are reserved in the budget and are not in `likely`. Default: none. */
  deferred?(room: Room): number;
}

export interface AdmittedHold<Hold> {
  /** Undefined when no budget counts the request. */
  readonly hold: Hold | undefined;
}

/** A request waits with its body in memory. */
const MAX_WAITING = 1_000;
const MAX_WAITING_BYTES = 64 * 1024 * 1024;

/** @returns undefined when the request still has to wait, which it must not at the last attempt. @throws Refusal */
type Attempt<T> = (isLast: boolean) => T | undefined;

interface Waiting {
  readonly bytes: number;
  /** @returns whether it goes on waiting */
  attempt(isLast: boolean): boolean;
}

export class WaitingRequests<Hold> {
  /** What running and waiting requests are likely to cost. */
  readonly likely = new SumsBySubject();
  readonly #maxMs: number;
  readonly #groups = new Map<string, Set<Waiting>>();
  #count = 0;
  #bytes = 0;
  #isDue = false;

  /** @param maxMs a request is refused after so long; 0: at once */
  constructor(maxMs: number) {
    this.#maxMs = maxMs;
  }

  /** Admits a request now, unless others with the same budgets wait. @throws Refusal */
  admitNow(request: AdmissionRequest, deciding: Deciding<Hold>): AdmittedHold<Hold> {
    const attempt = this.#attempts(request, deciding);
    // The last attempt does not wait.
    return attempt(true, true) ?? { hold: undefined };
  }

  /** Admits a request now, or when there is room for it, in its turn. @throws Refusal */
  admit(
    request: AdmissionRequest,
    deciding: Deciding<Hold>,
    signal: AbortSignal,
  ): AdmittedHold<Hold> | Promise<AdmittedHold<Hold>> {
    const attempt = this.#attempts(request, deciding);
    const first = attempt(!this.#hasPlace(request.bodyBytes), true);
    if (first !== undefined) return first;
    return this.#wait(subjectsOfRooms(deciding.rooms()).join(' '), request.bodyBytes, attempt, signal);
  }

  #attempts({ caller }: AdmissionRequest, deciding: Deciding<Hold>) {
    const { fits } = deciding;
    let subjects: readonly string[] = [];
    let likely = 0;
    /** @param isNew whether those that wait precede it */
    return (isLast: boolean, isNew = false): AdmittedHold<Hold> | undefined => {
      this.likely.add(subjects, -likely);
      likely = 0;
      const rooms = deciding.rooms();
      if (rooms.length === 0) return { hold: undefined };
      const forecast = completed(deciding.forecast(), rooms);
      subjects = subjectsOfRooms(rooms);
      const isBehind = isNew && this.#groups.has(subjects.join(' '));
      const share = isBehind ? undefined : shareOf(rooms, forecast, fits);
      if (share !== undefined) return { hold: deciding.hold(share, forecast, rooms) };
      const own = likelyOf(forecast);
      const likelyIn = (room: Room) =>
        this.likely.get(budgetSubject(room.budget)) + (deciding.deferred?.(room) ?? 0) + own;
      const { bound } = forecast;
      const mayWait = !isLast && bound !== undefined;
      if (
        !mayWait ||
        !mayFitLater(
          rooms.map((room) => ({ ...room, likely: likelyIn(room) })),
          { bound },
        )
      ) {
        throw refusalOf(rooms, forecast, fits, { at: deciding.now(), caller });
      }
      likely = own;
      this.likely.add(subjects, likely);
      return undefined;
    };
  }

  #hasPlace(bytes: number): boolean {
    return this.#maxMs > 0 && this.#count < MAX_WAITING && this.#bytes + bytes <= MAX_WAITING_BYTES;
  }

  /**
   * Repeats the attempt whenever something was released, until it succeeds or throws.
   * @param signal aborted when the client has left: then the attempt is the last one
   */
  #wait(
    group: string,
    bytes: number,
    attempt: Attempt<AdmittedHold<Hold>>,
    signal: AbortSignal,
  ): Promise<AdmittedHold<Hold>> {
    return new Promise<AdmittedHold<Hold>>((resolve, reject) => {
      const last = () => waiting.attempt(true);
      const timer = setTimeout(last, this.#maxMs);
      const waiting: Waiting = {
        bytes,
        attempt: (isLast) => {
          try {
            const result = attempt(isLast);
            if (result === undefined) return true;
            resolve(result);
          } catch (error) {
            reject(error);
          }
          clearTimeout(timer);
          signal.removeEventListener('abort', last);
          this.#leave(group, waiting);
          return false;
        },
      };
      signal.addEventListener('abort', last, { once: true });
      this.#enter(group, waiting);
    });
  }

  /** Something was released: those who have room now are admitted in this turn of the event loop. */
  retry(): void {
    if (this.#isDue || this.#count === 0) return;
    this.#isDue = true;
    setImmediate(() => {
      this.#isDue = false;
      for (const group of this.#groups.values()) {
        for (const one of group) if (one.attempt(false)) break;
      }
    });
  }

  #enter(group: string, waiting: Waiting): void {
    const others = this.#groups.get(group);
    if (others === undefined) this.#groups.set(group, new Set([waiting]));
    else others.add(waiting);
    this.#count += 1;
    this.#bytes += waiting.bytes;
  }

  #leave(group: string, waiting: Waiting): void {
    const others = this.#groups.get(group);
    if (others?.delete(waiting) !== true) return;
    if (others.size === 0) this.#groups.delete(group);
    this.#count -= 1;
    this.#bytes -= waiting.bytes;
  }
}
