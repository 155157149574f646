import { describe, expect, it } from 'vitest';
import { patternFinder, rewriteWhole } from '../../src/commands/guardrails/text/finder.ts';

describe('patternFinder', () => {
  it.each([
    ['a', 1],
    ['a{1,8}', 8],
    ['ab?c', 3],
    ['(foo|barbaz){2,4}\\d', 25],
    ['\\bfoo\\b', 3],
    ['(?m)^foo$', 3],
    ['[a-z]{3}', 3],
    ['(?i)k', 1],
    ['[\\x{10000}-\\x{10FFFF}]', 2],
    ['.{3}', 6],
    ['a*b', Number.POSITIVE_INFINITY],
    ['a+', Number.POSITIVE_INFINITY],
    ['(ab|c){2,}', Number.POSITIVE_INFINITY],
  ])('computes the longest match of %s', (pattern, longest) => {
    expect(patternFinder(pattern, false).longest).toBe(longest);
  });

  it.each(['a*', '(', 'a|', '(?<=a)b', '(a)\\1', '[z-a]', 'a{2000}', 'x'.repeat(3_000)])('refuses %s', (pattern) => {
    expect(() => patternFinder(pattern, false)).toThrow(/pattern/);
  });

  it.each(['\\b', '\\b\\b', '(\\b)', '\\b(?:)$', '[^\\x00-\\x{10FFFF}]'])(
    'refuses %s, which matches no character, with the reason',
    (pattern) => {
      expect(() => patternFinder(pattern, false)).toThrow(`the pattern '${pattern}' cannot match any character`);
    },
  );

  it.each(['(x+x+)+y', '(x|xx)*y', '(x*)*y', 'x*x*x*x*x*y', '(.*)(.*)(.*)(.*)y', '(x?){30}x{30}y'])(
    'reads 200,000 characters with %s in less than a second',
    (pattern) => {
      const finder = patternFinder(pattern, false);
      const started = process.cpuUsage();
      rewriteWhole(finder, 'x'.repeat(200_000), () => '');
      expect(process.cpuUsage(started).user).toBeLessThan(1_000_000);
    },
  );

  it('gives up on a text for which many matches each read the rest', () => {
    const finder = patternFinder('x(.*y)?', false);
    const started = performance.now();
    expect(() => rewriteWhole(finder, 'x'.repeat(100_000), () => '')).toThrow(/took more than 500 ms/);
    expect(performance.now() - started).toBeLessThan(5_000);
  });

  it('gives the groups of a match', () => {
    const finder = patternFinder('(\\w+)@(\\w+)', false);
    expect(finder.scan('x jane@example y')(0)?.groups).toEqual(['jane@example', 'jane', 'example']);
  });
});
