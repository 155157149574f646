import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cacheDirectives } from '../../../src/commands/exchange/pipeline/read-cache.ts';
import { Refusal } from '../../../src/commands/refusal.ts';

const read = (headers: Record<string, string>) => cacheDirectives(headers, { maxTtlSeconds: 600 });
const usual = { reads: true, stores: true, onlyIfCached: false, exact: true, semantic: true };

function refused(headers: Record<string, string>): Refusal {
  try {
    read(headers);
  } catch (error) {
    if (error instanceof Refusal) return error;
    throw error;
  }
  throw new Error(`accepted: ${JSON.stringify(headers)}`);
}

describe('the directives of a request', () => {
  it('are one object for all requests without headers of the cache', () => {
    expect(read({ accept: '*/*' })).toEqual(usual);
    expect(read({})).toBe(read({ 'content-type': 'application/json' }));
  });

  it.each([
    ['no-cache', { reads: false }],
    ['No-Cache', { reads: false }],
    ['no-cache="x"', { reads: false }],
    ['no-store', { reads: false, stores: false }],
    ['no-store, no-cache', { reads: false, stores: false }],
    ['no-cache ,no-store', { reads: false, stores: false }],
    ['max-age=60', { maxAgeSeconds: 60 }],
    ['max-age="60"', { maxAgeSeconds: 60 }],
    ['MAX-AGE=0', { maxAgeSeconds: 0 }],
    [`max-age=${'9'.repeat(30)}`, { maxAgeSeconds: Number.MAX_SAFE_INTEGER }],
    ['only-if-cached', { onlyIfCached: true }],
    ['only-if-cached, max-age=5', { onlyIfCached: true, maxAgeSeconds: 5 }],
  ])('of both control headers: %s', (value, expected) => {
    expect(read({ 'cache-control': value })).toEqual({ ...usual, ...expected });
    expect(read({ 'x-cache-control': value })).toEqual({ ...usual, ...expected });
  });

  it.each([
    '',
    ',',
    'max-age',
    'max-age=',
    'max-age=-1',
    'max-age=1.5',
    'max-age=1e3',
    'max-age=x',
    'only-if-cached=1',
    'min-fresh=5',
    'x',
  ])('of a malformed or unknown control are ignored in Cache-Control and refused in X-Cache-Control: "%s"', (value) => {
    expect(read({ 'cache-control': value })).toEqual(usual);
    expect(refused({ 'x-cache-control': value })).toMatchObject({ status: 400, param: 'X-Cache-Control' });
  });

  it('keep the valid part of a Cache-Control', () => {
    expect(read({ 'cache-control': 'max-age=x, max-stale=5, no-store' })).toMatchObject({
      reads: false,
      stores: false,
    });
  });

  it('come from X-Cache-Control alone where both are given', () => {
    expect(read({ 'cache-control': 'no-store', 'x-cache-control': 'max-age=5' })).toEqual({
      ...usual,
      maxAgeSeconds: 5,
    });
  });

  it.each([
    ['exact', { exact: true, semantic: false }],
    ['Semantic', { exact: false, semantic: true }],
    ['both', { exact: true, semantic: true }],
  ])('name the type of entries: %s', (value, expected) => {
    expect(read({ 'x-cache-type': value })).toEqual({ ...usual, ...expected });
  });

  it.each([
    ['30', { ttlSeconds: 30 }],
    ['601', { ttlSeconds: 600 }],
    [`${'9'.repeat(300)}`, { ttlSeconds: 600 }],
    ['0', { stores: false }],
  ])('limit the time to live to the maximum: %s', (value, expected) => {
    expect(read({ 'x-cache-ttl': value })).toEqual({ ...usual, ...expected });
  });

  it('do not store what the client forbids to store, with any time to live', () => {
    expect(read({ 'x-cache-ttl': '30', 'cache-control': 'no-store' })).toMatchObject({ stores: false });
  });

  it.each([
    ['0', 0],
    ['1', 1],
    ['1.0', 1],
    ['.5', 0.5],
    ['0.92', 0.92],
  ])('hold the threshold %s', (value, threshold) => {
    expect(read({ 'x-cache-semantic-threshold': value })).toEqual({ ...usual, threshold });
  });

  it.each([
    ['x-cache-type', 'X-Cache-Type', ['', 'none', 'exact,semantic']],
    ['x-cache-ttl', 'X-Cache-TTL', ['', '-1', '1.5', '1h', '0x1', '1, 2']],
    ['x-cache-semantic-threshold', 'X-Cache-Semantic-Threshold', ['', '.', '1.1', '-0', '2', 'NaN', '1e-1', '0,9']],
  ])('of a malformed %s are a 400 that names the header', (name, param, values) => {
    for (const value of values) expect(refused({ [name]: value })).toMatchObject({ status: 400, param });
  });

  it('of any text are directives or a 400', () => {
    const names = ['cache-control', 'x-cache-control', 'x-cache-type', 'x-cache-ttl', 'x-cache-semantic-threshold'];
    fc.assert(
      fc.property(fc.constantFrom(...names), fc.string(), (name, value) => {
        try {
          expect(read({ [name]: value })).toMatchObject({ reads: expect.any(Boolean), stores: expect.any(Boolean) });
        } catch (error) {
          if (!(error instanceof Refusal)) throw error;
          expect(error.status).toBe(400);
          expect(name).not.toBe('cache-control');
        }
      }),
    );
  });
});
