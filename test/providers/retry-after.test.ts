import { expect, it } from 'vitest';
import { retryAfterOf, retryAfterSecondsIn } from '../../src/providers/upstream-error.ts';

const now = Date.parse('Sun, 06 Nov 1994 08:49:00 GMT');

it.each<[string, number | undefined]>([
  ['7', 7],
  [' 7 ', 7],
  ['0', 0],
  ['300', 300],
  ['301', 300],
  ['99999999999999999999', 300],
  ['9'.repeat(400), 300],
  ['Sun, 06 Nov 1994 08:49:37 GMT', 37],
  ['Sunday, 06-Nov-94 08:49:37 GMT', 37],
  ['Sun Nov  6 08:49:37 1994', 37],
  ['Sun, 06 Nov 1994 08:00:00 GMT', 0],
  ['Thu, 01 Jan 2099 00:00:00 GMT', 300],
  // Several lines of the header, joined.
  ['2, 3', 3],
  ['100, 2', 100],
  ['2, soon', 2],
  ['5, Sun, 06 Nov 1994 08:49:37 GMT', 37],
  ['Sun, 06 Nov 1994 08:49:37 GMT, 50', 50],
  ...['', ' ', '-5', '+5', '0x10', '1e3', '1.5', 'soon', 'NaN', 'Infinity', '2099', '2099-01-01'].map<
    [string, number | undefined]
  >((value) => [value, value === '2099' ? 300 : undefined]),
])('Retry-After: %j is %j seconds', (value, seconds) => {
  expect(retryAfterSecondsIn(value, now)).toBe(seconds);
});

it.each([
  ['1200', '2'],
  ['0', '0'],
  ['1.5', '1'],
  ['9e99', undefined],
  ['-1', undefined],
  ['soon', undefined],
  ['99999999999999999999', '300'],
])('Retry-After-Ms: %j is %j seconds', (value, seconds) => {
  expect(retryAfterOf({ 'retry-after-ms': value })).toBe(seconds);
});
