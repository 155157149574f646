import { randomInt } from 'node:crypto';
import { defineConfig } from 'vitest/config';

/** Of all random choices of the run (`test/support/seed.ts`). */
process.env['CHANCERY_TEST_SEED'] ??= String(randomInt(2 ** 31));
console.log(`CHANCERY_TEST_SEED=${process.env['CHANCERY_TEST_SEED']}`);

const filesOf = (...names: string[]) => names.map((name) => `test/${name}.test.ts`);

/** They measure times in Chromium, so they have one of their own. */
const measuring = filesOf('browser/first-start', 'browser/hostile', 'browser/live-load', 'browser/reconnect');
const browser = filesOf('browser/**/*');
/** They measure their process as a whole, or change settings for all files of a process. */
const isolated = filesOf(
  'http/body-bounds',
  ...['attacks', 'clients/cached', 'clients/guarded', 'infra'].map((folder) => `${folder}/**/*`),
);

export default defineConfig({
  test: {
    // The first only listens: the broker is started when a test asks for it. The second makes the bundle that tests start.
    globalSetup: ['test/support/shared-kafka.ts', 'test/support/main-program.ts'],
    setupFiles: ['test/support/declared-answers.ts'],
    pool: 'forks',
    testTimeout: 20_000,
    hookTimeout: 30_000,
    // The default of one second is too short on a busy machine. Only a failing test waits this long.
    expect: { poll: { timeout: 10_000 } },
    // More than processors: many files also wait, for timers, disks and other processes.
    maxWorkers: 3,
    projects: [
      {
        extends: true,
        test: {
          name: 'gateway',
          include: filesOf('**/*'),
          exclude: [...browser, ...isolated],
          // The files of a worker share its process and modules: to load a gateway takes longer than most tests.
          isolate: false,
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: { name: 'isolated', include: isolated, sequence: { groupOrder: 0 } },
      },
      {
        extends: true,
        test: {
          name: 'browser',
          include: browser,
          exclude: measuring,
          maxWorkers: 2,
          // The files share Chromium, and those that only read a gateway (`with-dashboard.ts`).
          isolate: false,
          // After all others, which would keep the processors busy.
          testTimeout: 60_000,
          // The first file of a day builds the seeded history.
          hookTimeout: 180_000,
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: {
          name: 'measuring',
          include: measuring,
          // One at a time, and nothing beside them.
          maxWorkers: 1,
          testTimeout: 60_000,
          hookTimeout: 180_000,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
});
