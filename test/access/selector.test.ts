import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  canonicalSelector,
  canonicalSelectors,
  parseSelector,
  selectorList,
} from '../../src/commands/access/selector.ts';
import { Refusal } from '../../src/commands/refusal.ts';

const isProvider = (name: string) => name === 'openai' || name === 'local';
const canonical = (written: string) => canonicalSelector(written, isProvider, 'allowed_models');

describe('a selector', () => {
  it.each([
    ['*', '/'],
    ['/', '/'],
    [' * ', '/'],
    ['openai/*', 'openai/'],
    ['openai/', 'openai/'],
    ['openai/gpt-5', 'openai/gpt-5'],
    ['local/meta/llama-3', 'local/meta/llama-3'],
    ['gpt-5', 'gpt-5'],
    ['llama3:8b', 'llama3:8b'],
  ])('written as %j is kept as %j', (written, kept) => {
    expect(canonical(written)).toBe(kept);
  });

  it.each([
    ['', 'invalid_selector'],
    ['  ', 'invalid_selector'],
    ['//', 'invalid_selector'],
    ['/gpt-5', 'invalid_selector'],
    ['openai//gpt', 'invalid_selector'],
    ['openai/gpt-*', 'invalid_selector'],
    ['*/gpt', 'invalid_selector'],
    ['gpt 5', 'invalid_selector'],
    ['gpt\u0007', 'invalid_selector'],
    ['x'.repeat(600), 'invalid_selector'],
    ['other/gpt-5', 'unknown_provider'],
    ['Openai/', 'unknown_provider'],
  ])('cannot be written as %j', (written, code) => {
    expect(canonical(written)).toMatchObject({ status: 400, code, param: 'allowed_models' });
  });

  it('of an unknown provider names it', () => {
    expect(canonical('other/gpt-5')).toMatchObject({ message: expect.stringContaining("'other'") });
  });

  it('is parsed by its form', () => {
    expect(parseSelector('/')).toEqual({ kind: 'everything' });
    expect(parseSelector('p/')).toEqual({ kind: 'provider', provider: 'p' });
    expect(parseSelector('p/m/n')).toEqual({ kind: 'exact', provider: 'p', model: 'm/n' });
    expect(parseSelector('m')).toEqual({ kind: 'model', model: 'm' });
  });
});

describe('a list of selectors', () => {
  it('has each entry once, in the given order', () => {
    expect(canonicalSelectors(['b', 'openai/*', 'b', 'openai/'], isProvider, 'x')).toEqual(['b', 'openai/']);
  });

  it('is refused when one entry is wrong, or when it is too long', () => {
    expect(canonicalSelectors(['b', 'none/b'], isProvider, 'x')).toBeInstanceOf(Refusal);
    const long = Array.from({ length: 1001 }, (_, n) => `m${n}`);
    expect(canonicalSelectors(long, isProvider, 'x')).toMatchObject({ status: 400, param: 'x' });
  });

  it('restricts nothing when it is empty', () => {
    expect(selectorList([]).has('any', 'thing')).toBe(true);
    expect(selectorList([]).hasOf('any', 'all')).toBe(true);
  });

  it.each([
    [['/'], 'p', 'm', true],
    [['p/'], 'p', 'm', true],
    [['p/'], 'q', 'm', false],
    [['p/m'], 'p', 'm', true],
    [['p/m'], 'p', 'n', false],
    [['p/m'], 'q', 'm', false],
    [['m'], 'q', 'm', true],
    [['M'], 'q', 'm', false],
    [['p/a/b'], 'p', 'a/b', true],
    [['x', 'q/'], 'q', 'm', true],
  ])('%j has %s and %s: %s', (list, provider, model, has) => {
    expect(selectorList(list).has(provider, model)).toBe(has);
  });

  it.each([
    [['/'], true, true],
    [['p/'], true, true],
    [['p/m'], false, true],
    [['m'], false, true],
    [['q/', 'q/m'], false, false],
  ])('%j allows a whole provider: %s, and a part of it: %s', (list, all, any) => {
    expect(selectorList(list).hasOf('p', 'all')).toBe(all);
    expect(selectorList(list).hasOf('p', 'any')).toBe(any);
  });

  const provider = fc.constantFrom('openai', 'local');
  const model = fc.constantFrom('a', 'b', 'c/d', 'e');
  const written = fc.oneof(
    fc.constant('*'),
    provider.map((name) => `${name}/*`),
    fc.tuple(provider, model).map(([name, id]) => `${name}/${id}`),
    fc.constantFrom('a', 'b', 'e'),
  );

  it('is unchanged when it is canonical', () => {
    fc.assert(
      fc.property(fc.array(written), (list) => {
        const once = canonicalSelectors(list, isProvider, 'x');
        if (once instanceof Refusal) throw once;
        expect(canonicalSelectors(once, isProvider, 'x')).toEqual(once);
      }),
    );
  });

  it('has the models of all its entries, and a whole provider only if it has every model of it', () => {
    fc.assert(
      fc.property(fc.array(written, { minLength: 1 }), provider, model, (list, name, id) => {
        const kept = canonicalSelectors(list, isProvider, 'x');
        if (kept instanceof Refusal) throw kept;
        const all = selectorList(kept);
        expect(all.has(name, id)).toBe(kept.some((one) => selectorList([one]).has(name, id)));
        if (all.hasOf(name, 'all')) expect(all.has(name, id)).toBe(true);
        if (all.has(name, id)) expect(all.hasOf(name, 'any')).toBe(true);
      }),
    );
  });
});
