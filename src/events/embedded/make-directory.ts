import { existsSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import { type Disk, syncDirectory } from './disk.ts';

/** Creates the directory, and those above it, so that they survive a power cut. @throws what the file system throws */
export async function makeDirectory(disk: Disk, dir: string): Promise<void> {
  // Node's own recursive creation does not end in /proc.
  const missing: string[] = [];
  for (let at = path.resolve(dir); !existsSync(at); at = path.dirname(at)) missing.unshift(at);
  for (const one of missing) createDirectory(one);
  for (const one of missing.toReversed()) await syncDirectory(disk, path.dirname(one));
}

function createDirectory(dir: string): void {
  try {
    mkdirSync(dir, { mode: 0o700 });
  } catch (error) {
    // another process was faster
    if (!existsSync(dir)) throw error;
  }
}
