/** Which address counts as the client's behind trusted proxies. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { clientsBehind } from '../../src/http/client-address.ts';

const networks = ['10.0.0.0/8', 'fd00::/8'];
const behind = (header: string) => clientsBehind({ networks, local: false, header });
const forwardedFor = behind('x-forwarded-for');
const forwarded = behind('forwarded');
const named = behind('cf-connecting-ip');
const from = (remoteAddress: string | undefined, headers: Record<string, string> = {}) => ({
  headers,
  socket: { remoteAddress },
});
const xff = (list: string, peer = '10.0.0.1') => forwardedFor.addressOf(from(peer, { 'x-forwarded-for': list }));
const rfc = (list: string) => forwarded.addressOf(from('10.0.0.1', { forwarded: list }));

describe('the address of a client', () => {
  it('is the peer without trusted proxies, whatever headers say', () => {
    const clients = clientsBehind({ networks: [], local: false, header: 'x-forwarded-for' });
    expect(clients.addressOf(from('10.0.0.1', { 'x-forwarded-for': '192.0.2.1' }))).toBe('10.0.0.1');
  });

  it('is the peer when that is no trusted proxy', () => {
    expect(xff('198.51.100.1', '192.0.2.1')).toBe('192.0.2.1');
  });

  it('is the peer when a trusted proxy states nothing', () => {
    expect(forwardedFor.addressOf(from('10.0.0.1'))).toBe('10.0.0.1');
  });

  it.each([
    ['192.0.2.1', '192.0.2.1'],
    ['203.0.113.9, 192.0.2.1', '192.0.2.1'],
    ['203.0.113.9, 192.0.2.1, 10.0.0.2,10.0.0.3', '192.0.2.1'],
    ['10.0.0.9, 10.0.0.2', '10.0.0.9'],
    ['192.0.2.1:4711', '192.0.2.1'],
    ['[2001:db8::1]:4711', '2001:db8::1'],
    ['2001:db8::1, fd00::2', '2001:db8::1'],
    ['::ffff:192.0.2.1, ::ffff:10.0.0.2', '192.0.2.1'],
    ['::ffff:c000:201, ::FFFF:a00:2', '192.0.2.1'],
    ['2001:DB8:0:0:0:0:0:1', '2001:db8::1'],
    ['[2001:0db8::0001%eth0]:443', '2001:db8::1'],
    ['"x, 192.0.2.1', '192.0.2.1'],
  ])('in X-Forwarded-For %j is %s, the rightmost that is no trusted proxy, or else the leftmost', (list, expected) => {
    expect(xff(list)).toBe(expected);
  });

  it.each(['unknown', '', ',', '203.0.113.9, nonsense', '203.0.113.9,', '1.2.3.4.5', "'; DROP"])(
    'is unknown when a trusted proxy states %j',
    (list) => {
      expect(xff(list)).toBeUndefined();
    },
  );

  it('is unknown behind more than 32 proxies', () => {
    const hops = (count: number) => `192.0.2.1${', 10.0.0.2'.repeat(count)}`;
    expect(xff(hops(31))).toBe('192.0.2.1');
    expect(xff(hops(32))).toBeUndefined();
  });

  it.each([
    ['for=192.0.2.1', '192.0.2.1'],
    ['For="[2001:db8::1]:4711";proto=https;by=10.0.0.1', '2001:db8::1'],
    ['for=203.0.113.9, for=192.0.2.1;host=a, by=x;for="10.0.0.2:80"', '192.0.2.1'],
    ['for="203.0.113.9, for=192.0.2.1', '192.0.2.1'],
    ['for=203.0.113.9;x="a,b", for=192.0.2.1;x="a,b"', '192.0.2.1'],
  ])('in Forwarded %j is %s', (list, expected) => {
    expect(rfc(list)).toBe(expected);
  });

  it.each(['for=unknown', 'for=_hidden', 'proto=https', 'for', 'for="'])('is unknown in Forwarded %j', (list) => {
    expect(rfc(list)).toBeUndefined();
  });

  it('is the single address of a named header, and unknown when that has another value', () => {
    const of = (value: string) => named.addressOf(from('10.0.0.1', { 'cf-connecting-ip': value }));
    expect(of('192.0.2.1')).toBe('192.0.2.1');
    expect(of('10.0.0.7')).toBe('10.0.0.7');
    expect(of('203.0.113.9, 192.0.2.1')).toBeUndefined();
    expect(named.addressOf(from('10.0.0.1', { 'x-forwarded-for': '192.0.2.1' }))).toBe('10.0.0.1');
  });

  it('is the one that the PROXY protocol states, whose headers count only if it is trusted', () => {
    const of = (address: string) =>
      forwardedFor.addressOf({
        headers: { 'x-forwarded-for': '203.0.113.9' },
        socket: { remoteAddress: '10.0.0.1', arrival: { isLocal: false, address } },
      });
    expect(of('192.0.2.1')).toBe('192.0.2.1');
    expect(of('10.0.0.2')).toBe('203.0.113.9');
  });

  it('at a Unix socket is what its peer states if that is trusted, else unknown', () => {
    const request = { headers: { 'x-forwarded-for': '192.0.2.1' }, socket: { arrival: { isLocal: true } } };
    expect(forwardedFor.addressOf(request)).toBeUndefined();
    expect(clientsBehind({ networks: [], local: true, header: 'x-forwarded-for' }).addressOf(request)).toBe(
      '192.0.2.1',
    );
    // The peer of a connection that has ended has no address either.
    const ended = { ...request, socket: {} };
    expect(clientsBehind({ networks, local: true, header: 'x-forwarded-for' }).addressOf(ended)).toBeUndefined();
  });

  it('cannot be changed by what the client sends before the first untrusted address, and never throws', () => {
    fc.assert(
      fc.property(
        fc.string(),
        fc.ipV4().filter((one) => !one.startsWith('10.')),
        (claimed, address) => {
          expect(xff(`${claimed},${address}, 10.0.0.2`)).toBe(address);
          expect(rfc(`${claimed},for=${address}, for=10.0.0.2`)).toBe(address);
          expect(typeof xff(claimed)).toMatch(/string|undefined/);
          expect(typeof rfc(claimed)).toMatch(/string|undefined/);
        },
      ),
    );
  });
});

describe('the host that a client requested', () => {
  const host = (clients: typeof forwarded, headers: Record<string, string>, peer = '10.0.0.1') =>
    clients.hostOf(from(peer, { host: 'inner:8080', ...headers }));

  it('is the one that a trusted proxy states', () => {
    expect(host(forwardedFor, { 'x-forwarded-host': 'ai.example.com' })).toBe('ai.example.com');
    expect(host(forwardedFor, { 'x-forwarded-host': 'evil.example, ai.example.com' })).toBe('ai.example.com');
    expect(host(forwarded, { forwarded: 'for=192.0.2.1;host="ai.example.com:8443"' })).toBe('ai.example.com:8443');
    expect(host(named, { 'x-forwarded-host': 'ai.example.com' })).toBe('ai.example.com');
  });

  it('is the one of the request without such a statement, or without trust', () => {
    expect(host(forwardedFor, {})).toBe('inner:8080');
    expect(host(forwardedFor, { 'x-forwarded-host': '' })).toBe('inner:8080');
    expect(host(forwarded, { forwarded: 'for=192.0.2.1' })).toBe('inner:8080');
    expect(host(forwarded, { 'x-forwarded-host': 'evil.example' })).toBe('inner:8080');
    expect(host(forwardedFor, { 'x-forwarded-host': 'evil.example' }, '192.0.2.1')).toBe('inner:8080');
  });
});
