/** A source of random choices that a run prints, so that it can be repeated with `CHANCERY_TEST_SEED`. */
import { seed } from '../support/seed.ts';

export interface Random {
  readonly seed: number;
  /** From 0 up to and without `below`. */
  int(below: number): number;
  pick<Value>(values: readonly [Value, ...Value[]]): Value;
}

export function newRandom(): Random {
  let state = seed >>> 0;
  /** mulberry32 */
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const int = (below: number): number => Math.floor(next() * below);
  return { seed, int, pick: (values) => values[int(values.length)] ?? values[0] };
}
