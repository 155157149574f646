import { describe, expect, it } from 'vitest';
import { proxyHeaderIn } from '../../src/http/proxy-protocol.ts';

const signature = Buffer.from('0d0a0d0a000d0a515549540a', 'hex');

function version2(command: number, family: number, addresses: Buffer): Buffer {
  const length = Buffer.alloc(2);
  length.writeUInt16BE(addresses.length);
  return Buffer.concat([signature, Buffer.from([command, family]), length, addresses]);
}

const ports = Buffer.from([0x12, 0x67, 0x1f, 0x90]);
const ipv4 = Buffer.concat([Buffer.from([192, 0, 2, 1, 10, 0, 0, 1]), ports]);
const ipv6 = Buffer.concat([Buffer.from('20010db8000000000000000000000001', 'hex'), Buffer.alloc(16), ports]);

const valid: readonly (readonly [string, Buffer, string | undefined])[] = [
  ['1, IPv4', Buffer.from('PROXY TCP4 192.0.2.1 10.0.0.1 4711 8080\r\n'), '192.0.2.1'],
  ['1, IPv6', Buffer.from('PROXY TCP6 2001:db8::1 ::1 4711 8080\r\n'), '2001:db8::1'],
  ['1, IPv6 in another spelling', Buffer.from('PROXY TCP6 2001:DB8:0:0:0:0:0:1 ::1 4711 8080\r\n'), '2001:db8::1'],
  ['1, no address', Buffer.from('PROXY UNKNOWN\r\n'), undefined],
  ['1, an address to be ignored', Buffer.from('PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n'), undefined],
  ['2, IPv4', version2(0x21, 0x11, ipv4), '192.0.2.1'],
  ['2, IPv4 and additional values', version2(0x21, 0x11, Buffer.concat([ipv4, Buffer.alloc(300)])), '192.0.2.1'],
  ['2, IPv6', version2(0x21, 0x21, ipv6), '2001:db8::1'],
  ['2, no family', version2(0x21, 0x00, Buffer.alloc(0)), undefined],
  ['2, the proxy itself, whose address is to be ignored', version2(0x20, 0x11, Buffer.alloc(3)), undefined],
  ['2, the proxy itself', version2(0x20, 0x00, Buffer.alloc(0)), undefined],
  ['2, a Unix socket', version2(0x21, 0x31, Buffer.alloc(216)), undefined],
];

describe('a header of the PROXY protocol', () => {
  it.each(valid)('of version %s is read, however it arrives', (_, header, address) => {
    const bytes = Buffer.concat([header, Buffer.from('GET / HTTP/1.1\r\n')]);
    expect(proxyHeaderIn(bytes)).toEqual({ bytes: header.length, address });
    for (let length = 0; length < header.length; length++) {
      expect(proxyHeaderIn(bytes.subarray(0, length))).toBeUndefined();
    }
  });

  it.each([
    ['another protocol', Buffer.from('GET / HTTP/1.1\r\n')],
    ['a name in place of an address', Buffer.from('PROXY TCP4 localhost 10.0.0.1 4711 8080\r\n')],
    ['another family', Buffer.from('PROXY UDP4 192.0.2.1 10.0.0.1 4711 8080\r\n')],
    ['too few fields', Buffer.from('PROXY TCP4 192.0.2.1\r\n')],
    ['too many fields', Buffer.from('PROXY TCP4 192.0.2.1 10.0.0.1 4711 8080 1\r\n')],
    ['a port that is none', Buffer.from('PROXY TCP4 192.0.2.1 10.0.0.1 4711 99999\r\n')],
    ['a port that is no number', Buffer.from('PROXY TCP4 192.0.2.1 10.0.0.1 -1 8080\r\n')],
    ['a malformed destination', Buffer.from('PROXY TCP4 192.0.2.1 x 4711 8080\r\n')],
    ['an address of another family', Buffer.from('PROXY TCP4 2001:db8::1 ::1 4711 8080\r\n')],
    ['too few bytes of IPv4', version2(0x21, 0x11, Buffer.alloc(3))],
    ['too few bytes of IPv6', version2(0x21, 0x21, ipv4)],
    ['too few bytes of a Unix socket', version2(0x21, 0x31, ipv6)],
    ['a family without meaning', version2(0x21, 0x41, ipv6)],
    ['a transport without meaning', version2(0x21, 0x13, ipv4)],
    ['no end', Buffer.from(`PROXY TCP4 ${'1'.repeat(200)}`)],
    ['a third version', version2(0x31, 0x11, ipv4)],
    ['an unknown command', version2(0x22, 0x11, ipv4)],
  ])('with %s is refused', (_, bytes) => {
    expect(() => proxyHeaderIn(bytes)).toThrow();
  });
});
