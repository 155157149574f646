/**
 * The fields of a provider's settings by its type, for the form of the dashboard and for the check; addresses in
 * them.
 */

import { lookup as systemLookup } from 'node:dns';
import type { LookupFunction } from 'node:net';
import { z } from 'zod';
import { CURE, checkedLookup, hostOf, LOCAL_ADDRESS, localKindIn } from '../../providers/checked-lookup.ts';
import { type ProviderType, providerType, providerTypes } from '../../providers/types.ts';
import { refusals } from '../refusal.ts';

const credentialField = z.object({
  name: z.string(),
  required: z.boolean(),
  advanced: z.boolean().describe('Most providers do not need it'),
  options: z.array(z.string()).readonly().optional(),
});

export const credentialTypeSchema = z.object({
  type: z.string(),
  default_base_url: z.string().optional(),
  fields: z.array(credentialField),
});

type CredentialField = z.infer<typeof credentialField>;
type CredentialType = z.infer<typeof credentialTypeSchema>;

const modelsModes = ['fallback', 'allowlist', 'merge'] as const;

/** The type's own settings: field name to the name of the provider's option. */
export function ownFields(type: string): ReadonlyMap<string, string> {
  const extra = providerType(type)?.extra ?? {};
  return new Map(Object.entries(extra).map(([name, option]) => [name.toLowerCase(), option]));
}

const allOwnFields = [...new Set(Object.keys(providerTypes).flatMap((type) => [...ownFields(type).keys()]))];

/** All types, by name. */
export const credentialTypes: readonly CredentialType[] = Object.entries(providerTypes)
  .map(([type, facts]) => ({
    type,
    ...(facts.defaultBaseUrl === undefined ? {} : { default_base_url: facts.defaultBaseUrl }),
    fields: fieldsOf(type, facts),
  }))
  .sort((a, b) => (a.type < b.type ? -1 : 1));

function fieldsOf(type: string, { keyless, requiresBaseUrl }: ProviderType): CredentialField[] {
  return [
    { name: 'api_keys', required: !keyless, advanced: false },
    { name: 'base_url', required: requiresBaseUrl, advanced: !requiresBaseUrl && !keyless },
    ...[...ownFields(type).keys()].map((name) => ({ name, required: false, advanced: name !== 'api_version' })),
    { name: 'models', required: false, advanced: true },
    { name: 'models_mode', required: false, advanced: true, options: modelsModes },
    { name: 'proxy_url', required: false, advanced: true },
  ];
}

const line = (most: number) => z.string().trim().max(most);
/** Text that is valid in an HTTP header. */
const headerText = z
  .union([line(1000), z.number()])
  .transform(String)
  .refine((text) => /^[\x20-\x7e]*$/.test(text), 'expected visible ASCII characters');
/** A key is put into a header unchanged. */
const key = line(8192).regex(/^[\x21-\x7e]+$/, 'expected a key, in visible ASCII characters without spaces');
const address = line(2048);

/** Typed without members of its own, because the table of types defines them. */
const own: object = Object.fromEntries(allOwnFields.map((name) => [name, headerText.optional()]));

/** The body of `PUT /admin/provider-credentials`. */
export const credentialSchema = z.strictObject({
  name: z.string(),
  type: z.string(),
  api_keys: z.array(key).max(100).optional().describe('A key that is sent as its mask keeps its stored value'),
  base_url: address.optional(),
  proxy_url: address.optional(),
  models: z.array(line(512).min(1)).max(10_000).optional(),
  models_mode: z.enum(modelsModes).optional(),
  session_sticky_keys: z.boolean().optional(),
  enabled: z.boolean().optional(),
  ...own,
});

export type CredentialBody = z.infer<typeof credentialSchema>;

// Addresses that may hold a secret: their visible form, and how a masked address is recognised.

/** Shown in place of a secret. */
export const MASK = '********';

/** Whether a text is a mask: three asterisks or more, and nothing else. */
export function isMask(text: string): boolean {
  return /^\*{3,}$/.test(text);
}

interface GivenUrl {
  /** The address with its password, its user name if there is no password, and the values of its query masked. */
  readonly shown: string;
  /** Whether a part of it may not be shown. */
  readonly hasSecret: boolean;
  /** Whether a part of it is a mask, so that the secret has to be taken from the stored address. */
  readonly isMasked: boolean;
}

export const urlSchemes = {
  base_url: ['http', 'https'],
  proxy_url: ['http', 'https', 'socks5', 'socks5h'],
} as const;

/** Undefined for a text that is not an absolute URL with one of the schemes. */
export function readUrl(text: string, schemes: readonly string[] = urlSchemes.base_url): GivenUrl | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || url.hostname === '' || !schemes.includes(url.protocol.slice(0, -1))) return undefined;
  const { username, password, search, hash } = url;
  const values = [...url.searchParams.values()].filter((value) => value !== '');
  const isMasked = [decoded(password === '' ? username : password), ...values].some(isMask);
  if (username === '' && password === '' && values.length === 0) return { shown: text, hasSecret: false, isMasked };
  const query = search.replace(/=[^&]+/g, `=${MASK}`);
  // A user name without a password is a token.
  const who = password !== '' ? `${username}:${MASK}` : username === '' ? '' : MASK;
  const path = url.pathname === '/' ? '' : url.pathname;
  const shown = `${url.protocol}//${who}${who === '' ? '' : '@'}${url.host}${path}${query}${hash}`;
  return { shown, hasSecret: true, isMasked };
}

/** The address without credentials and query, which may be shown everywhere. */
export function publicUrl(text: string): string {
  const url = new URL(text);
  url.username = '';
  url.password = '';
  url.search = '';
  return url.href;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// Refuses a local address of a provider or of a guardrail's server when it is set, instead of at its first request.

/** Milliseconds to wait for name resolution. A name that is not resolved by then is checked when it is connected to. */
const CHECK_TIMEOUT_MS = 3000;

export type CheckAddresses = (body: Pick<CredentialBody, 'type' | 'base_url' | 'proxy_url'>) => Promise<void>;

/**
 * @returns a check that throws Refusal 400 `provider_address_refused`; a name that cannot be resolved now is accepted
 */
export function addressesCheck(lookup: LookupFunction = systemLookup): CheckAddresses {
  const isLocal = localAddressCheck(lookup);
  return async ({ type, base_url, proxy_url }) => {
    // An empty address counts as missing: the default address of the type applies.
    const urls = { base_url: base_url || providerType(type)?.defaultBaseUrl, proxy_url };
    for (const [field, url] of Object.entries(urls)) {
      if (url === undefined || url === '' || url === 'none' || !(await isLocal(url))) continue;
      throw refusals.invalidRequest(
        `'${field}' resolves to a loopback, link-local or cloud metadata address: ${CURE}.`,
        field,
        'provider_address_refused',
      );
    }
  };
}

/**
 * @returns whether a valid URL has or resolves to a loopback, link-local or cloud metadata address; false for a name
 * that cannot be resolved now
 */
export function localAddressCheck(resolver: LookupFunction = systemLookup): (url: string) => Promise<boolean> {
  const lookup = checkedLookup(resolver);
  return async (url) => {
    if (localKindIn(url) !== undefined) return true;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const timer = setTimeout(resolve, CHECK_TIMEOUT_MS, false);
    lookup(hostOf(url), { all: true }, (error) => resolve(error?.code === LOCAL_ADDRESS));
    return promise.finally(() => clearTimeout(timer));
  };
}
