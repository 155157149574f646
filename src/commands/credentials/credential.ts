/** Commands and events of a provider that an administrator sets up, and the sealing of its secrets. */

import { createCipheriv, createDecipheriv, createHash, createHmac, hkdfSync } from 'node:crypto';
import type { z } from 'zod';
import { providerCredentialRemoved, providerCredentialSaved } from '../../events/catalogue/provider.ts';
import { type EventContext, type NewEvent, type StreamName, streamName } from '../../events/event.ts';
import { evolveSaved } from '../administered.ts';
import type { Decider } from '../handle-command.ts';
import { Refusal, refusals } from '../refusal.ts';

/** All facts about the provider, as stated by its newest event. */
export type Credential = z.infer<typeof providerCredentialSaved.data>;

/** Keeps the stored secret: the client sent a mask in its place. */
export const KEPT = { kept: true } as const;

export interface UrlInput {
  /** The address as it may be shown. */
  readonly shown: string;
  /** The whole address, sealed, when a part of it may not be shown; `KEPT` when that part was masked. */
  readonly sealed: string | typeof KEPT | undefined;
}

type CredentialInput = Omit<
  Credential,
  'enabled' | 'apiKeys' | 'baseUrl' | 'sealedBaseUrl' | 'proxyUrl' | 'sealedProxyUrl'
> & {
  /** Undefined keeps the value; true for a new provider. */
  readonly enabled: boolean | undefined;
  readonly apiKeys: readonly (string | typeof KEPT)[];
  readonly baseUrl: UrlInput | undefined;
  readonly proxyUrl: UrlInput | undefined;
};

export type CredentialCommand = { readonly context: EventContext } & (
  | {
      readonly kind: 'save';
      readonly input: CredentialInput;
      /** The key that seals secrets now; secrets sealed with another key cannot be kept. */
      readonly keyId: string;
    }
  | { readonly kind: 'remove'; readonly name: string }
);

export function credentialStream(name: string): StreamName {
  return streamName('credential', name);
}

export const credentialDecider: Decider<Credential | undefined, CredentialCommand> = {
  initial: undefined,
  dependsOn: 'its stream',
  decide,
  evolve: evolveSaved(providerCredentialSaved, providerCredentialRemoved),
};

function decide(command: CredentialCommand, state: Credential | undefined): readonly NewEvent[] | Refusal {
  const { context } = command;
  if (command.kind === 'remove') {
    if (state === undefined) return refusals.notFound('provider credential', command.name);
    return [providerCredentialRemoved.create({ name: command.name }, context)];
  }
  const saved = merged(command.input, state, command.keyId);
  if (saved instanceof Refusal) return saved;
  return isSame(saved, state) ? [] : [providerCredentialSaved.create(saved, context)];
}

function merged(input: CredentialInput, state: Credential | undefined, keyId: string): Credential | Refusal {
  const apiKeys: string[] = [];
  for (const [place, key] of input.apiKeys.entries()) {
    const stored = key === KEPT ? state?.apiKeys[place] : key;
    if (typeof stored !== 'string') return nothingStored(`api_keys.${place}`);
    if (keyIdOf(stored) !== keyId) return lost(`api_keys.${place}`);
    apiKeys.push(stored);
  }
  const baseUrl = mergedUrl(input.baseUrl, state?.baseUrl, state?.sealedBaseUrl, 'base_url', keyId);
  if (baseUrl instanceof Refusal) return baseUrl;
  const proxyUrl = mergedUrl(input.proxyUrl, state?.proxyUrl, state?.sealedProxyUrl, 'proxy_url', keyId);
  if (proxyUrl instanceof Refusal) return proxyUrl;
  const { name, type, models, modelsMode, options } = input;
  return {
    name,
    type,
    enabled: input.enabled ?? state?.enabled ?? true,
    apiKeys,
    ...(input.baseUrl === undefined ? {} : { baseUrl: input.baseUrl.shown }),
    ...(baseUrl === undefined ? {} : { sealedBaseUrl: baseUrl }),
    ...(input.proxyUrl === undefined ? {} : { proxyUrl: input.proxyUrl.shown }),
    ...(proxyUrl === undefined ? {} : { sealedProxyUrl: proxyUrl }),
    models,
    ...(modelsMode === undefined ? {} : { modelsMode }),
    options,
  };
}

/**
 * A masked address must equal the stored one in all visible parts, so that its password is not sent to another host.
 */
function mergedUrl(
  input: UrlInput | undefined,
  shown: string | undefined,
  sealed: string | undefined,
  param: string,
  keyId: string,
): string | undefined | Refusal {
  if (typeof input?.sealed !== 'object') return input?.sealed;
  if (sealed === undefined || input.shown !== shown) return nothingStored(param);
  return keyIdOf(sealed) === keyId ? sealed : lost(param);
}

function nothingStored(param: string): Refusal {
  return refusals.invalidRequest(`'${param}' is a mask, but no secret is stored for it.`, param);
}

function lost(param: string): Refusal {
  return refusals.invalidRequest(
    `'${param}' is a mask, and the stored secret was encrypted with a key that is no longer available: send the secret again.`,
    param,
  );
}

function isSame(one: Credential, other: Credential | undefined): boolean {
  return other !== undefined && canonical(one) === canonical(other);
}

/** A text that is equal for equal content, whatever the order of the members. */
function canonical({ options, ...rest }: Credential): string {
  return JSON.stringify([Object.entries(rest).sort(byName), Object.entries(options).sort(byName)]);
}

function byName([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number {
  return a < b ? -1 : 1;
}

/**
 * Encrypts a provider's secrets for the log, from which nothing can be removed. The key is not in the log: destroying
 * the key destroys the secrets.
 * AES-256-GCM; the names of the provider and of the field are authenticated, so that a sealed text is valid in its
 * place only. The nonce is derived from the text under a second key: the same secret in the same place gives the same
 * sealed text, so that a command without effect is recognised without decryption. Without the key, a reader of the
 * log learns only whether a secret is the same as before.
 */
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
      return textOf(keyId, bytes);
    },
    open(provider, field, sealed) {
      const of = keyIdOf(sealed);
      if (of !== keyId) throw new Error(`it was sealed with the key ${of}, and the key at hand is ${keyId}`);
      const bytes = Buffer.from(sealed.slice(sealed.lastIndexOf('.') + 1), 'base64url');
      const damaged = new Error('it is damaged, or was sealed for another provider or field');
      // Node decodes other texts, too, as far as it can.
      if (textOf(keyId, bytes) !== sealed) throw damaged;
      try {
        const nonce = bytes.subarray(0, NONCE_BYTES);
        const decipher = createDecipheriv('aes-256-gcm', encryptionKey, nonce, { authTagLength: TAG_BYTES });
        decipher.setAAD(placeOf(provider, field)).setAuthTag(bytes.subarray(-TAG_BYTES));
        return decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES), undefined, 'utf8') + decipher.final('utf8');
      } catch {
        throw damaged;
      }
    },
  };
}

function textOf(keyId: string, bytes: Buffer): string {
  return `${VERSION}.${keyId}.${bytes.toString('base64url')}`;
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
