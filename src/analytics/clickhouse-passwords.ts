/**
 * Passwords of the embedded ClickHouse's readers: made at the first start, stored in the data folder.
 * Only its owner can read the file. The user that writes has a password too, which each analytics process makes and
 * keeps in memory.
 */
import { randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';

export const clickHousePasswords = z.object({
  /** Of the admin API. */
  gateway: z.string().min(1),
  /** The user for analysts. */
  analyst: z.string().min(1),
});

export type ClickHousePasswords = z.infer<typeof clickHousePasswords>;

export function clickHousePasswordFile(dataDir: string): string {
  return join(dataDir, 'clickhouse-passwords.json');
}

export function newPassword(): string {
  return randomBytes(18).toString('base64url');
}

/** Makes them when the file is missing or cannot be read. Other content of the file is removed. */
export function loadOrCreateClickHousePasswords(dataDir: string): ClickHousePasswords {
  const file = clickHousePasswordFile(dataDir);
  let found: unknown;
  try {
    found = JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    found = undefined;
  }
  const exact = z.strictObject(clickHousePasswords.shape).safeParse(found);
  if (exact.success) return exact.data;
  const known = clickHousePasswords.safeParse(found);
  const passwords = known.success ? known.data : { gateway: newPassword(), analyst: newPassword() };
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const whole = `${file}.${process.pid}`;
  writeFileSync(whole, `${JSON.stringify(passwords, undefined, 2)}\n`, { mode: 0o600 });
  renameSync(whole, file);
  return passwords;
}
