import { describe, expect, it } from 'vitest';
import {
  filteredKeys,
  type KeyFilter,
  keyState,
  type ListedKey,
  secretEnd,
  withoutSecrets,
} from '../../../dashboard/src/pages/keys/key-state.ts';

const now = Date.parse('2026-03-01T00:00:00Z');
const key = (changes: Partial<ListedKey>): ListedKey => ({
  ...{ id: 'k1', name: 'ci', labels: [], redacted_value: 'sk_chy_...abcd', enabled: true, active: true },
  ...changes,
});
const all: KeyFilter = { text: '', state: '', path: '', label: '' };

describe('the state of a key', () => {
  it.each([
    [{}, 'active'],
    [{ expires_at: '2026-03-20T00:00:00Z' }, 'expires soon'],
    [{ expires_at: '2026-06-01T00:00:00Z' }, 'active'],
    [{ active: false, expires_at: '2026-02-01T00:00:00Z' }, 'expired'],
    [{ enabled: false, active: false, expires_at: '2026-02-01T00:00:00Z' }, 'deactivated'],
  ])('of %j is %s', (changes, state) => {
    expect(keyState(key(changes), now)).toBe(state);
  });
});

describe('the filter of keys', () => {
  const keys = [
    key({ id: 'one', name: 'Website', user_path: '/team/alpha', labels: ['production'] }),
    key({
      id: 'two',
      name: 'Batch',
      user_path: '/team',
      redacted_value: 'sk_chy_...Zz9_',
      enabled: false,
      active: false,
    }),
    key({ id: 'three', name: 'Without path', description: 'of the website' }),
    key({ id: 'four', name: 'Other', user_path: '/teams', expires_at: '2026-03-02T00:00:00Z' }),
  ];
  const found = (changes: Partial<KeyFilter>) => filteredKeys(keys, { ...all, ...changes }, now).map(({ id }) => id);

  it('finds names, descriptions, ids, paths, labels and the last characters of secrets', () => {
    expect(found({ text: 'WEBSITE' })).toEqual(['one', 'three']);
    expect(found({ text: 'zz9_' })).toEqual(['two']);
    expect(found({ text: 'alpha' })).toEqual(['one']);
    expect(found({ text: 'production' })).toEqual(['one']);
    expect(found({ text: ' three ' })).toEqual(['three']);
  });

  it('has a path with all below it, and not paths that only begin alike', () => {
    expect(found({ path: '/team' })).toEqual(['one', 'two']);
    expect(found({ path: '/' })).toEqual(['one', 'two', 'four']);
  });

  it('counts keys that expire soon as active', () => {
    expect(found({ state: 'active' })).toEqual(['one', 'three', 'four']);
    expect(found({ state: 'expires soon' })).toEqual(['four']);
    expect(found({ state: 'deactivated' })).toEqual(['two']);
    expect(found({ label: 'production', state: 'deactivated' })).toEqual([]);
  });
});

describe('a text that is put into the address', () => {
  const secret = `sk_chy_${'aB3-_'.repeat(8)}xYz`;

  it('has the last four characters of a secret in its place, with or without the prefix', () => {
    expect(withoutSecrets(secret)).toBe('_xYz');
    expect(withoutSecrets(`key ${secret}.`)).toBe('key _xYz.');
    expect(withoutSecrets(secret.slice('sk_chy_'.length))).toBe('_xYz');
    expect(withoutSecrets(secret.slice(0, 30))).not.toContain(secret.slice(7, 12));
  });

  it('keeps ids, paths and names', () => {
    for (const text of ['35b7689a-530e-4ebf-9d2f-b35eee9f2c6f', '/team/alpha', 'sk_chy_...abcd', 'sk_chy_']) {
      expect(withoutSecrets(text)).toBe(text);
    }
  });
});

it('the end of a secret has its last characters, also with signs of base64url', () => {
  expect(secretEnd('sk_chy_...-If_')).toBe('…-If_');
});
