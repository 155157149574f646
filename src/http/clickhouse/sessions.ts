/**
 * Sessions of ClickHouse's HTTP interface, for clients that name one with every request. A reader changes nothing that
 * a later query could see, so a session consists of a name, an owner and an end. As in ClickHouse, its queries are
 * executed one at a time, and each one restarts the timeout.
 */
import { LRUCache } from 'lru-cache';
import { ClickHouseException } from './embedded-clickhouse.ts';

export interface SessionOf {
  readonly user: string;
  readonly id: string;
  /** As the client sent it; default 60. */
  readonly timeoutSeconds: string | undefined;
  /** Whether the session must already exist. */
  readonly mustExist: boolean;
}

interface Session {
  /** Milliseconds of the monotonic clock; infinite during a query. */
  endsAt: number;
  isBusy: boolean;
}

const USUAL_SECONDS = 60;
const MOST_SECONDS = 3600;
/** Of more sessions, the least recently used one is removed. */
const MAX_SESSIONS = 10_000;
const LONGEST_ID = 256;

export class ClickHouseSessions {
  readonly #sessions = new LRUCache<string, Session>({ max: MAX_SESSIONS });
  readonly #now: () => number;

  /** @param now milliseconds of a monotonic clock */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /**
   * Begins a query of the session.
   * @returns a function to call when the query has ended
   * @throws ClickHouseException 372 when it must exist and does not, 373 while another query of it runs, 374 for a
   *   timeout that is not a number of seconds up to an hour
   */
  enter({ user, id, timeoutSeconds, mustExist }: SessionOf): () => void {
    const seconds = secondsIn(timeoutSeconds);
    if (id.length > LONGEST_ID) {
      throw new ClickHouseException(
        36,
        `Code: 36. DB::Exception: the id of a session has at most ${LONGEST_ID} characters. (BAD_ARGUMENTS)`,
      );
    }
    const key = JSON.stringify([user, id]);
    const found = this.#sessions.get(key);
    const known = found !== undefined && found.endsAt > this.#now() ? found : undefined;
    if (known === undefined && mustExist) {
      throw new ClickHouseException(372, `Code: 372. DB::Exception: Session ${id} not found. (SESSION_NOT_FOUND)`);
    }
    if (known?.isBusy) {
      throw new ClickHouseException(
        373,
        `Code: 373. DB::Exception: Session ${id} is locked by a concurrent client. (SESSION_IS_LOCKED)`,
      );
    }
    const session: Session = { endsAt: Number.POSITIVE_INFINITY, isBusy: true };
    this.#sessions.set(key, session);
    return () => {
      session.isBusy = false;
      session.endsAt = this.#now() + seconds * 1000;
    };
  }
}

function secondsIn(timeout: string | undefined): number {
  if (timeout === undefined || timeout === '') return USUAL_SECONDS;
  const seconds = Number(timeout);
  if (Number.isInteger(seconds) && seconds > 0 && seconds <= MOST_SECONDS) return seconds;
  throw new ClickHouseException(
    374,
    `Code: 374. DB::Exception: Session timeout '${timeout.slice(0, 32)}' is not a number of seconds from 1 to ${MOST_SECONDS}. (INVALID_SESSION_TIMEOUT)`,
  );
}
