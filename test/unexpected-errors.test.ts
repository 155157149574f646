import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { pathToFileURL } from 'node:url';
import { describe, expect, it, onTestFinished } from 'vitest';

/** Runs a module in a process that does not end by itself. */
async function runForever(source: string): Promise<{ code: number | null; stderr: string }> {
  const base = pathToFileURL(`${import.meta.dirname}/`).href;
  const script = `
    import { createDiagnostics } from '${new URL('../src/wiring/diagnostics.ts', base)}';
    import { watchUnexpectedErrors } from '${new URL('../src/wiring/unexpected-errors.ts', base)}';
    setInterval(() => {}, 1_000);
    const watched = watchUnexpectedErrors(createDiagnostics({ level: 'info', format: 'json' }), 500);
    ${source}`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  const [stderr, [code]] = await Promise.all([text(child.stderr), once(child, 'exit')]);
  return { code, stderr };
}

const withCause = `new Error('the outer error', { cause: new Error('the inner error') })`;

describe('watchUnexpectedErrors', () => {
  it.each([
    ['a rejected promise without a handler', `Promise.reject(${withCause});`],
    ['an exception that is not caught', `setImmediate(() => { throw ${withCause}; });`],
  ])('logs %s with its cause, and ends a process that does not stop by itself with code 1', async (_what, source) => {
    const { code, stderr } = await runForever(source);
    const logged = JSON.parse(stderr);
    expect(logged).toMatchObject({ level: 60, err: { stack: expect.stringContaining('the outer error') } });
    expect(logged.err.stack).toContain('the inner error');
    expect(code).toBe(1);
  });

  it('logs the stack also of an error that is a condition of operation', async () => {
    const { stderr } = await runForever(`setImmediate(() => {
      throw Object.assign(new Error('ENOENT: no such file'), { code: 'ENOENT' });
    });`);
    expect(JSON.parse(stderr).err.stack).toContain('ENOENT: no such file');
  });

  it('leaves the process the time to stop by itself, and counts later errors', async () => {
    const { code, stderr } = await runForever(`
      watched.first.then((what) => {
        setImmediate(() => { process.stderr.write(what + ' ' + watched.count); process.exit(7); });
        Promise.reject('no error at all');
      });
      Promise.reject(${withCause});`);
    expect(stderr).toContain('no error at all');
    expect(stderr).toMatch(/not handled 2$/);
    expect(code).toBe(7);
  });
});
