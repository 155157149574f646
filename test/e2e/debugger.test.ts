/** SIGUSR1, which opens the debugger of a usual Node, does nothing to the gateway. */
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, describe, expect, it } from 'vitest';
import { main } from '../support/main-program.ts';
import { ask, killAll, root, serve, temporaryFolder } from './gateway-process.ts';

const folder = temporaryFolder();
afterAll(() => {
  killAll();
  folder.remove();
});

const wrapper = join(root, 'scripts/run.mjs');
// A free port, so that a debugger that opens is always announced.
const anyPort = '--inspect-port=0';

describe('the gateway after SIGUSR1', () => {
  it.each([
    ['started directly', [process.execPath, anyPort, main, 'serve']],
    ['started by the wrapper', [process.execPath, wrapper, 'src/main.ts', 'serve']],
  ] as const)('has no debugger, %s', async (name, command) => {
    const { url, process: gateway } = await serve({ command, dataDir: join(folder.path, name) });
    gateway.kill('SIGUSR1');
    // Each gives an inspector the time to open.
    for (let n = 0; n < 20; n++) expect((await ask(url, '/v1/models')).status).toBe(200);
    gateway.kill('SIGTERM');
    expect(await gateway.exited).toEqual({ code: 0, signal: null });
    expect(gateway.stderr).not.toMatch(/[Dd]ebugger|inspector/);
  });

  it('cannot have one through the flag of the wrapper either', async () => {
    const file = join(folder.path, 'flags.mjs');
    writeFileSync(file, 'console.log(process.execArgv.join())');
    const { stdout } = await promisify(execFile)(process.execPath, [wrapper, file], { cwd: root });
    expect(stdout).toMatch('--disable-sigusr1');
  });
});
