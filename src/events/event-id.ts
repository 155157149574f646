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

const hex = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));
const pool = new Uint8Array(6 * 1024);
let poolUsed = pool.length;

/** RFC 9562 §6.2 method 1: 26 bits that count within a millisecond, started at random with room to count up. */
const counterLimit = 2 ** 26;
let counter = 0;
let millisecond = 0;
let timePrefix = '';
/** Drawn anew with each millisecond; within one, the counter makes ids differ. */
let random = '';

function nextRandom(): number {
  if (poolUsed === pool.length) {
    randomFillSync(pool);
    poolUsed = 0;
  }
  return pool[poolUsed++] ?? 0;
}

function beginMillisecond(time: number): void {
  millisecond = time;
  const time48 = time.toString(16).padStart(12, '0');
  timePrefix = `${time48.slice(0, 8)}-${time48.slice(8)}-`;
  counter = (nextRandom() << 16) | (nextRandom() << 8) | nextRandom();
  random = '';
  for (let byte = 0; byte < 6; byte++) random += hex[nextRandom()];
}

/** Advances the counter, and the time when it is later. */
function advance(now: number): void {
  const time = Math.floor(now);
  if (time > millisecond) beginMillisecond(time);
  else if (++counter >= counterLimit) beginMillisecond(millisecond + 1);
}

/** @param now milliseconds since the epoch; a clock that goes backwards does not make the ids do so */
export function mintEventId(now = Date.now()): string {
  advance(now);
  const high = 0x7000 | (counter >>> 14);
  const low = 0x8000 | (counter & 0x3fff);
  return `${timePrefix}${hex[high >>> 8]}${hex[high & 255]}-${hex[low >>> 8]}${hex[low & 255]}-${random}`;
}

/**
 * As `mintEventId`, written as text over the id that was minted before at `buffer[offset]`: of the same millisecond, only
 * the digits that count are written.
 */
export function writeEventId(buffer: Buffer, offset: number, now: number): void {
  const before = millisecond;
  advance(now);
  if (millisecond !== before) {
    buffer.write(timePrefix, offset, 'latin1');
    buffer.write(random, offset + 24, 'latin1');
  }
  writeDigits(buffer, offset + 14, 0x7000 | (counter >>> 14));
  writeDigits(buffer, offset + 19, 0x8000 | (counter & 0x3fff));
}

function writeDigits(buffer: Buffer, offset: number, value: number): void {
  for (let digit = 0; digit < 4; digit++) {
    const nibble = (value >>> (12 - 4 * digit)) & 0xf;
    buffer[offset + digit] = nibble + (nibble < 10 ? 0x30 : 0x57);
  }
}
