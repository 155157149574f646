/**
 * The header with which a proxy begins a connection to state its client: versions 1 and 2 of the PROXY protocol ("The PROXY
 * protocol", HAProxy Technologies, 2020-03-05).
 */
import { isIP, type Socket } from 'node:net';
import { canonicalAddress } from '../network/networks.ts';

interface ProxyHeader {
  /** Length of the header. */
  readonly bytes: number;
  /** Of the client; undefined when the proxy speaks for itself, or its client has no IP address. */
  readonly address: string | undefined;
}

const SIGNATURE = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1');
const FIXED_BYTES = 16;
const V1 = Buffer.from('PROXY ');
const V1_MAX_BYTES = 107;

/** @returns undefined for the beginning of a header. @throws Error for anything else */
export function proxyHeaderIn(bytes: Buffer): ProxyHeader | undefined {
  if (beginsAs(bytes, SIGNATURE)) return bytes.length < FIXED_BYTES ? undefined : secondVersion(bytes);
  if (beginsAs(bytes, V1)) return firstVersion(bytes);
  throw new Error('it does not begin with a header of the PROXY protocol');
}

function beginsAs(bytes: Buffer, expected: Buffer): boolean {
  const length = Math.min(bytes.length, expected.length);
  return bytes.subarray(0, length).equals(expected.subarray(0, length));
}

function firstVersion(bytes: Buffer): ProxyHeader | undefined {
  const text = bytes.toString('latin1', 0, V1_MAX_BYTES);
  const end = text.indexOf('\r\n');
  if (end < 0 && bytes.length < V1_MAX_BYTES) return undefined;
  if (end < 0) throw malformed();
  const [, family, address = '', destination = '', ...ports] = text.slice(0, end).split(' ');
  if (family === 'UNKNOWN') return { bytes: end + 2, address: undefined };
  const version = family === 'TCP4' ? 4 : family === 'TCP6' ? 6 : undefined;
  const isValid =
    isIP(address) === version && isIP(destination) === version && ports.length === 2 && ports.every(isPort);
  if (!isValid) throw malformed();
  return { bytes: end + 2, address: canonicalAddress(address) };
}

function malformed(): Error {
  return new Error('its header of the PROXY protocol is malformed');
}

function isPort(text: string): boolean {
  return /^\d{1,5}$/.test(text) && Number(text) <= 65535;
}

/** Of the addresses of each family: unspecified, IPv4, IPv6 and Unix sockets. More bytes are additional values. */
const ADDRESS_BYTES = [0, 12, 36, 216];
/** Unspecified, stream, datagram. */
const TRANSPORTS = 3;

function secondVersion(bytes: Buffer): ProxyHeader | undefined {
  const [command = 0, family = 0] = bytes.subarray(SIGNATURE.length);
  const length = FIXED_BYTES + bytes.readUInt16BE(14);
  if (command !== 0x20 && command !== 0x21) throw new Error('its header has an unknown version of the PROXY protocol');
  if (bytes.length < length) return undefined;
  // LOCAL: the connection is of the proxy itself, and the rest of the header has no meaning.
  if (command === 0x20) return { bytes: length, address: undefined };
  const addresses = bytes.subarray(FIXED_BYTES, length);
  const kind = family >> 4;
  const expected = ADDRESS_BYTES[kind];
  if (expected === undefined || (family & 0xf) >= TRANSPORTS || addresses.length < expected) throw malformed();
  if (kind === 1) return { bytes: length, address: addresses.subarray(0, 4).join('.') };
  if (kind !== 2) return { bytes: length, address: undefined };
  const groups = Array.from({ length: 8 }, (_, at) => addresses.readUInt16BE(2 * at).toString(16));
  return { bytes: length, address: canonicalAddress(groups.join(':')) };
}

/**
 * Reads the header of a connection, which is then paused, with the bytes that follow still unread. The connection is closed
 * when it begins with something else, or has not sent its header in time.
 */
export function readProxyHeader(socket: Socket, timeoutMs: number, next: (client: string | undefined) => void): void {
  let received = Buffer.alloc(0);
  const late = setTimeout(() => socket.destroy(), timeoutMs);
  const end = () => clearTimeout(late);
  const failed = () => socket.destroy();
  socket.once('close', end);
  socket.on('error', failed);
  socket.on('data', function take(chunk: Buffer) {
    received = Buffer.concat([received, chunk]);
    let header: ProxyHeader | undefined;
    try {
      header = proxyHeaderIn(received);
    } catch {
      socket.destroy();
    }
    if (header === undefined) return;
    end();
    socket.off('data', take).off('close', end).off('error', failed).pause();
    if (header.bytes < received.length) socket.unshift(received.subarray(header.bytes));
    next(header.address);
  });
  socket.resume();
}
