/** Plugins for tests, written to a folder of their own. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

/** @param files contents by path. @returns the folder */
export function pluginFolder(files: Readonly<Record<string, string>>): { readonly folder: string; remove(): void } {
  const folder = mkdtempSync(join(tmpdir(), 'chancery-plugins-'));
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), content);
  }
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }) };
}

/** The source of a plugin with these hooks. @param head code before the plugin */
export function source(hooks: string, { name = 'p', head = '', facts = '' } = {}): string {
  return [
    "import { definePlugin, z } from 'chancery/plugin';",
    "import { writeSync } from 'node:fs';",
    head,
    `export default definePlugin({ name: '${name}', ${facts} hooks: { ${hooks} } });`,
  ].join('\n');
}

/** Whether a process with this id exists. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
