/** What `chancery config check` and `chancery config print` show of a LOG_URL, whatever is wrong with it. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { maskLogUrl } from '../../src/config/mask.ts';
import { printConfig } from '../../src/config/print.ts';
import { describeProblem } from '../../src/config/problem.ts';
import { countOf } from '../support/seed.ts';
import { load, types, type Written } from './load.ts';

function output(written: Written): string {
  const loaded = load(written);
  if (!loaded.ok) return loaded.problems.map(describeProblem).join('\n');
  return printConfig(loaded.config, loaded.rawSettings, { providers: types, guardrailSecrets: {} });
}

const scheme = fc.constantFrom(
  ...[
    'kafka://',
    'esdb://',
    'kurrentdb+discover://',
    'kafkas://',
    'kafka:/',
    'kafka:',
    'kafka',
    '',
    ' kafka://',
    'KAFKA://',
  ],
  ...[
    'https:',
    'https://',
    'redis://',
    'file://',
    'file:',
    'memory://',
    '"kafka://',
    'esdb:///',
    '://',
    '//',
    'esdb+discover:',
  ],
);
const host = fc.constantFrom('h', 'h:9092', 'a:1,b', '[::1]:2', 'h:99999', 'h:x', '');
const place = fc.constantFrom('', '/', '/t', '/a/b', '/t%zz', '/ t', '#f', '/@', '/t@u');
/** Characters that passwords have and addresses use. */
const around = fc.string({ unit: fc.constantFrom(...'aZ0:/?#@&=% %40%2F,;"\'\\|[]{}'), maxLength: 4 });
const secret = fc.tuple(around, around).map(([before, after]) => `${before}s3cr3t${after}`);
const name = fc.constantFrom('password', 'sasl.password', 'userPassword', 'token', 'tls', 'x', 's3cr3t', '');

const userInfo = fc.tuple(scheme, secret, host, place).map(([a, b, c, d]) => `${a}u:${b}@${c}${d}`);
const token = fc
  .tuple(
    scheme.filter((one) => !one.startsWith('file:')),
    fc.constantFrom('s3cr3t', 's3cr3t:', 's3cr3t%zz', 's3:s3cr3t:x'),
    host,
    place,
  )
  .map(([a, b, c, d]) => `${a}${b}@${c}${d}`);
const query = fc
  .tuple(
    scheme,
    fc.constantFrom('', 'u:pw@', 'u@'),
    host,
    place.filter((one) => !one.includes('#')),
    name,
    secret,
  )
  .map(([a, b, c, d, e, f]) => `${a}${b}${c}${d}?tls=true&${e}=${f}`);

describe('a secret in LOG_URL', () => {
  it('is in no output of config check and config print, wherever it is in the user info or the query', () => {
    fc.assert(
      fc.property(fc.oneof(userInfo, token, query), fc.boolean(), (url, inFile) => {
        const written = inFile ? { yaml: `log: { url: ${JSON.stringify(url)} }` } : { env: { LOG_URL: url } };
        const shown = [...output(written).split('\n'), maskLogUrl(url)];
        expect(shown.filter((line) => line.includes('s3cr3t'))).toEqual([]);
      }),
      { numRuns: countOf(250, 1_000) },
    );
  });

  it('is not shown when its place in the file is wrong', () => {
    for (const url of ['kafka://u:s3cr3t@h/t', 'kafkas://u:s3cr3t/pw@h', 'u:s3cr3t pw@h'])
      for (const yaml of [
        `log: "${url}"`,
        `log: { url: ["${url}"] }`,
        `log: { url: { a: "${url}" } }`,
        `log: [${url}]`,
      ])
        expect(output({ yaml })).not.toContain('s3cr3t');
    expect(output({ yaml: 'log:\n  url: kafka://u: s3cr3t@h' })).not.toContain('s3cr3t');
  });
});

describe('what is shown of a LOG_URL', () => {
  it.each([
    ['kafka://u:pw@a:1,b/t?tls=true&x=pw', 'kafka://****@a:1,b/t?tls=true&****'],
    ['esdb+discover://cluster/log', 'esdb+discover://cluster/log'],
    ['kafkas://u:pw@h', 'kafkas://…'],
    ['u:pw@h:9092/t', '…'],
    ['file:./data/log', 'file:./data/log'],
    ['file:/home/me@example.com/log', 'file:/home/me@example.com/log'],
    ['file:///data/log', 'file:///data/log'],
    ['file://u:pw@h/log', 'file:…'],
    ['file:u:pw@h', 'file:****@h'],
    ['memory:', 'memory:'],
  ])('%s is shown as %s', (url, shown) => {
    expect(maskLogUrl(url)).toBe(shown);
  });
});
