/** Reads the position up to which analytics has announced batches, from outside its process. */
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../config/config.ts';
import { type AnalyticsAddress, createAnalyticsDb } from '../projections/analytics/analytics-db.ts';
import { loadOrCreateClickHousePasswords } from './clickhouse-passwords.ts';

const addressFile = (dataDir: string) => join(dataDir, 'clickhouse', 'address');

/** The address of the embedded ClickHouse, for other processes on this machine. */
export function noteAddress(dataDir: string, url: string): void {
  writeFileSync(addressFile(dataDir), `${url}\n`, { mode: 0o600 });
}

export function forgetAddress(dataDir: string): void {
  rmSync(addressFile(dataDir), { force: true });
}

/** Every event up to `position` is announced to ClickHouse, and stored except for the present batch. */
export async function announcedPosition({
  analytics,
  dataDir,
}: Config): Promise<{ readonly position: number } | { readonly unknown: string }> {
  if (!analytics.enabled) return { unknown: 'switched off here (ANALYTICS_ENABLED)' };
  const { url, user, password = '', database } = analytics.clickhouse;
  const address = url === undefined ? embeddedAddress(dataDir, database) : { url, username: user, password, database };
  if (address === undefined) return { unknown: 'its process does not run' };
  const db = createAnalyticsDb({ address: () => address, timeoutMs: 5000 });
  try {
    const [row] = await db.rows<{ position: string | null }>('SELECT max(to) AS position FROM $db._batches');
    return { position: Number(row?.position ?? 0) };
  } catch (error) {
    return { unknown: error instanceof Error ? error.message : String(error) };
  } finally {
    await db.close();
  }
}

function embeddedAddress(dataDir: string, database: string): AnalyticsAddress | undefined {
  try {
    const url = readFileSync(addressFile(dataDir), 'utf8').trim();
    return { url, username: 'gateway', password: loadOrCreateClickHousePasswords(dataDir).gateway, database };
  } catch {
    return undefined;
  }
}
