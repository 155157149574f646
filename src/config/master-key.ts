/** The master key when none is configured: created at the first start, in the data folder, readable by its owner. */
import { randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const FILE = 'master.key';

/** @returns the key, and whether it was created by this call and must be shown to the operator once */
export function loadOrCreateMasterKey(dataDir: string): { key: string; created: boolean } {
  const known = createdMasterKey(dataDir);
  if (known !== undefined) return { key: known, created: false };
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const key = `sk-chancery-${randomBytes(24).toString('base64url')}`;
  writeFileSync(join(dataDir, FILE), `${key}\n`, { mode: 0o600 });
  return { key, created: true };
}

/** Undefined when no start has created one in this folder. */
export function createdMasterKey(dataDir: string): string | undefined {
  try {
    return readFileSync(join(dataDir, FILE), 'utf8').trim() || undefined;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    return undefined;
  }
}
