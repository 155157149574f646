/**
 * The client of a request, and the host that it requested, as trusted proxies state them. Only this file reads the address
 * of a connection and the headers of proxies: the record, the networks of keys and the check of origins all use it.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { isIP } from 'node:net';
import { canonicalAddress, contains } from '../network/networks.ts';

/** What is known of a connection beside its addresses. */
export interface Arrival {
  /** Of a Unix socket: its peer has no address. */
  readonly isLocal: boolean;
  /** Of the address for administration. */
  readonly isAdmin?: boolean;
  /** Of the client, as a trusted proxy has stated in the PROXY protocol. */
  readonly address?: string | undefined;
  /** Subject of the certificate that the client has presented, which was checked. */
  readonly subject?: string | undefined;
}

declare module 'node:net' {
  interface Socket {
    /** Undefined for a plain connection at an address. */
    arrival?: Arrival;
  }
}

/** The part of a request that names its client. */
export interface ArrivedRequest {
  readonly headers: IncomingHttpHeaders;
  readonly socket: { readonly remoteAddress?: string | undefined; readonly arrival?: Arrival };
}

export interface Clients {
  /** The client's IP address; undefined at a Unix socket, and when a trusted proxy states something else. */
  addressOf(request: ArrivedRequest): string | undefined;
  /** The host name, with its port, by which the client knows the gateway. */
  hostOf(request: ArrivedRequest): string | undefined;
}

export interface TrustedProxies {
  /** Networks of proxies whose headers are believed. */
  readonly networks: readonly string[];
  /** Whether the peers of a Unix socket are such proxies. */
  readonly local: boolean;
  /** In lower case: `x-forwarded-for`, `forwarded`, or the name of a header with a single address. */
  readonly header: string;
}

/** Proxies in a row. Of a longer list the client counts as unknown. */
const MAX_HOPS = 32;

/** Without trusted proxies: the peer is the client, and headers of proxies are only recorded. */
export const peers: Clients = {
  addressOf: ({ socket }) => peerOf(socket),
  hostOf: ({ headers }) => headers.host,
};

export function clientsBehind({ networks, local, header }: TrustedProxies): Clients {
  if (networks.length === 0 && !local) return peers;
  const isTrusted = ({ socket }: ArrivedRequest) => isTrustedPeer(socket, { networks, local });

  /**
   * The rightmost address that is not one of a trusted proxy: what is left of it may be invented. Where all are, the leftmost:
   * the first of the proxies is the client.
   */
  function inList(list: string, statedBy: string | undefined): string | undefined {
    let address = statedBy;
    let end = list.length;
    for (let hop = 0; end >= 0; hop++) {
      const start = startOfLast(list, end);
      address = hop === MAX_HOPS ? undefined : statedIn(list.slice(start, end));
      if (address === undefined || !contains(networks, address)) return address;
      end = start - 1;
    }
    return address;
  }

  const statedIn = (element: string) => addressIn(header === 'forwarded' ? parameterOf(element, 'for') : element);
  const isList = header === 'forwarded' || header === 'x-forwarded-for';
  return {
    addressOf(request) {
      const peer = peerOf(request.socket);
      const value = request.headers[header];
      if (value === undefined || !isTrusted(request)) return peer;
      return isList ? inList(String(value), peer) : addressIn(String(value));
    },
    hostOf(request) {
      const { host } = request.headers;
      const stated = header === 'forwarded' ? request.headers.forwarded : request.headers['x-forwarded-host'];
      if (stated === undefined || !isTrusted(request)) return host;
      const list = String(stated);
      const last = list.slice(startOfLast(list, list.length)).trim();
      return (header === 'forwarded' ? parameterOf(last, 'host') : last) || host;
    },
  };
}

/** Whether the connection itself is one of a trusted proxy. */
export function isTrustedPeer(
  socket: ArrivedRequest['socket'],
  { networks, local }: Pick<TrustedProxies, 'networks' | 'local'>,
): boolean {
  return socket.arrival?.isLocal === true && socket.arrival.address === undefined
    ? local
    : contains(networks, peerOf(socket));
}

/** What another process of the service has to know of a connection. */
export function arrivalOf(socket: ArrivedRequest['socket']): Arrival {
  const address = peerOf(socket);
  return { isLocal: false, ...socket.arrival, ...(address !== undefined && { address }) };
}

function peerOf({ arrival, remoteAddress }: ArrivedRequest['socket']): string | undefined {
  return arrival?.address ?? remoteAddress;
}

/** Where the last element before `end` begins. Commas in quotes do not separate elements. */
function startOfLast(list: string, end: number): number {
  let isQuoted = false;
  for (let at = end - 1; at >= 0; at--) {
    if (list[at] === '"') isQuoted = !isQuoted;
    else if (list[at] === ',' && !isQuoted) return at + 1;
  }
  return 0;
}

/** Of an element of `Forwarded` (RFC 7239 §4), without quotes. */
function parameterOf(element: string, name: string): string | undefined {
  for (const pair of element.split(';')) {
    const at = pair.indexOf('=');
    if (at > 0 && pair.slice(0, at).trim().toLowerCase() === name) {
      return pair
        .slice(at + 1)
        .trim()
        .replace(/^"(.*)"$/, '$1');
    }
  }
  return undefined;
}

/** `192.0.2.1`, `192.0.2.1:4711`, `2001:db8::1` or `[2001:db8::1]:4711`; undefined for other text. */
function addressIn(text: string | undefined): string | undefined {
  const stated = text?.trim() ?? '';
  const inBrackets = /^\[([^\]]*)\](?::\d{1,5})?$/.exec(stated)?.[1];
  const address = inBrackets ?? (isIP(stated) === 0 ? stated.replace(/:\d{1,5}$/, '') : stated);
  return isIP(address) === 0 ? undefined : canonicalAddress(address);
}
