import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    setupFiles: ['test/support/declared-answers.ts'],
    // A process per file: tests open logs, listen on ports and send themselves signals.
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 20_000,
    hookTimeout: 30_000,
    // The default of one second is too short on a busy machine. Only a failing test waits this long.
    expect: { poll: { timeout: 10_000 } },
  },
});
