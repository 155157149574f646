import { randomInt } from 'node:crypto';
import { relative } from 'node:path';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { filesLeftOut, subjects } from './test/support/drawn-files.ts';

/** Of all random choices of the run (`test/support/seed.ts`). */
const seed = process.env['CHANCERY_TEST_SEED'] ?? String(randomInt(2 ** 31));
process.env['CHANCERY_TEST_SEED'] = seed;
console.log(`CHANCERY_TEST_SEED=${seed}`);

const isLong = process.env['CHANCERY_LONG_TESTS'] === '1';
const namesFiles = process.argv.slice(2).some((word) => /^(?!-).*\btest\b/.test(word));
const leftOut = isLong || namesFiles ? [] : filesLeftOut(import.meta.dirname, Number(seed));
if (leftOut.length > 0) console.log(`${leftOut.length} files are not in this run (test/support/drawn-files.ts)`);

const filesOf = (...names: string[]) => names.map((name) => `test/${name}.test.ts`);

/** They measure times, so nothing runs beside them. */
const measuring = filesOf('browser/first-start', 'browser/live-load');
const browser = filesOf('browser/**/*');
/** They measure their process as a whole, or change settings for all files of a process. */
const isolated = filesOf(
  'http/body-bounds',
  ...['attacks', 'clients/cached', 'clients/guarded', 'infra'].map((folder) => `${folder}/**/*`),
);

const slow = new Set(filesOf(...subjects.flatMap(({ files }) => files)));

/** Of the files of a project, those that start processes come first, so that none of them runs alone in the end. */
class SlowFilesFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const byProject = Map.groupBy(await super.sort(files), ({ project }) => project);
    const isSlow = ({ moduleId }: TestSpecification) => slow.has(relative(import.meta.dirname, moduleId));
    return [...byProject.values()].flatMap((all) => [...all.filter(isSlow), ...all.filter((one) => !isSlow(one))]);
  }
}

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
    sequence: { sequencer: SlowFilesFirst },
    // More than processors: many files also wait, for timers, disks and other processes.
    maxWorkers: 3,
    projects: [
      {
        extends: true,
        test: {
          name: 'gateway',
          include: filesOf('**/*'),
          exclude: [...browser, ...isolated, ...leftOut],
          // The files of a worker share its process and modules: to load a gateway takes longer than most tests.
          isolate: false,
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: { name: 'isolated', include: isolated, exclude: leftOut, sequence: { groupOrder: 0 } },
      },
      {
        extends: true,
        test: {
          name: 'browser',
          include: browser,
          exclude: [...measuring, ...leftOut],
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
          exclude: leftOut,
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
