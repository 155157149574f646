import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createSealer, keyIdOf } from '../../src/commands/credentials/credential.ts';

const KEY = 'a key of at least thirty-two characters';
const sealer = createSealer(KEY);
const name = fc.stringMatching(/^[a-z0-9][a-z0-9._-]{0,20}$/);
const field = fc.constantFrom('api_keys', 'base_url', 'proxy_url');

describe('a sealed secret', () => {
  test('is opened with the same key, for the same provider and field', () => {
    fc.assert(
      fc.property(name, field, fc.string({ unit: 'binary' }), (provider, of, secret) => {
        expect(createSealer(KEY).open(provider, of, sealer.seal(provider, of, secret))).toBe(secret);
      }),
    );
  });

  test('reveals only its length', () => {
    const sealed = sealer.seal('openai', 'api_keys', 'sk-secret-secret-secret');
    expect(sealed).toMatch(/^v1\.[0-9a-f]{8}\.[\w-]+$/);
    const bytes = Buffer.from(sealed.split('.')[2] ?? '', 'base64url');
    expect(bytes).toHaveLength(12 + 'sk-secret-secret-secret'.length + 16);
    expect(bytes.toString('latin1')).not.toContain('secret');
  });

  test('is the same text for the same secret in the same place, and another one everywhere else', () => {
    fc.assert(
      fc.property(name, field, fc.string(), fc.string(), (provider, of, one, other) => {
        expect(sealer.seal(provider, of, one)).toBe(sealer.seal(provider, of, one));
        if (one !== other) expect(sealer.seal(provider, of, one)).not.toBe(sealer.seal(provider, of, other));
        expect(sealer.seal(`${provider}x`, of, one)).not.toBe(sealer.seal(provider, of, one));
      }),
    );
  });

  test('cannot be opened for another provider or field', () => {
    fc.assert(
      fc.property(name, name, field, field, fc.string(), (provider, another, of, elsewhere, secret) => {
        fc.pre(provider !== another || of !== elsewhere);
        const sealed = sealer.seal(provider, of, secret);
        expect(() => sealer.open(another, elsewhere, sealed)).toThrow('sealed for another provider or field');
      }),
    );
  });

  test('cannot be changed in a single bit', () => {
    const sealed = sealer.seal('openai', 'api_keys', 'sk-1');
    const [version, id, text = ''] = sealed.split('.');
    const bytes = Buffer.from(text, 'base64url');
    for (let bit = 0; bit < bytes.length * 8; bit++) {
      const changed = Buffer.from(bytes);
      changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      expect(() => sealer.open('openai', 'api_keys', `${version}.${id}.${changed.toString('base64url')}`)).toThrow();
    }
  });

  test('cannot be cut', () => {
    const sealed = sealer.seal('openai', 'api_keys', 'sk-1234567890');
    for (let length = sealed.lastIndexOf('.') + 1; length < sealed.length; length++) {
      expect(() => sealer.open('openai', 'api_keys', sealed.slice(0, length))).toThrow('damaged');
    }
  });

  test('names the key that it was sealed with, and the one at hand', () => {
    const other = createSealer('another key of at least 32 characters');
    const sealed = other.seal('openai', 'api_keys', 'sk-1');
    expect(keyIdOf(sealed)).toBe(other.keyId);
    expect(() => sealer.open('openai', 'api_keys', sealed)).toThrow(
      `it was sealed with the key ${other.keyId}, and the key at hand is ${sealer.keyId}`,
    );
  });
});
