/** What a start loads, in figures that do not depend on the speed of the machine. */
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { startGateway } from '../../bench/servers/gateway.ts';
import { prepareBundle } from '../../scripts/bundle.mjs';

/** Writes the address of each module that Node loads on the main thread, a line each. */
const recorder = (file: string) => `
import { appendFileSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { isMainThread } from 'node:worker_threads';
if (isMainThread) registerHooks({ load(url, context, next) { appendFileSync(${JSON.stringify(file)}, url + '\\n'); return next(url, context); } });
`;

const root = join(import.meta.dirname, '../..');
const MARGIN = 1.05;

describe('a start of the gateway', () => {
  it('is that of a bundle, and loads no more than before', async () => {
    expect(await prepareBundle(root, process.execPath)).toBeDefined();
    const workDir = mkdtempSync(join(tmpdir(), 'chancery-loaded-'));
    const [loaded, hook] = [join(workDir, 'loaded'), join(workDir, 'recorder.mjs')];
    writeFileSync(hook, recorder(loaded));
    const gateway = await startGateway({
      dataDir: join(workDir, 'data'),
      providers: {},
      env: { NODE_OPTIONS: `--import=${hook}` },
    });
    await gateway.stop();
    const urls = readFileSync(loaded, 'utf8').trim().split('\n');
    rmSync(workDir, { recursive: true, force: true, maxRetries: 5 });
    const files = urls.filter((url) => url.startsWith('file:')).map((url) => fileURLToPath(url));
    const kb = files.reduce((sum, file) => sum + statSync(file).size, 0) / 1024;
    const builtIn = urls.filter((url) => url.startsWith('node:'));
    expect(files.length).toBeLessThan(82 * MARGIN);
    expect(kb).toBeLessThan(4920 * MARGIN);
    expect(builtIn.length).toBeLessThan(118 * MARGIN);
  });
});
