/**
 * Encrypts a provider's secrets for the log, from which nothing can be removed. The key is not in the log: destroying
 * the key destroys the secrets.
 * AES-256-GCM; the names of the provider and of the field are authenticated, so that a sealed text is valid in its
 * place only. The nonce is derived from the text under a second key: the same secret in the same place gives the same
 * sealed text, so that a command without effect is recognised without decryption. Without the key, a reader of the
 * log learns only whether a secret is the same as before.
 */
import { createCipheriv, createDecipheriv, createHash, createHmac, hkdfSync } from 'node:crypto';

const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const VERSION = 'v1';

export interface Sealer {
  /** Short public id of the key; the same key has the same id everywhere. */
  readonly keyId: string;
  seal(provider: string, field: string, secret: string): string;
  /** @throws Error with the reason why it cannot be opened, without any of the content */
  open(provider: string, field: string, sealed: string): string;
}

/** @param secret at least 32 characters that cannot be guessed */
export function createSealer(secret: string): Sealer {
  const derived = (purpose: string) =>
    Buffer.from(hkdfSync('sha256', secret, '', `chancery credentials ${purpose}`, 32));
  const encryptionKey = derived('encryption');
  const nonceKey = derived('nonce');
  const keyId = createHash('sha256').update(derived('id')).digest('hex').slice(0, 8);
  return {
    keyId,
    seal(provider, field, text) {
      const place = placeOf(provider, field);
      const nonce = createHmac('sha256', nonceKey).update(place).update(text).digest().subarray(0, NONCE_BYTES);
      const cipher = createCipheriv('aes-256-gcm', encryptionKey, nonce).setAAD(place);
      const bytes = Buffer.concat([nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]);
      return `${VERSION}.${keyId}.${bytes.toString('base64url')}`;
    },
    open(provider, field, sealed) {
      const of = keyIdOf(sealed);
      if (of !== keyId) throw new Error(`it was sealed with the key ${of}, and the key at hand is ${keyId}`);
      const bytes = Buffer.from(sealed.slice(sealed.lastIndexOf('.') + 1), 'base64url');
      try {
        const nonce = bytes.subarray(0, NONCE_BYTES);
        const decipher = createDecipheriv('aes-256-gcm', encryptionKey, nonce, { authTagLength: TAG_BYTES });
        decipher.setAAD(placeOf(provider, field)).setAuthTag(bytes.subarray(-TAG_BYTES));
        return decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES), undefined, 'utf8') + decipher.final('utf8');
      } catch {
        throw new Error('it is damaged, or was sealed for another provider or field');
      }
    },
  };
}

/** The id of the key that a text was sealed with. */
export function keyIdOf(sealed: string): string {
  const [version, id] = sealed.split('.');
  return version === VERSION && id !== undefined ? id : 'unknown';
}

/** The place that a sealed text is bound to. Each part is preceded by its length, so that no two places are equal. */
function placeOf(provider: string, field: string): Buffer {
  return Buffer.from(`${provider.length}:${provider}${field.length}:${field}`);
}
