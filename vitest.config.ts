import { defineConfig } from 'vitest/config';

const browser = 'test/browser/**/*.test.ts';

export default defineConfig({
  test: {
    // Only listens: the broker is started when a test asks for it.
    globalSetup: ['test/support/shared-kafka.ts'],
    setupFiles: ['test/support/declared-answers.ts'],
    // A process per file: tests open logs, listen on ports and send themselves signals.
    pool: 'forks',
    testTimeout: 20_000,
    hookTimeout: 30_000,
    // The default of one second is too short on a busy machine. Only a failing test waits this long.
    expect: { poll: { timeout: 10_000 } },
    projects: [
      {
        extends: true,
        test: {
          name: 'gateway',
          include: ['test/**/*.test.ts'],
          exclude: [browser],
          maxWorkers: 2,
          sequence: { groupOrder: 0 },
        },
      },
      {
        // After all others and one at a time: they measure times in Chromium beside a gateway.
        extends: true,
        test: {
          name: 'browser',
          include: [browser],
          maxWorkers: 1,
          testTimeout: 60_000,
          // The first file of a day builds the seeded history.
          hookTimeout: 180_000,
          sequence: { groupOrder: 1 },
          // ADR 103: `.ci/run` only, which names each test that needed it.
          retry: Number(process.env['BROWSER_TEST_RETRIES'] ?? 0),
        },
      },
    ],
  },
});
