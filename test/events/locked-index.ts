import { readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { onTestFinished } from 'vitest';
import { openIndexFile } from '../../src/events/embedded/archive/index-file.ts';

/**
 * Empties the stream index of a closed log and keeps it from being written, so that it stays incomplete for as long as
 * a test wants. Returns how to let it be written.
 */
export function emptyAndLockIndex(dir: string): () => void {
  removeIndex(dir);
  const { mark } = JSON.parse(readFileSync(path.join(dir, 'log.json'), 'utf8'));
  const database = openIndexFile(dir, Number.parseInt(mark, 16));
  database.exec('begin immediate');
  let locked = true;
  const unlock = () => {
    if (locked) database.close();
    locked = false;
  };
  onTestFinished(unlock);
  return unlock;
}

export function removeIndex(dir: string): void {
  for (const suffix of ['', '-wal', '-shm']) rmSync(path.join(dir, `index.db${suffix}`), { force: true });
}
