/** Numbers that look random and are the same in every run. */
export interface Random {
  /** At least 0, below 1. */
  next(): number;
  /** An integer from 0 to `below` - 1. */
  below(limit: number): number;
  pick<T>(values: readonly [T, ...T[]]): T;
  /** True in `share` of the calls. */
  chance(share: number): boolean;
}

/** mulberry32 */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (limit: number) => Math.floor(next() * limit);
  return {
    next,
    below,
    pick: (values) => values[below(values.length)] ?? values[0],
    chance: (share) => next() < share,
  };
}
