/** Sets of IP networks, as texts in CIDR notation. */
import { BlockList, isIP, isIPv6, SocketAddress } from 'node:net';

/** A network as `10.0.0.0/8` or `::1/128`, from this notation or an address; undefined for other text. */
export function networkOf(text: string): string | undefined {
  const [address = '', bits, ...more] = text.trim().toLowerCase().split('/');
  const family = isIP(address);
  const most = family === 6 ? 128 : 32;
  const isNetwork = family !== 0 && !address.includes('%') && more.length === 0;
  if (!isNetwork || (bits !== undefined && !/^\d{1,3}$/.test(bits)) || Number(bits ?? 0) > most) return undefined;
  return `${address}/${Number(bits ?? most)}`;
}

/** In the form of RFC 5952, without a zone; of an IPv4-mapped address the IPv4 address. @param address a valid one */
export function canonicalAddress(address: string): string {
  if (!isIPv6(address)) return address;
  const [plain = ''] = address.split('%');
  return new SocketAddress({ family: 'ipv6', address: plain }).address.replace(/^::ffff:(?=\d+\.)/, '');
}

export function blockListOf(networks: Iterable<string>): BlockList {
  const list = new BlockList();
  for (const network of networks) {
    const [address = '', bits] = network.split('/');
    list.addSubnet(address, Number(bits), isIPv6(address) ? 'ipv6' : 'ipv4');
  }
  return list;
}

/** Made once for each list, which is never changed. */
const lists = new WeakMap<readonly string[], BlockList>();

/** Whether one of the networks contains the address. An IPv4-mapped IPv6 address counts as its IPv4 address. */
export function contains(networks: readonly string[], address: string | undefined): boolean {
  const [plain = ''] = address?.split('%') ?? [];
  const family = isIP(plain);
  if (family === 0) return false;
  let list = lists.get(networks);
  if (list === undefined) {
    list = blockListOf(networks);
    lists.set(networks, list);
  }
  return list.check(plain, family === 6 ? 'ipv6' : 'ipv4');
}

/** Whether every address of `narrow` is in a network of `wide`. An empty list contains every address. */
export function coversNetworks(wide: readonly string[], narrow: readonly string[]): boolean {
  if (wide.length === 0) return true;
  return narrow.length > 0 && narrow.every((one) => wide.some((other) => coversNetwork(other, one)));
}

function coversNetwork(wide: string, narrow: string): boolean {
  const [address = '', bits] = narrow.split('/');
  const [start = '', wideBits] = wide.split('/');
  return (
    isIP(address) === isIP(start) &&
    Number(wideBits) <= Number(bits) &&
    blockListOf([wide]).check(address, isIPv6(address) ? 'ipv6' : 'ipv4')
  );
}
