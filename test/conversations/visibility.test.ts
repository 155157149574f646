import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isScoped, mayRead } from '../../src/commands/visibility.ts';
import type { UserPath } from '../../src/events/event.ts';

const path = fc
  .array(fc.constantFrom('a', 'b', 'ab'), { minLength: 1, maxLength: 4 })
  .map((segments) => `/${segments.join('/')}` as UserPath);
const owner = fc.option(path, { nil: undefined });

describe('who may read what', () => {
  it('is everybody at or above the owner', () => {
    fc.assert(
      fc.property(path, fc.constantFrom('', '/x', '/a/b'), (caller, below) => {
        expect(mayRead(caller, `${caller}${below}` as UserPath)).toBe(true);
      }),
    );
  });

  it('is nobody below the owner or beside it', () => {
    fc.assert(
      fc.property(path, path, (caller, other) => {
        const isBelow = `${other}/`.startsWith(`${caller}/`);
        expect(mayRead(caller, other)).toBe(isBelow);
      }),
    );
  });

  it('is, for what has no owner, only who sees everything: without a path or at the root', () => {
    fc.assert(
      fc.property(path, owner, (caller, of) => {
        expect(mayRead(caller, undefined)).toBe(false);
        for (const all of [undefined, '/' as UserPath]) {
          expect(mayRead(all, of)).toBe(true);
          expect(isScoped(all)).toBe(false);
        }
        expect(isScoped(caller)).toBe(true);
      }),
    );
  });
});
