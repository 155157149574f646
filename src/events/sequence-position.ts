/**
 * Positions between their two forms: at the edge, zero-padded decimal strings that sort as strings; inside the engines,
 * numbers. Consumers must read the strings as unsigned 64-bit integers. This version writes at most 2^53 − 1, the largest
 * integer that a number holds exactly, and refuses larger ones.
 */
import type { Position } from './event.ts';
import { START } from './log.ts';

const digits = 16;
const tailSize = 10_000;
const tails = Array.from({ length: tailSize }, (_, tail) => String(tail).padStart(4, '0'));
let cachedHead = -1;
let cachedPrefix = '';

export class InvalidPosition extends Error {
  readonly code = 'invalid_position';
  constructor(position: string) {
    super(`"${position}" is not a position of this log: expected a decimal number of at most ${digits} digits`);
  }
}

/** 16 digits; 0, the place before every event, is `START`. Runs once per event, hence the kept prefix. */
export function formatPosition(sequence: number): Position {
  if (sequence === 0) return START;
  const head = Math.floor(sequence / tailSize);
  if (head !== cachedHead) {
    cachedHead = head;
    cachedPrefix = String(head).padStart(digits - 4, '0');
  }
  return (cachedPrefix + tails[sequence - head * tailSize]) as Position;
}

/** The position just before an event: a read after it begins with that event. */
export function positionBefore(position: Position): Position {
  return formatPosition(Math.max(0, parsePosition(position) - 1));
}

/** Takes any decimal number, padded or not. @throws InvalidPosition */
export function parsePosition(position: string): number {
  const sequence = /^\d{1,16}$/.test(position) ? Number(position) : Number.NaN;
  if (!Number.isSafeInteger(sequence)) throw new InvalidPosition(position);
  return sequence;
}
