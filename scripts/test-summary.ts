/**
 * `node scripts/run.mjs scripts/test-summary.ts <vitest.json>…`: for each failed test its name and the beginning of the
 * reason, then `N passed, N failed, N skipped` of all files together.
 * Exits with 1 when something failed, or when no test ran.
 */
import { readFileSync } from 'node:fs';
import { stripVTControlCharacters } from 'node:util';
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
      message: z.string().default(''),
      assertionResults: z.array(
        z.object({ status: z.string(), fullName: z.string(), failureMessages: z.array(z.string()).nullish() }),
      ),
    }),
  ),
});

const paths = process.argv.slice(2);
if (paths.length === 0) throw new Error('usage: test-summary.ts <vitest.json>…');
const reports = paths.map((path) => report.parse(JSON.parse(readFileSync(path, 'utf8'))));
const files = reports.flatMap(({ testResults }) => testResults);

// A file that could not even be loaded has no failed test, but nothing in it was tested.
const broken = files.filter(
  ({ status, assertionResults }) => status === 'failed' && !assertionResults.some((one) => one.status === 'failed'),
);
for (const { name, message } of broken) console.log([`failed as a whole: ${name}`, ...beginning(message)].join('\n'));
for (const { name, assertionResults } of files) {
  for (const { status, fullName, failureMessages } of assertionResults) {
    if (status !== 'failed') continue;
    console.log([`failed: ${name}: ${fullName}`, ...(failureMessages ?? []).flatMap(beginning)].join('\n'));
  }
}

/** Enough of a message to see what has failed. */
function beginning(message: string): string[] {
  const lines = stripVTControlCharacters(message).trim().split('\n').slice(0, 12);
  return lines.filter((line) => line !== '').map((line) => `    ${line.slice(0, 200)}`);
}

const sumOf = (count: (one: z.infer<typeof report>) => number) => reports.reduce((sum, one) => sum + count(one), 0);
const passed = sumOf(({ numPassedTests }) => numPassedTests);
const failed = sumOf(({ numFailedTests }) => numFailedTests) + broken.length;
const skipped = sumOf(({ numPendingTests, numTodoTests }) => numPendingTests + numTodoTests);
console.log(`${passed} passed, ${failed} failed, ${skipped} skipped`);
process.exitCode = failed === 0 && reports.every(({ success }) => success) && passed > 0 ? 0 : 1;
