/** `chancery plugin new`: a folder with a plugin that works, and its test. */
import { existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';

/** The folder of the gateway, which has the module `chancery/plugin`. */
const gateway = resolve(import.meta.dirname, '..', '..');

/** @returns the paths written. @throws Error when the folder is not empty */
export function writeStarter(folder: string): string[] {
  if (existsSync(folder) && readdirSync(folder).length > 0) throw new Error(`${folder} is not empty`);
  const name = basename(folder)
    .toLowerCase()
    .replaceAll(/[^a-z0-9_-]+/g, '-')
    .replace(/^[^a-z]+/, '')
    .slice(0, 64);
  const files = filesOf(name === '' ? 'my-plugin' : name);
  mkdirSync(join(folder, 'node_modules'), { recursive: true });
  for (const [path, content] of Object.entries(files)) writeFileSync(join(folder, path), content);
  // For the editor and for tests. The gateway itself needs no link.
  symlinkSync(gateway, join(folder, 'node_modules', 'chancery'), 'junction');
  return Object.keys(files).map((path) => join(folder, path));
}

function filesOf(name: string): Record<string, string> {
  const manifest = { name, version: '0.1.0', private: true, type: 'module', exports: './plugin.ts' };
  return {
    'package.json': `${JSON.stringify({ ...manifest, scripts: { test: 'node --test' } }, undefined, 2)}\n`,
    'plugin.ts': `import { definePlugin, z } from 'chancery/plugin';

/** Blocks requests that contain one of the words. */
export default definePlugin({
  name: '${name}',
  label: 'Forbidden words',
  version: '0.1.0',
  description: 'Blocks requests that contain one of the words.',
  config: z.object({
    words: z.array(z.string().min(1)).default(['confidential']),
  }),
  hooks: {
    prompt(texts, { config }) {
      const found = config.words.filter((word) => texts.some(({ text }) => text.includes(word)));
      if (found.length === 0) return;
      return {
        decision: 'block',
        code: 'forbidden_word',
        message: 'The request contains a forbidden word.',
        findings: { forbidden_word: found.length },
      };
    },
  },
});
`,
    'plugin.test.ts': `import assert from 'node:assert/strict';
import { test } from 'node:test';
import { testContext } from 'chancery/plugin';
import plugin from './plugin.ts';

const asked = (text: string) => [{ role: 'user' as const, kind: 'text' as const, message: 0, text }];

test('blocks a forbidden word', async () => {
  const verdict = await plugin.hooks.prompt?.(asked('This is confidential.'), testContext(plugin));
  assert.equal(verdict?.decision, 'block');
});

test('lets other requests pass', async () => {
  const verdict = await plugin.hooks.prompt?.(asked('Hello.'), testContext(plugin, { words: ['secret'] }));
  assert.equal(verdict, undefined);
});
`,
  };
}
