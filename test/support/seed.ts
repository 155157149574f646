/** How many random cases a test plays, and from which seed: `npm run test:long` plays more. */
import { randomInt } from 'node:crypto';

/** Another one for each run unless `CHANCERY_TEST_SEED` repeats an earlier one. */
export function newSeed(): number {
  const seed = Number(process.env['CHANCERY_TEST_SEED'] ?? randomInt(2 ** 31));
  console.log(`CHANCERY_TEST_SEED=${seed}`);
  return seed;
}

/** Set by `npm run test:long`. */
export const isLong = process.env['CHANCERY_LONG_TESTS'] === '1';

/** @param variable of the environment that overrides both numbers */
export function countOf(usual: number, long: number, variable?: string): number {
  const given = variable === undefined ? undefined : process.env[variable];
  return given === undefined ? (isLong ? long : usual) : Number(given);
}
