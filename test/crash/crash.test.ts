import { afterAll, expect, it } from 'vitest';
import { killAll, temporaryFolder } from '../e2e/gateway-process.ts';
import { runCrashRounds } from './rounds.ts';

const folder = temporaryFolder();
afterAll(() => {
  killAll();
  folder.remove();
});

const SEED = 20_260;

it(`loses nothing it acknowledged when it is killed under load again and again (seed ${SEED})`, async () => {
  const sum = await runCrashRounds({
    dataDir: folder.path,
    rounds: 7,
    seed: SEED,
    secondsPerRound: 0.8,
    clients: 12,
  });
  expect(sum.violations.slice(0, 20)).toEqual([]);
  // The rounds must have had load, and kills in the middle of it.
  expect(sum.kills).toBeGreaterThan(3);
  expect(sum.openAtKill).toBeGreaterThan(10);
  expect(sum.wholeAnswers).toBeGreaterThan(100);
  expect(sum.cutAnswers).toBeGreaterThan(10);
}, 150_000);
