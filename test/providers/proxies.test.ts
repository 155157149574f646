import { describe, expect, test } from 'vitest';
import { proxiesOf } from '../../src/providers/proxies.ts';

const proxies = { http: 'http://plain:3128', https: 'http://secure:3128' };
const isDirect = (origin: string, ...bypass: string[]) => proxiesOf({ ...proxies, bypass })(origin) === undefined;

describe('the proxy of an origin', () => {
  test('is the one for its scheme', () => {
    const proxyOf = proxiesOf({ ...proxies, bypass: [] });
    expect(proxyOf('https://api.example.com')).toBe(proxies.https);
    expect(proxyOf('http://api.example.com')).toBe(proxies.http);
    expect(proxiesOf({ http: proxies.http, bypass: [] })('https://api.example.com')).toBeUndefined();
    expect(proxiesOf({ bypass: [] })('https://api.example.com')).toBeUndefined();
  });

  test.each([
    'http://localhost:1',
    'http://a.localhost',
    'http://LOCALHOST',
    'http://127.0.0.1',
    'https://127.1.2.3:9',
    'http://[::1]:9',
    'http://[::ffff:127.0.0.1]',
    'http://2130706433',
  ])('is none for %s', (origin) => {
    expect(isDirect(origin)).toBe(true);
  });

  test.each([
    ['*', 'https://api.example.com'],
    ['*', 'http://10.1.2.3'],
    ['example.com', 'https://example.com'],
    ['example.com', 'https://api.example.com'],
    ['EXAMPLE.com', 'https://API.example.COM'],
    ['.example.com', 'https://api.example.com'],
    ['.example.com', 'https://example.com'],
    ['*.example.com', 'https://api.example.com'],
    ['example.com.', 'https://api.example.com.'],
    ['example.com:443', 'https://example.com'],
    ['example.com:8443', 'https://api.example.com:8443'],
    ['10.0.0.0/8', 'http://10.1.2.3:8000'],
    ['10.0.0.0/8:8000', 'http://10.1.2.3:8000'],
    ['10.1.2.3', 'http://10.1.2.3'],
    ['fd00::/8', 'https://[fd12:3456::1]'],
    ['fd12:3456::1', 'https://[fd12:3456::1]:8443'],
    ['[fd12:3456::1]:8443', 'https://[fd12:3456::1]:8443'],
  ])('is none with the exception %s for %s', (bypass, origin) => {
    expect(isDirect(origin, 'elsewhere.test', bypass)).toBe(true);
  });

  test.each([
    ['example.com', 'https://notexample.com'],
    ['example.com', 'https://example.com.evil.test'],
    ['example.com:8443', 'https://example.com'],
    ['10.0.0.0/8', 'http://11.0.0.1'],
    ['10.0.0.0/8', 'http://ten.example.com'],
    ['10.0.0.0/8:80', 'http://10.0.0.1:8000'],
    ['10.1.2.3', 'http://10.1.2.30'],
    ['fd00::/8', 'http://10.1.2.3'],
    ['0.0.0.0/0', 'http://name.example.com'],
  ])('is not left out by the exception %s for %s', (bypass, origin) => {
    expect(isDirect(origin, bypass)).toBe(false);
  });
});
