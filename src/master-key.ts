/** The master key when none is configured: created at the first start, in the data folder, readable by its owner. */
import { randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const FILE = 'master.key';

/** @returns the key, and whether it was created by this call and must be shown to the operator once */
export function loadOrCreateMasterKey(dataDir: string): { key: string; created: boolean } {
  const file = join(dataDir, FILE);
  try {
    const key = readFileSync(file, 'utf8').trim();
    if (key !== '') return { key, created: false };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const key = `sk-chancery-${randomBytes(24).toString('base64url')}`;
  writeFileSync(file, `${key}\n`, { mode: 0o600 });
  return { key, created: true };
}
