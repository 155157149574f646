/**
 * Resolves host names for connections to providers that were set up at run time. The checked addresses are the ones
 * that are connected to, so a later change of the name's address has no effect.
 */
import { lookup as systemLookup } from 'node:dns';
import { type BlockList, isIP, type LookupFunction } from 'node:net';
import { blockListOf } from '../network/networks.ts';

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
export const LOCALHOST = /^(.+\.)?localhost\.?$/;

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
  // Of other schemes than those of the web, the URL parser leaves the host as it is written.
  return new URL(url.replace(/^socks5h?:/i, 'http:')).hostname.replace(/^\[(.*)\]$/, '$1');
}

// Addresses that are not allowed for providers set up at run time: this machine, its link, and addresses that clouds
// serve only to their machines, for example with credentials. Private networks are allowed, since model servers are
// there.

type Kind = 'loopback' | 'link-local' | 'cloud metadata' | 'unusable';

const kinds: readonly (readonly [Kind, BlockList])[] = [
  // Metadata first: some of its addresses are in link-local ranges.
  [
    'cloud metadata',
    blockListOf([
      '169.254.169.254/32', // AWS, Azure, Google Cloud and others
      '169.254.170.2/32', // AWS ECS: credentials of a task
      '169.254.170.23/32', // AWS EKS: credentials of a pod
      '168.63.129.16/32', // Azure WireServer
      '100.100.100.200/32', // Alibaba Cloud
      '192.0.0.192/32', // Oracle Cloud
      'fd00:ec2::/32', // AWS, among them fd00:ec2::254
      'fd20:ce::254/128', // Google Cloud
      'fd00:42::42/128', // Scaleway
    ]),
  ],
  ['loopback', blockListOf(['127.0.0.0/8', '0.0.0.0/8', '::1/128', '::/128'])],
  ['link-local', blockListOf(['169.254.0.0/16', 'fe80::/10'])],
  ['unusable', blockListOf(['224.0.0.0/3', 'ff00::/8'])],
];

/** Ranges of IPv6 whose addresses contain an IPv4 address, and the index of the first of its two groups. */
const embedding: readonly (readonly [BlockList, number])[] = [
  [blockListOf(['::/96']), 6], // IPv4-compatible (RFC 4291 §2.5.5.1)
  [blockListOf(['::ffff:0:0/96']), 6], // IPv4-mapped (RFC 4291 §2.5.5.2)
  [blockListOf(['::ffff:0:0:0/96']), 6], // IPv4-translated (RFC 2765 §2.1)
  [blockListOf(['64:ff9b::/96', '64:ff9b:1::/48']), 6], // NAT64 (RFC 6052, RFC 8215)
  [blockListOf(['2002::/16']), 1], // 6to4 (RFC 3056)
];

/**
 * @param address IPv4 in four decimal parts or IPv6, as a resolver or the URL parser returns it
 * @returns why the address is not allowed; undefined when it is
 */
export function localKindOf(address: string): Kind | undefined {
  const [plain = ''] = address.split('%');
  const family = isIP(plain);
  if (family === 0) return 'unusable';
  const kind = kindIn(plain, family === 6 ? 'ipv6' : 'ipv4');
  if (kind !== undefined || family === 4) return kind;
  const place = embedding.find(([range]) => range.check(plain, 'ipv6'))?.[1];
  return place === undefined ? undefined : kindIn(ipv4In(plain, place), 'ipv4');
}

function kindIn(address: string, family: 'ipv4' | 'ipv6'): Kind | undefined {
  return kinds.find(([, list]) => list.check(address, family))?.[0];
}

function ipv4In(address: string, place: number): string {
  const [first = 0, second = 0] = groupsOf(address).slice(place);
  return [first >> 8, first & 255, second >> 8, second & 255].join('.');
}

/** The eight groups of an IPv6 address. */
function groupsOf(address: string): number[] {
  // The URL parser writes the last 32 bits in hexadecimal, whatever their form was.
  const written = new URL(`http://[${address}]`).hostname.slice(1, -1);
  const [head = '', tail] = written.split('::');
  const before = head === '' ? [] : head.split(':');
  const after = tail === undefined || tail === '' ? [] : tail.split(':');
  const zeros = Array.from({ length: 8 - before.length - after.length }, () => '0');
  return [...before, ...zeros, ...after].map((group) => Number.parseInt(group, 16));
}
