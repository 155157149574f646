/** Refuses a local address of a provider or of a guardrail's server when it is set, instead of at its first request. */
import { lookup as systemLookup } from 'node:dns';
import type { LookupFunction } from 'node:net';
import { CURE, checkedLookup, hostOf, LOCAL_ADDRESS, localKindIn } from '../../providers/checked-lookup.ts';
import { providerType } from '../../providers/types.ts';
import { refusals } from '../refusal.ts';
import type { CredentialBody } from './credential-fields.ts';

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
      if (url === undefined || url === '' || !(await isLocal(url))) continue;
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
