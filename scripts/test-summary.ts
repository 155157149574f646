/**
 * `node scripts/run.mjs scripts/test-summary.ts <vitest.json>`: a line for each failed test, then
 * `N passed, N failed, N skipped`.
 * Exits with 1 when something failed, or when no test ran.
 */
import { readFileSync } from 'node:fs';
import { z } from 'zod';

const report = z.object({
  numPassedTests: z.number(),
  numFailedTests: z.number(),
  numPendingTests: z.number(),
  numTodoTests: z.number(),
  success: z.boolean(),
  testResults: z.array(
    z.object({
      name: z.string(),
      status: z.string(),
      assertionResults: z.array(z.object({ status: z.string(), fullName: z.string() })),
    }),
  ),
});

const [path] = process.argv.slice(2);
if (path === undefined) throw new Error('usage: test-summary.ts <vitest.json>');
const found = report.parse(JSON.parse(readFileSync(path, 'utf8')));

// A file that could not even be loaded has no failed test, but nothing in it was tested.
const broken = found.testResults.filter(
  ({ status, assertionResults }) => status === 'failed' && !assertionResults.some((one) => one.status === 'failed'),
);
for (const { name } of broken) console.log(`failed as a whole: ${name}`);
for (const { name, assertionResults } of found.testResults) {
  for (const { status, fullName } of assertionResults)
    if (status === 'failed') console.log(`failed: ${name}: ${fullName}`);
}

const failed = found.numFailedTests + broken.length;
const skipped = found.numPendingTests + found.numTodoTests;
console.log(`${found.numPassedTests} passed, ${failed} failed, ${skipped} skipped`);
process.exitCode = failed === 0 && found.success && found.numPassedTests > 0 ? 0 : 1;
