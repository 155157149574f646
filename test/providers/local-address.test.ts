import { describe, expect, test } from 'vitest';
import { localKindOf } from '../../src/providers/checked-lookup.ts';

describe('localKindOf', () => {
  test.each([
    ['127.0.0.1', 'loopback'],
    ['127.255.255.254', 'loopback'],
    ['0.0.0.0', 'loopback'],
    ['0.1.2.3', 'loopback'],
    ['::1', 'loopback'],
    ['::', 'loopback'],
    ['0:0:0:0:0:0:0:1', 'loopback'],
    ['::ffff:127.0.0.1', 'loopback'],
    ['::FFFF:7f00:1', 'loopback'],
    ['::127.0.0.1', 'loopback'],
    ['::ffff:0:127.0.0.1', 'loopback'],
    ['64:ff9b::127.0.0.1', 'loopback'],
    ['64:ff9b:1::7f00:1', 'loopback'],
    ['2002:7f00:1::', 'loopback'],
    ['169.254.1.1', 'link-local'],
    ['fe80::1', 'link-local'],
    ['fe80::1%eth0', 'link-local'],
    ['febf::1', 'link-local'],
    ['::ffff:169.254.1.1', 'link-local'],
    ['169.254.169.254', 'cloud metadata'],
    ['169.254.170.2', 'cloud metadata'],
    ['::ffff:169.254.169.254', 'cloud metadata'],
    ['::ffff:a9fe:a9fe', 'cloud metadata'],
    ['64:ff9b::a9fe:a9fe', 'cloud metadata'],
    ['2002:a9fe:a9fe::1', 'cloud metadata'],
    ['fd00:ec2::254', 'cloud metadata'],
    ['fd00:0ec2:0::0254', 'cloud metadata'],
    ['fd20:ce::254', 'cloud metadata'],
    ['100.100.100.200', 'cloud metadata'],
    ['168.63.129.16', 'cloud metadata'],
    ['224.0.0.1', 'unusable'],
    ['255.255.255.255', 'unusable'],
    ['ff02::1', 'unusable'],
    ['no address', 'unusable'],
    ['', 'unusable'],
  ])('%s is %s', (address, kind) => {
    expect(localKindOf(address)).toBe(kind);
  });

  test.each([
    '1.1.1.1',
    '10.0.0.5',
    '172.16.0.1',
    '192.168.1.1',
    '100.64.0.1',
    '126.255.255.255',
    '128.0.0.1',
    '169.253.255.255',
    '192.0.2.1',
    '2606:4700:4700::1111',
    'fd12:3456::1',
    'fd00:ec3::254',
    '::ffff:10.0.0.5',
    '64:ff9b::1.1.1.1',
    '2002:101:101::1',
    'fec0::1',
  ])('%s is not local', (address) => {
    expect(localKindOf(address)).toBeUndefined();
  });
});
