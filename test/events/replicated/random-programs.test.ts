import fc from 'fast-check';
import { describe, it } from 'vitest';
import { countOf } from '../../support/seed.ts';
import { ProgramRun, programs } from './random-program.ts';

/** Raise it to search longer; a failure prints the program and the seed. */
const runs = countOf(20, 500, 'CHANCERY_TEST_RUNS');

describe('several handles on one log', { timeout: 180_000 }, () => {
  it.each([
    ['without faults', { appends: 0, readers: 0 }],
    ['with faults', { appends: 0.2, readers: 0.05 }],
    ['with very many faults', { appends: 0.6, readers: 0.3 }],
  ])('have equal logs, with every acknowledged append once and no refused one, %s', async (_, rates) => {
    await fc.assert(
      fc.asyncProperty(programs, async (program) => {
        const run = new ProgramRun(program.seed, rates);
        try {
          await run.play(program);
          await run.check();
        } finally {
          await run.dispose();
        }
      }),
      { numRuns: runs },
    );
  });
});
