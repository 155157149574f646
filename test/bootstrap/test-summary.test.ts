import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';

const script = join(import.meta.dirname, '..', '..', 'scripts', 'test-summary.ts');

interface FileResult {
  readonly name: string;
  readonly status: 'passed' | 'failed';
  readonly message?: string;
  readonly assertionResults: readonly {
    readonly status: string;
    readonly fullName: string;
    readonly failureMessages?: readonly string[];
  }[];
}

function summary(passed: number, failed: number, testResults: readonly FileResult[] = [], success = failed === 0) {
  const report = {
    numPassedTests: passed,
    numFailedTests: failed,
    numPendingTests: 2,
    numTodoTests: 1,
    success,
    testResults,
  };
  return summaryOf(report);
}

function summaryOf(...reports: object[]) {
  const folder = mkdtempSync(join(tmpdir(), 'chancery-summary-'));
  const paths = reports.map((report, at) => {
    const path = join(folder, `${at}.json`);
    writeFileSync(path, JSON.stringify(report));
    return path;
  });
  const { status, stdout } = spawnSync(process.execPath, [script, ...paths], { encoding: 'utf8' });
  rmSync(folder, { recursive: true });
  return { status, lines: stdout.trim().split('\n') };
}

describe('the last line of .ci/run', () => {
  test('has the numbers of passed, failed and skipped tests', () => {
    expect(summary(5, 0)).toEqual({ status: 0, lines: ['5 passed, 0 failed, 3 skipped'] });
  });

  test('has the sums of all parts of a run, of which each can fail it', () => {
    const part = {
      numPassedTests: 4,
      numFailedTests: 0,
      numPendingTests: 2,
      numTodoTests: 0,
      success: true,
      testResults: [],
    };
    const failed = { ...part, numFailedTests: 1, success: false };
    expect(summaryOf(part, part)).toEqual({ status: 0, lines: ['8 passed, 0 failed, 4 skipped'] });
    expect(summaryOf(part, failed)).toEqual({ status: 1, lines: ['8 passed, 1 failed, 4 skipped'] });
  });

  test('a failed test fails the run and is named', () => {
    const assertionResults = [
      { status: 'passed', fullName: 'a sum of one' },
      {
        status: 'failed',
        fullName: 'a sum of two',
        failureMessages: ['\u001b[31mexpected 3 to be 2\u001b[0m\n  at a.test.ts:5'],
      },
    ];
    const file: FileResult = { name: 'a.test.ts', status: 'failed', assertionResults };
    expect(summary(4, 1, [file])).toEqual({
      status: 1,
      lines: [
        'failed: a.test.ts: a sum of two',
        '    expected 3 to be 2',
        '      at a.test.ts:5',
        '4 passed, 1 failed, 3 skipped',
      ],
    });
  });

  test('a file that could not be loaded counts as failed and is named', () => {
    const message = `no module b\n${'x'.repeat(1_000)}`;
    const file: FileResult = { name: 'a.test.ts', status: 'failed', message, assertionResults: [] };
    expect(summary(5, 0, [file], false)).toEqual({
      status: 1,
      lines: [
        'failed as a whole: a.test.ts',
        '    no module b',
        `    ${'x'.repeat(200)}`,
        '5 passed, 1 failed, 3 skipped',
      ],
    });
  });

  test('an error outside of any test fails the run', () => {
    expect(summary(5, 0, [], false).status).toBe(1);
  });

  test('a run without tests fails', () => {
    expect(summary(0, 0).status).toBe(1);
  });
});
