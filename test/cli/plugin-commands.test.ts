import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, describe, expect, it } from 'vitest';
import { root } from '../e2e/gateway-process.ts';
import { pluginFolder, source } from '../plugins/plugin-files.ts';
import { main } from '../support/main-program.ts';

const cwd = mkdtempSync(join(tmpdir(), 'chancery-plugin-cli-'));
const { folder, remove } = pluginFolder({
  'throws.ts': source("prompt() { throw new Error('no'); }"),
  'needs.ts': source('prompt() {}', { facts: 'config: z.object({ word: z.string() }),' }),
  'broken.ts': 'export default {',
  'with-pipe/package.json': '{"exports":"./plugin.ts"}',
  'with-pipe/plugin.ts': source('prompt() {}'),
  'wrong.ts': source("request: () => ({ headers: { set: { authorization: 'x' } } })"),
});
for (const pipe of ['pipe.ts', 'with-pipe/pipe']) execFileSync('mkfifo', [join(folder, pipe)]);
afterAll(() => {
  rmSync(cwd, { recursive: true, force: true, maxRetries: 5 });
  remove();
});

async function run(program: readonly string[], at = cwd) {
  const child = spawn(process.execPath, program, { cwd: at, stdio: ['ignore', 'pipe', 'pipe'] });
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
  return { code, out, err };
}

const chancery = (...args: string[]) => run([main, 'plugin', ...args]);

describe('chancery plugin new', () => {
  it('writes a plugin that passes its own test and the check', async () => {
    const made = await chancery('new', 'My First');
    expect(made).toMatchObject({ code: 0, out: expect.stringContaining('plugin.ts') });
    const tested = await run(['--test'], join(cwd, 'My First'));
    expect(tested.out).toMatch(/pass 2\b/);
    expect(tested.code).toBe(0);
    const checked = await chancery('check', 'My First');
    expect(checked.out).toContain("loaded 'my-first'");
    expect(checked).toMatchObject({ code: 0, out: expect.stringMatching(/ok {6}prompt in .* ms: .*allow/) });
  });

  it('does not write into a folder with files', async () => {
    expect(await chancery('new', folder)).toMatchObject({ code: 1, err: expect.stringContaining('is not empty') });
  });
});

describe('chancery plugin check', () => {
  it.each([
    ['that cannot be loaded', 'broken.ts', /FAIL .*broken\.ts/],
    ['that does not exist', 'missing.ts', /there is no file/],
    ['that is a pipe', 'pipe.ts', /is no regular file/],
    ['with a pipe among its files', 'with-pipe', /is no regular file/],
    ['whose hook throws', 'throws.ts', /FAIL {4}prompt: the hook 'prompt' threw Error/],
    ['without a required setting', 'needs.ts', /FAIL {4}prompt: settings: word/],
    ['with a forbidden change', 'wrong.ts', /FAIL {4}request: .*authorization/],
  ])('fails for a plugin %s', async (_name, path, message) => {
    const { code, out } = await chancery('check', join(folder, path));
    expect(out).toMatch(message);
    expect(code).toBe(1);
  });

  it('takes settings', async () => {
    const { code, out } = await chancery('check', join(folder, 'needs.ts'), '--settings', '{"word":"x"}');
    expect(out).toMatch(/ok {6}prompt/);
    expect(code).toBe(0);
  });

  it.each(['project-names.ts', 'answer-notice', 'team-labels.ts'])('passes for the example %s', async (path) => {
    const settings = {
      'project-names.ts': '{"names":["Falcon"]}',
      'team-labels.ts': '{"teams":{"/sample":"a"}}',
    }[path];
    const given = settings === undefined ? [] : ['--settings', settings];
    const { code, out } = await chancery('check', join(root, 'infra', 'plugins', path), ...given);
    expect(out).not.toContain('FAIL');
    expect(code).toBe(0);
  });
});
