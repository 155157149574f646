/** The key under which providers' secrets are sealed: given by the operator, or made on first need and kept in the data folder. */
import { randomBytes } from 'node:crypto';
import { closeSync, fsyncSync, mkdirSync, openSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createSealer, type Sealer } from '../commands/credentials/seal.ts';
import type { SealerSource } from '../commands/credentials/sealed-credentials.ts';

const FILE = 'credentials.key';

export interface CredentialsKeyOptions {
  readonly dataDir: string;
  /** The key itself. */
  readonly key?: string | undefined;
  /** Where it is, when it is not in the data folder. It is never made there. */
  readonly keyFile?: string | undefined;
}

/**
 * Reads the key when it is first needed. A key that cannot be read stops no start: whoever needs it is told why.
 */
export function credentialsKey({ dataDir, key, keyFile }: CredentialsKeyOptions): SealerSource {
  let sealer: Sealer | undefined = key === undefined ? undefined : createSealer(key);
  const file = keyFile ?? join(dataDir, FILE);

  const read = (): Sealer | undefined => {
    let text: string;
    try {
      text = readFileSync(file, 'utf8').trim();
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
      throw new Error(`the key of the credentials cannot be read: ${whyNot(error)}`, { cause: error });
    }
    if (text.length < 32) throw new Error(`the key of the credentials in ${file} has fewer than 32 characters`);
    return createSealer(text);
  };

  return {
    toOpen() {
      sealer ??= read();
      if (sealer === undefined) throw new Error(`the key of the credentials is not there any more: ${file}`);
      return sealer;
    },
    toSeal() {
      sealer ??= read();
      if (sealer !== undefined) return sealer;
      if (keyFile !== undefined) throw new Error(`there is no key of the credentials in ${keyFile}`);
      const made = randomBytes(32).toString('base64url');
      mkdirSync(dataDir, { recursive: true, mode: 0o700 });
      keep(file, made);
      sealer = createSealer(made);
      return sealer;
    },
  };
}

/** On disk, and whole, before anything is sealed with it. */
function keep(file: string, key: string): void {
  const unfinished = `${file}.new`;
  writeFileSync(unfinished, `${key}\n`, { mode: 0o600, flush: true });
  renameSync(unfinished, file);
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
