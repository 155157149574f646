import { randomNumbers } from '../../infra/simulated-provider/words.ts';

/** Random choices, the same for the same seed. */
export interface Random {
  /** A whole number from `least` to `most`, both included. */
  between(least: number, most: number): number;
  /** True in about `share` (0 to 1) of the cases. */
  happens(share: number): boolean;
  oneOf<const Choice>(choices: readonly [Choice, ...Choice[]]): Choice;
  /** A generator of its own, for a client that runs beside others. */
  fork(): Random;
}

export function createChance(seed: number): Random {
  const next = randomNumbers(seed);
  const between = (least: number, most: number) => least + (next() % (most - least + 1));
  return {
    between,
    happens: (share) => next() / 2 ** 32 < share,
    oneOf: (choices) => choices[between(0, choices.length - 1)] ?? choices[0],
    fork: () => createChance(next()),
  };
}
