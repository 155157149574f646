/** Credentials in what a provider or a proxy returns. */
import { describe, expect, test } from 'vitest';
import { credentialsIn, redactorOf } from '../../src/providers/redact.ts';

const base64 = (text: string, encoding: 'base64' | 'base64url' = 'base64') => Buffer.from(text).toString(encoding);

describe('redactorOf', () => {
  test('replaces a secret as it is, the longest first, and keeps what is too short', () => {
    const redact = redactorOf(['key-one', 'key-one-more', 'x', '']);
    expect(redact('key-one-more, key-one and x')).toBe('[redacted], [redacted] and x');
    expect(redactorOf([])('text')).toBe('text');
  });

  test('replaces it in the escapes of JSON and URLs', () => {
    const secret = 'a+b/c"d\\e ä€&';
    const redact = redactorOf([secret]);
    const json = JSON.stringify(secret).slice(1, -1);
    const ascii = json.replace(/[^ -~]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`);
    const forms = [secret, json, json.replace('/', '\\/'), ascii, ascii.replace('+', '\\u002B')];
    for (const form of [...forms, encodeURIComponent(secret), Buffer.from(secret).toString('latin1')]) {
      expect(redact(`it said <${form}>`)).toBe('it said <[redacted]>');
    }
  });

  test.each(['', 'u', 'us', 'user', 'user:'])('replaces it in Base64 after %j', (before) => {
    for (const secret of ['PROXYSECRET', 'sk-1?>~~>>??', 'pass wörd']) {
      for (const encoding of ['base64', 'base64url'] as const) {
        for (const after of ['', ':', ':pw']) {
          const said = redactorOf([secret])(`Basic ${base64(before + secret + after, encoding)}, denied`);
          const kept = base64(before).replace(/=+$/, '').length;
          expect(said).toMatch(/^Basic [\w+/-]*\[redacted\], denied$/);
          expect(said.length).toBeLessThanOrEqual('Basic [redacted], denied'.length + kept);
        }
      }
    }
  });

  test('takes time in proportion to the text', () => {
    const redact = redactorOf(Array.from({ length: 100 }, (_, index) => `sk-secret-number-${index}`));
    const text = 'c2st'.repeat(25_000);
    expect(redact(text)).toBe(text);
  });
});

test.each([
  ['http://me:pass%20word@proxy.test:3128', ['me:pass%20word', 'me:pass word', 'pass%20word', 'pass word']],
  ['http://token@proxy.test', ['token:', 'token:', 'token', 'token']],
  ['https://api.test/v1?key=0123456789&api-version=2024-10-21&mode=a', ['0123456789']],
  ['none', []],
])('the credentials in %s', (url, expected) => {
  expect(credentialsIn(url)).toEqual(expected);
});
