/**
 * Resolves host names for connections to providers that were set up at run time. The addresses that are checked are the
 * ones that are connected to, so a name that resolves to another address later changes nothing.
 */
import { lookup as systemLookup } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { localKindOf } from './local-address.ts';

/** The code of the error of a lookup that is refused. */
export const LOCAL_ADDRESS = 'ERR_LOCAL_ADDRESS';

/** A lookup that fails with `LOCAL_ADDRESS` when any of the addresses of a name is one that no such provider may be at. */
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

/** Names that mean loopback, whether or not a resolver knows them (RFC 6761 §6.3). */
const LOCALHOST = /^(.+\.)?localhost\.?$/;

/**
 * A connection to an address needs no lookup, so an address in a URL is checked before.
 * @throws Error when no provider may be there
 */
export function checkHostOf(url: string): void {
  const host = hostOf(url);
  const kind = LOCALHOST.test(host) ? 'loopback' : isIP(host) === 0 ? undefined : localKindOf(host);
  if (kind !== undefined) throw new Error(`its address is ${kind}: ${CURE}`);
}

export const CURE = 'declare the provider in the configuration, or set ALLOW_PRIVATE_PROVIDERS=true';

/** The host name or address of a URL; decimal, octal and hexadecimal forms of IPv4 come out in four decimal parts. */
export function hostOf(url: string): string {
  return new URL(url).hostname.replace(/^\[(.*)\]$/, '$1');
}
