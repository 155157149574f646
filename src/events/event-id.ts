/** Event ids: UUID version 7 (RFC 9562 §5.7), each greater than the one before it in the same process. */
import { randomFillSync } from 'node:crypto';

/** The time of day with a fraction: `Date.now()` counts whole milliseconds, and a millisecond holds many events. */
const toleratedDriftMs = 2;

let origin = performance.timeOrigin;

/**
 * Milliseconds since the epoch. Follows the system clock when that is set, and after the machine has slept, so it may step
 * backwards just as that does.
 */
export function wallClock(): number {
  const elapsed = performance.now();
  const drift = Date.now() - (origin + elapsed);
  // The process may have been stopped between the two readings: then the difference is that pause, and the next call
  // reads the system clock again.
  if (Math.abs(drift) > toleratedDriftMs && performance.now() - elapsed <= toleratedDriftMs) origin += drift;
  return origin + elapsed;
}

const pool = new Uint8Array(9 * 512);
let poolUsed = pool.length;

/** RFC 9562 §6.2 method 1: 26 bits that count within a millisecond, started at random with room to count up. */
const counterLimit = 2 ** 26;
let counter = 0;
let millisecond = 0;

export const eventIdBytes = 36;
/** The id that was minted last, as text. */
const latest = Buffer.from('00000000-0000-7000-8000-000000000000');

/** @param value of so many hexadecimal digits, at most 8 */
function writeDigits(at: number, digits: number, value: number): void {
  for (let digit = at + digits - 1, rest = value; digit >= at; digit--, rest >>>= 4) {
    const nibble = rest & 0xf;
    latest[digit] = nibble + (nibble < 10 ? 0x30 : 0x57);
  }
}

/** The last 48 bits are drawn anew with each millisecond; within one, the counter makes ids differ. */
function beginMillisecond(time: number): void {
  millisecond = time;
  if (poolUsed === pool.length) {
    randomFillSync(pool);
    poolUsed = 0;
  }
  const random = pool.subarray(poolUsed, poolUsed + 9);
  poolUsed += 9;
  counter = ((random[0] ?? 0) << 16) | ((random[1] ?? 0) << 8) | (random[2] ?? 0);
  for (let byte = 3; byte < 9; byte++) writeDigits(18 + 2 * byte, 2, random[byte] ?? 0);
  const high = Math.floor(time / 0x10000);
  writeDigits(0, 8, high);
  writeDigits(9, 4, time - high * 0x10000);
}

function mint(now: number): void {
  const time = Math.floor(now);
  if (time > millisecond) beginMillisecond(time);
  else if (++counter >= counterLimit) beginMillisecond(millisecond + 1);
  writeDigits(14, 4, 0x7000 | (counter >>> 14));
  writeDigits(19, 4, 0x8000 | (counter & 0x3fff));
}

/** @param now milliseconds since the epoch; a clock that goes backwards does not make the ids do so */
export function mintEventId(now = Date.now()): string {
  mint(now);
  return latest.toString('latin1');
}

/** As `mintEventId`, written as text to `buffer[offset]`. */
export function writeEventId(buffer: Buffer, offset: number, now: number): void {
  mint(now);
  buffer.set(latest, offset);
}
