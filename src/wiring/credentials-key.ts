/** The key that seals providers' secrets: set by the operator, or created in the data folder when first needed. */
import { randomBytes } from 'node:crypto';
import { closeSync, fsyncSync, linkSync, mkdirSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createSealer, type Sealer } from '../commands/credentials/credential.ts';
import type { SealerSource } from '../commands/credentials/sealed-credentials.ts';
import type { SharedSecrets } from '../commands/gateways/shared-secrets.ts';
import { readBoundedFile } from '../config/bounded-file.ts';
import { type Config, missingSharedKey } from '../config/config.ts';

const FILE = 'credentials.key';

export interface CredentialsKeyOptions {
  readonly dataDir: string;
  /** The key itself. */
  readonly key?: string | undefined;
  /** Its file, when it is not in the data folder. The gateway never creates it there. */
  readonly keyFile?: string | undefined;
}

/**
 * Reads the key when it is first needed. An unreadable key does not prevent the start; each use of it throws the
 * reason.
 */
export function credentialsKey({ dataDir, key, keyFile }: CredentialsKeyOptions): SealerSource {
  let sealer: Sealer | undefined = key === undefined ? undefined : createSealer(key);
  const file = keyFile ?? join(dataDir, FILE);

  const read = (): Sealer | undefined => {
    const text = readKey(file);
    return text === undefined ? undefined : createSealer(text);
  };

  return {
    toOpen() {
      sealer ??= read();
      if (sealer === undefined) throw new Error(`the key that encrypts credentials is missing: ${file}`);
      return sealer;
    },
    toSeal() {
      sealer ??= read();
      if (sealer !== undefined) return sealer;
      if (keyFile !== undefined) throw new Error(`${keyFile} holds no key for credentials`);
      const made = randomBytes(32).toString('base64url');
      mkdirSync(dataDir, { recursive: true, mode: 0o700 });
      keep(file, made);
      sealer = createSealer(readKey(file) ?? made);
      return sealer;
    },
  };
}

/** The secrets that all gateways on a log on an engine must share; undefined where the log is in files. @throws Error with the reason */
export function sharedSecrets(
  config: Pick<Config, 'log' | 'credentials' | 'dataDir'>,
  masterKey: string | undefined,
): SharedSecrets | undefined {
  const missing = missingSharedKey(config);
  if (missing !== undefined) throw new Error(`CREDENTIALS_KEY: ${missing}`);
  if (config.log.engine === undefined) return undefined;
  const { key, keyFile } = config.credentials;
  const credentialsKey = key ?? (keyFile === undefined ? undefined : readKey(keyFile));
  if (credentialsKey === undefined) throw new Error(`the key that encrypts credentials is missing: ${keyFile}`);
  return { credentialsKey, masterKey };
}

/** Undefined when there is no such file. */
function readKey(file: string): string | undefined {
  let text: string;
  try {
    text = readBoundedFile(file).toString().trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw new Error(`the key that encrypts credentials cannot be read: ${whyNot(error)}`, { cause: error });
  }
  if (text.length < 32) throw new Error(`the key that encrypts credentials in ${file} has fewer than 32 characters`);
  return text;
}

/**
 * Writes the complete key to disk before anything is sealed with it. Of two workers that do so at the same time, the first
 * one's key stays.
 */
function keep(file: string, key: string): void {
  const unfinished = `${file}.${process.pid}.new`;
  writeFileSync(unfinished, `${key}\n`, { mode: 0o600, flush: true });
  try {
    linkSync(unfinished, file);
    rmSync(unfinished);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') rmSync(unfinished);
    // A file system without links.
    else renameSync(unfinished, file);
  }
  const folder = openSync(dirname(file), 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

function whyNot(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
