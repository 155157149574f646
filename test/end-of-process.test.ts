import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';

const run = promisify(execFile);
const module = join(import.meta.dirname, '../src/wiring/end-of-process.ts');

/** Runs statements in a process of its own. @returns its exit code and what it reported */
async function inProcess(statements: string): Promise<{ code: number; reported: string }> {
  const program = `
    import { createServer } from 'node:net';
    import { endSoon, orEnd } from ${JSON.stringify(module)};
    const report = (message) => console.error(message);
    ${statements}`;
  const args = ['--disable-warning=ExperimentalWarning', '--input-type=module', '-e', program];
  return run(process.execPath, args, { timeout: 20_000 }).then(
    ({ stderr }) => ({ code: 0, reported: stderr }),
    ({ code, stderr }) => ({ code, reported: stderr }),
  );
}

describe('endSoon', () => {
  it('ends a process in which something is still open, and names it', async () => {
    const { code, reported } = await inProcess('createServer().listen(0); endSoon(3, report);');
    expect(code).toBe(3);
    expect(reported).toContain('still open: TCPServerWrap');
  });

  it('leaves the end to a process in which nothing is open', async () => {
    expect(await inProcess('endSoon(3, report);')).toEqual({ code: 0, reported: '' });
  });
});

describe('orEnd', () => {
  it('ends the process when the work takes too long', async () => {
    const { code, reported } = await inProcess(
      'createServer().listen(0); await orEnd(new Promise(() => {}), 100, report);',
    );
    expect(code).toBe(1);
    expect(reported).toMatch(/has not stopped within 0.1 s; the process ends. Still open: .*TCPServerWrap/);
  });

  it('returns the result of work that ends in time, and lets the process go on', async () => {
    const statements =
      "report(await orEnd(Promise.resolve('done'), 50, report)); await new Promise((resolve) => setTimeout(resolve, 200));";
    expect(await inProcess(statements)).toEqual({ code: 0, reported: 'done\n' });
  });
});
