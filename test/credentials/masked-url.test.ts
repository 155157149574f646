import { describe, expect, test } from 'vitest';
import { isMask, publicUrl, readUrl } from '../../src/commands/credentials/credential-fields.ts';

describe('an address', () => {
  test.each([
    ['https://api.openai.com/v1', 'https://api.openai.com/v1'],
    ['http://token@host:8080/v1', 'http://********@host:8080/v1'],
    ['https://token:@host', 'https://********@host'],
    ['https://user:secret@host/v1', 'https://user:********@host/v1'],
    ['https://:secret@host', 'https://:********@host'],
    ['https://host/v1?key=secret&flag', 'https://host/v1?key=********&flag'],
    ['https://host/v1?a=1&b=2', 'https://host/v1?a=********&b=********'],
    ['http://[::1]:8080/v1', 'http://[::1]:8080/v1'],
  ])('%s is shown as %s', (given, shown) => {
    expect(readUrl(given)).toMatchObject({ shown, hasSecret: given !== shown, isMasked: false });
  });

  test.each([
    'https://user:***@host/v1',
    'https://user:********@host/v1',
    'https://***@host/v1',
    'https://host/v1?key=****',
  ])('%s holds a mask', (given) => {
    expect(readUrl(given)).toMatchObject({ isMasked: true });
  });

  test('with a mask of any length is shown like the stored one', () => {
    expect(readUrl('https://user:***@host/v1')?.shown).toBe(readUrl('https://user:secret@host/v1')?.shown);
  });

  test.each(['', 'host', 'ftp://host', '/v1', 'http://', 'file:///etc/passwd'])('%j is not valid', (given) => {
    expect(readUrl(given)).toBeUndefined();
  });

  test('is public without credentials and query', () => {
    expect(publicUrl('https://user:secret@host/v1?key=secret')).toBe('https://host/v1');
  });
});

test('a mask is three asterisks or more, and nothing else', () => {
  expect(['***', '********'].map(isMask)).toEqual([true, true]);
  expect(['', '*', '**', '***x', 'sk-***'].map(isMask)).toEqual([false, false, false, false, false]);
});
