/**
 * Secrets that must be the same at all gateways on a log. A gateway states a check value of each with its lease; the others
 * compare it with theirs. The check values are made with scrypt and a salt: who reads the log can only guess
 * secrets, at the cost of one scrypt for each guess.
 */
import { randomBytes, type ScryptOptions, scrypt, timingSafeEqual } from 'node:crypto';

export interface SharedSecrets {
  readonly credentialsKey: string;
  /** Undefined: requests need no key. */
  readonly masterKey: string | undefined;
}

/** Base64. */
export interface SecretChecks {
  readonly salt: string;
  readonly credentialsKey: string;
  readonly masterKey: string;
}

export type DifferentSecret = keyof SharedSecrets;

const BYTES = 32;
/** 16 MiB and about 40 ms for one. */
const cost: ScryptOptions = { N: 16384, r: 8, p: 1 };

/** @param salt that of another gateway, so that one comparison serves for all */
export async function checksOf(
  { credentialsKey, masterKey }: SharedSecrets,
  salt = randomBytes(16).toString('base64'),
): Promise<SecretChecks> {
  return {
    salt,
    credentialsKey: await checkOf('credentials key', credentialsKey, salt),
    masterKey: await checkOf(masterKey === undefined ? 'no master key' : 'master key', masterKey ?? '', salt),
  };
}

/** The secret of which another gateway has a different one. */
export async function differentSecret(
  secrets: SharedSecrets,
  mine: SecretChecks,
  other: SecretChecks,
): Promise<DifferentSecret | undefined> {
  const own = mine.salt === other.salt ? mine : await checksOf(secrets, other.salt);
  if (!isEqual(own.credentialsKey, other.credentialsKey)) return 'credentialsKey';
  return isEqual(own.masterKey, other.masterKey) ? undefined : 'masterKey';
}

function checkOf(purpose: string, secret: string, salt: string): Promise<string> {
  const salted = Buffer.concat([Buffer.from(`chancery ${purpose} `), Buffer.from(salt, 'base64')]);
  return new Promise((resolve, reject) => {
    scrypt(secret, salted, BYTES, cost, (error, key) => (error ? reject(error) : resolve(key.toString('base64'))));
  });
}

function isEqual(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)];
  return a.length === b.length && timingSafeEqual(a, b);
}
