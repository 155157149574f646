/** Plays many histories, and reduces the first one that violates something to a smaller one. */
import fc from 'fast-check';
import { countOf, seed } from '../../support/seed.ts';
import { type History, histories, type Mutation, play } from './world.ts';

/** How many histories the tests play in all. */
export const HISTORIES = countOf(2_000, 100_000);
/** Histories that are played beside each other: more would outlive the young generation of the heap. */
const GROUP = 25;
/** Histories in which each fault of `faults.test.ts` is known to show. */
const SEED_OF_FAULTS = 21;

export interface Played {
  readonly histories: number;
  /** What has happened in them, counted. */
  readonly seen: Readonly<Record<string, number>>;
}

/** @throws Error with a small history that violates something */
export async function playHistories(): Promise<Played> {
  const seen: Record<string, number> = {};
  let count = 0;
  while (count < HISTORIES) {
    const group = fc.sample(histories, { numRuns: GROUP, seed: seed + count });
    const { failures, worlds } = await play(group);
    const [failure] = failures;
    if (failure !== undefined) throw await reduced(failure.history);
    for (const { checks } of worlds) {
      for (const [what, times] of Object.entries(checks.seen)) seen[what] = (seen[what] ?? 0) + times;
    }
    count += group.length;
  }
  return { histories: count, seen };
}

async function reduced(history: History): Promise<Error> {
  const property = fc.asyncProperty(histories, async (one) => {
    const { failures } = await play([one]);
    if (failures[0] !== undefined) throw failures[0].violation;
  });
  const found = await fc.check(property, { examples: [[history]], numRuns: 1 });
  const [smallest = history] = found.counterexample ?? [];
  return new Error(`a history violates a rule: ${JSON.stringify(smallest)}`, { cause: found.errorInstance });
}

/** @returns the first violation that a fault of the code leads to, among at most 20,000 of these histories */
export async function violationBy(mutation: Mutation, played = histories): Promise<string | undefined> {
  for (let count = 0; count < 20_000; count += GROUP) {
    const { failures } = await play(fc.sample(played, { numRuns: GROUP, seed: SEED_OF_FAULTS + count }), mutation);
    const [failure] = failures;
    if (failure !== undefined) return String((failure.violation as Error).message);
  }
  return undefined;
}
