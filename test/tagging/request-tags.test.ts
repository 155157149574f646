import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { TaggingRule } from '../../src/commands/tagging/tagging.ts';
import { createRequestTags } from '../../src/http/request-head.ts';

const rule = (header: string, more: Partial<TaggingRule> = {}): TaggingRule => ({
  header,
  prefix: '',
  delimiter: ',',
  doNotPass: false,
  ...more,
});
const key = (...labels: string[]) => ({
  id: 'k',
  userPath: undefined,
  dashboardAccess: false,
  allowedModels: [],
  labels,
});
const tagsOf = (...rules: TaggingRule[]) => createRequestTags([], () => rules);

describe('the labels of a request', () => {
  test('are those of its key without rules', () => {
    const labels = ['a', 'b'];
    const tags = createRequestTags([], () => []);
    expect(tags.labelsOf({ 'x-team': 'c' }, { ...key(), labels })).toBe(labels);
    expect(tags.labelsOf({ 'x-team': 'c' }, key())).toBeUndefined();
    expect(tags.labelsOf({ 'x-team': 'c' }, undefined)).toBeUndefined();
  });

  test('are those of its key first, then those of its headers, each once', () => {
    const tags = tagsOf(rule('x-team'), rule('x-app'));
    expect(tags.labelsOf({ 'x-app': 'c, a', 'x-team': 'b,c' }, key('a'))).toEqual(['a', 'b', 'c']);
  });

  test('are trimmed, freed of the prefix of their own rule, and never empty', () => {
    const tags = tagsOf(rule('x-tags', { prefix: 'team:', delimiter: ';' }));
    expect(tags.labelsOf({ 'x-tags': ' team:red ; blue;; team: ; team:team:x' }, undefined)).toEqual([
      'red',
      'blue',
      'team:x',
    ]);
  });

  test('come from every line of a header that is sent more than once', () => {
    expect(tagsOf(rule('set-x')).labelsOf({ 'set-x': ['a', 'b'] }, undefined)).toEqual(['a', 'b']);
  });

  test('are bounded, whatever the client sends', () => {
    const tags = tagsOf(rule('a'), rule('b', { delimiter: ';' }));
    fc.assert(
      fc.property(fc.array(fc.string()), fc.string(), fc.array(fc.string()), (a, b, own) => {
        const labels = tags.labelsOf({ a: a.join(','), b }, key(...new Set(own.slice(0, 5)))) ?? [];
        expect(labels.length).toBeLessThanOrEqual(64);
        expect(new Set(labels).size).toBe(labels.length);
        for (const label of labels.slice(new Set(own.slice(0, 5)).size)) {
          expect(label.trim()).toBe(label);
          expect(label.length).toBeLessThanOrEqual(128);
          expect(label).not.toBe('');
        }
      }),
    );
    expect(tags.labelsOf({ a: Array.from({ length: 1000 }, (_, n) => n).join(',') }, undefined)).toHaveLength(64);
    expect(tags.labelsOf({ a: 'x'.repeat(129) }, undefined)).toBeUndefined();
  });

  test('follow the rules that are set, from one request to the next', () => {
    let rules = [rule('a')];
    const tags = createRequestTags([], () => rules);
    expect(tags.labelsOf({ a: '1', b: '2' }, undefined)).toEqual(['1']);
    rules = [rule('b', { doNotPass: true })];
    expect(tags.labelsOf({ a: '1', b: '2' }, undefined)).toEqual(['2']);
    expect([tags.isRemoved('a'), tags.isRemoved('b')]).toEqual([false, true]);
  });

  test('come from the rule of the configuration where both have a rule for a header', () => {
    const tags = createRequestTags([rule('a', { prefix: 'x' })], () => [rule('a', { doNotPass: true }), rule('b')]);
    expect(tags.labelsOf({ a: 'x1', b: '2' }, undefined)).toEqual(['1', '2']);
    expect(tags.isRemoved('a')).toBe(false);
  });
});

test('a configuration that makes labels of credentials is refused', () => {
  expect(() => createRequestTags([rule('authorization')], () => [])).toThrow("tagging.headers: 'authorization'");
  expect(() => createRequestTags([rule('x-vault-token')], () => [])).toThrow("tagging.headers: 'x-vault-token'");
});

test('a recorded rule for a header that holds credentials makes no labels', () => {
  const tags = createRequestTags([], () => [rule('x-vault-token'), rule('a')]);
  expect(tags.labelsOf({ 'x-vault-token': 'secret', a: '1' }, undefined)).toEqual(['1']);
});
