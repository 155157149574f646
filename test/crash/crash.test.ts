import { afterAll, expect, it } from 'vitest';
import { killAll, temporaryFolder } from '../e2e/gateway-process.ts';
import { seed } from '../support/seed.ts';
import { runCrashRounds } from './rounds.ts';

const folder = temporaryFolder();
afterAll(() => {
  killAll();
  folder.remove();
});

/** Hundreds of rounds: `npm run test:crash`. */
const rounds = 2;

it(`loses nothing it acknowledged when it is killed under load again and again (seed ${seed})`, async () => {
  const sum = await runCrashRounds({
    dataDir: folder.path,
    rounds,
    seed,
    secondsPerRound: 0.8,
    leastAnswers: 6,
    clients: 12,
  });
  expect(sum.violations.slice(0, 20)).toEqual([]);
  expect(sum.rounds).toBe(rounds);
  // There was something to lose.
  expect(sum.wholeAnswers).toBeGreaterThan(10);
  expect(sum.socketTurns).toBeGreaterThan(0);
  expect(sum.reloads).toBeGreaterThan(0);
}, 150_000);
