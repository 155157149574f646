/** The digest of a plugin: SHA-256 over the names and contents of its files. */
import { createHash } from 'node:crypto';
import { lstatSync, statSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';

const MAX_FILES = 10_000;
const MAX_BYTES = 256 * 1024 * 1024;

/**
 * Covers a single module, or every file of a package except `node_modules` and folders whose names begin with a dot.
 * The lock file of a package stands for its dependencies. @throws Error for a package that is too large, or has files that are not regular
 */
export async function digestOf(root: string): Promise<string> {
  const isFolder = lstatSync(root).isDirectory();
  const files = isFolder ? await filesIn(root) : [root];
  const hash = createHash('sha256');
  let bytes = 0;
  for (const file of files) {
    const found = statSync(file);
    if (!found.isFile()) throw new Error(`${file} is no regular file`);
    bytes += found.size;
    if (bytes > MAX_BYTES) throw new Error(`${root} has more than ${MAX_BYTES} bytes`);
    const content = await readFile(file);
    const name = isFolder ? relative(root, file).split(sep).join('/') : '';
    hash.update(`${name.length} ${name} ${content.length}\n`).update(content);
  }
  return hash.digest('hex');
}

/** Sorted by name, so that the digest does not depend on the file system. */
async function filesIn(folder: string): Promise<string[]> {
  const found: string[] = [];
  const folders = [folder];
  for (let at = folders.pop(); at !== undefined; at = folders.pop()) {
    for (const entry of await readdir(at, { withFileTypes: true })) {
      const path = join(at, entry.name);
      if (entry.isDirectory()) {
        if (entry.name !== 'node_modules' && !entry.name.startsWith('.')) folders.push(path);
      } else {
        found.push(path);
      }
    }
    if (found.length > MAX_FILES) throw new Error(`${folder} has more than ${MAX_FILES} files`);
  }
  return found.sort();
}
