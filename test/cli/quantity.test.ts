import { expect, test } from 'vitest';
import { bytes, count } from '../../src/cli/terminal.ts';

test.each([
  [0, '0 bytes'],
  [1, '1 byte'],
  [1023, '1,023 bytes'],
  [1024, '1.0 KiB'],
  [1536, '1.5 KiB'],
  [10 * 1024 ** 2, '10.0 MiB'],
  [2.5 * 1024 ** 4, '2.5 TiB'],
  [5000 * 1024 ** 4, '5000.0 TiB'],
])('%d bytes are %s', (n, text) => {
  expect(bytes(n)).toBe(text);
});

test('one thing is singular, any other number plural', () => {
  expect([count(1, 'event'), count(0, 'event'), count(1234, 'batch', 'batches')]).toEqual([
    '1 event',
    '0 events',
    '1,234 batches',
  ]);
});
