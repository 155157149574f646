import { BlockList } from 'node:net';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { contains, coversNetworks, networkOf } from '../../src/network/networks.ts';

const address = fc.oneof(fc.ipV4(), fc.ipV6());
const network = fc
  .tuple(address, fc.nat(128))
  .map(([of, bits]) => networkOf(`${of}/${of.includes(':') ? bits : bits % 33}`) ?? '');

describe('a network', () => {
  it.each([
    ['10.0.0.0/8', '10.0.0.0/8'],
    [' 192.0.2.7 ', '192.0.2.7/32'],
    ['2001:DB8::/32', '2001:db8::/32'],
    ['::1', '::1/128'],
    ['0.0.0.0/0', '0.0.0.0/0'],
  ])('is read from %j', (text, expected) => {
    expect(networkOf(text)).toBe(expected);
  });

  it.each([
    '',
    '10.0.0.0/33',
    '::/129',
    '10.0.0/8',
    '10.0.0.0/',
    '10.0.0.0/8/8',
    '10.0.0.0/-1',
    'fe80::1%eth0/64',
    'all',
  ])('is not read from %j', (text) => {
    expect(networkOf(text)).toBeUndefined();
  });

  it('contains an IPv4 address also in its IPv6 form, and no address of the other family', () => {
    for (const one of ['10.1.2.3', '::ffff:10.1.2.3', '::ffff:a01:203'])
      expect(contains(['10.0.0.0/8'], one)).toBe(true);
    for (const one of ['::a01:203', '11.0.0.0', undefined, '', 'x']) expect(contains(['10.0.0.0/8'], one)).toBe(false);
    expect(contains(['fe80::/10'], 'fe80::1%eth0')).toBe(true);
    expect(contains(['0.0.0.0/0'], '2001:db8::1')).toBe(false);
  });

  it('covers another one exactly when it contains all of its addresses', () => {
    expect(coversNetworks(['10.0.0.0/8'], ['10.0.0.0/7'])).toBe(false);
    expect(coversNetworks(['10.0.0.0/8', '11.0.0.0/8'], ['11.1.0.0/16', '10.0.0.0/8'])).toBe(true);
    expect(coversNetworks([], ['10.0.0.0/7'])).toBe(true);
    expect(coversNetworks(['10.0.0.0/8'], [])).toBe(false);
    fc.assert(
      fc.property(network, network, address, (wide, narrow, one) => {
        if (coversNetworks([wide], [narrow]) && contains([narrow], one)) expect(contains([wide], one)).toBe(true);
        expect(coversNetworks([narrow], [narrow])).toBe(true);
      }),
    );
  });

  it('is compared as the system compares it', () => {
    fc.assert(
      fc.property(network, address, (of, one) => {
        const list = new BlockList();
        const [start = '', bits] = of.split('/');
        list.addSubnet(start, Number(bits), start.includes(':') ? 'ipv6' : 'ipv4');
        expect(contains([of], one)).toBe(list.check(one, one.includes(':') ? 'ipv6' : 'ipv4'));
      }),
    );
  });
});
