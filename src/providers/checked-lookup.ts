/**
 * Resolves host names for connections to providers that were set up at run time. The checked addresses are the ones
 * that are connected to, so a later change of the name's address has no effect.
 */
import { lookup as systemLookup } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { localKindOf } from './local-address.ts';

/** Error code of a refused lookup. */
export const LOCAL_ADDRESS = 'ERR_LOCAL_ADDRESS';

/** A lookup that fails with `LOCAL_ADDRESS` when any address of the name is not allowed for such providers. */
export function checkedLookup(lookup: LookupFunction = systemLookup): LookupFunction {
  return (hostname, options, callback) => {
    lookup(hostname, options, (error, address, family) => {
      if (error !== null) return callback(error, address, family);
      const addresses = typeof address === 'string' ? [address] : address.map((one) => one.address);
      const kind = addresses.map(localKindOf).find((one) => one !== undefined);
      if (kind === undefined) return callback(null, address, family);
      callback(Object.assign(new Error(`the name resolves to a ${kind} address`), { code: LOCAL_ADDRESS }), '', 0);
    });
  };
}

/** Names of loopback, whether or not a resolver knows them (RFC 6761 §6.3). */
const LOCALHOST = /^(.+\.)?localhost\.?$/;

/**
 * Checks an address in a URL, since a connection to it needs no lookup.
 * @throws Error when the address is not allowed
 */
export function checkHostOf(url: string): void {
  const kind = localKindIn(url);
  if (kind !== undefined) throw new Error(`its address is ${kind}: ${CURE}`);
}

/** Why the address in a URL is not allowed; undefined when it is, or when a lookup decides. */
export function localKindIn(url: string): string | undefined {
  const host = hostOf(url);
  if (LOCALHOST.test(host)) return 'loopback';
  return isIP(host) === 0 ? undefined : localKindOf(host);
}

export const CURE = 'declare the provider in the configuration, or set ALLOW_PRIVATE_PROVIDERS=true';

/** The host name or address of a URL; decimal, octal and hexadecimal forms of IPv4 become four decimal parts. */
export function hostOf(url: string): string {
  return new URL(url).hostname.replace(/^\[(.*)\]$/, '$1');
}
