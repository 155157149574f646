/** Passwords of the embedded ClickHouse's users: made on the first start, kept in the data folder, for its owner only. */
import { randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';

const passwords = z.object({
  /** Writes the tables. */
  projector: z.string().min(1),
  /** Asks for the admin API. */
  gateway: z.string().min(1),
  /** Asks for people. */
  analyst: z.string().min(1),
});

export type ClickHousePasswords = z.infer<typeof passwords>;

export function clickHousePasswordFile(dataDir: string): string {
  return join(dataDir, 'clickhouse-passwords.json');
}

/** Makes them when the file is missing or does not read. */
export function loadOrCreateClickHousePasswords(dataDir: string): ClickHousePasswords {
  const file = clickHousePasswordFile(dataDir);
  try {
    return passwords.parse(JSON.parse(readFileSync(file, 'utf8')));
  } catch {
    const password = () => randomBytes(18).toString('base64url');
    const made = { projector: password(), gateway: password(), analyst: password() };
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
    const whole = `${file}.${process.pid}`;
    writeFileSync(whole, `${JSON.stringify(made, undefined, 2)}\n`, { mode: 0o600 });
    renameSync(whole, file);
    return made;
  }
}
