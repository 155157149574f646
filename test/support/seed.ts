/**
 * The random choices of a run: its seed, how many random cases a test plays, and which part of a large table of alike
 * cases it tests. `npm run test:long` plays more, and tests all.
 */
import { createChance, type Random } from '../crash/random.ts';

/** Another one for each run, which prints it, unless `CHANCERY_TEST_SEED` repeats an earlier one (`vitest.config.ts`). */
export const seed = Number(process.env['CHANCERY_TEST_SEED'] ?? 0);

/** Set by `npm run test:long`. */
export const isLong = process.env['CHANCERY_LONG_TESTS'] === '1';

/** @param variable of the environment that overrides both numbers */
export function countOf(usual: number, long: number, variable?: string): number {
  const given = variable === undefined ? undefined : process.env[variable];
  return given === undefined ? (isLong ? long : usual) : Number(given);
}

/** Kinds of a case. A run tests at least one case of each: for example its route, and its malformed value. */
export type KindsOf<Case> = (one: Case) => readonly unknown[];

const ofOneKind: KindsOf<unknown> = () => ['any'];

/**
 * A random part of a table of alike cases, in its order; all of it with `npm run test:long`.
 * @param kindsOf default: all cases are of one kind
 * @param each how many cases of each kind there are at least, if the table has as many
 */
export function someOf<Case>(cases: readonly Case[], kindsOf: KindsOf<Case> = ofOneKind, each = 1): readonly Case[] {
  return isLong ? cases : coveringPart(cases, kindsOf, each, createChance(seed + cases.length));
}

/** Cases that are drawn until each kind has its number; a case that adds to no kind is left out. */
export function coveringPart<Case>(
  cases: readonly Case[],
  kindsOf: KindsOf<Case>,
  each: number,
  chance: Random,
): readonly Case[] {
  const left = [...cases];
  const drawn = new Set<Case>();
  const counts = new Map<unknown, number>();
  while (left.length > 0) {
    const [one] = left.splice(chance.between(0, left.length - 1), 1) as [Case];
    const kinds = kindsOf(one);
    if (kinds.every((kind) => (counts.get(kind) ?? 0) >= each)) continue;
    drawn.add(one);
    for (const kind of kinds) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  }
  return cases.filter((one) => drawn.has(one));
}

/** Every pair, for `someOf`. */
export function pairsOf<One, Other>(ones: readonly One[], others: readonly Other[]): (readonly [One, Other])[] {
  return ones.flatMap((one) => others.map((other) => [one, other] as const));
}
