/** The key that encrypts credentials must be set where several gateways can use the log. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from './config.ts';

type SharedKeyConfig = Pick<Config, 'log' | 'credentials' | 'dataDir'>;

/** Why a gateway with this configuration does not start; undefined when the key is set or not needed. */
export function missingSharedKey({ log, credentials, dataDir }: SharedKeyConfig): string | undefined {
  if (log.engine === undefined || credentials.key !== undefined || credentials.keyFile !== undefined) return undefined;
  const created = join(dataDir, 'credentials.key');
  const advice = existsSync(created)
    ? `set it to the content of ${created}, which the gateway created`
    : 'create one, for example with "openssl rand -base64 32"';
  return `all gateways on a log on an engine (LOG_URL) need the same key for credentials, and none is set; ${advice}`;
}
