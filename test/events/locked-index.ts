import { rmSync } from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { onTestFinished } from 'vitest';

/**
 * Empties the stream index of a closed log and keeps it from being written, so that it stays incomplete for as long as
 * a test wants. Returns how to let it be written.
 */
export function emptyAndLockIndex(dir: string): () => void {
  const database = new DatabaseSync(path.join(dir, 'index.db'));
  database.exec('delete from places; delete from segments; delete from categories; begin immediate');
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
