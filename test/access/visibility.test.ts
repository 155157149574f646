import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  everything,
  type Owner,
  sees,
  seesEverything,
  type VisibilityScope,
  visibilityOf,
} from '../../src/commands/visibility.ts';
import type { Actor, UserPath } from '../../src/events/event.ts';

const path = fc
  .array(fc.constantFrom('a', 'b', 'ab'), { minLength: 1, maxLength: 4 })
  .map((segments) => `/${segments.join('/')}` as UserPath);
const anyPath = fc.option(fc.oneof(path, fc.constant('/' as UserPath)), { nil: undefined });
const actor = fc.constantFrom<Actor[]>('master', 'system', 'key:1', 'key:2');
const owner: fc.Arbitrary<Owner> = fc.record({ userPath: anyPath, createdBy: actor });
const root = '/' as UserPath;
const key = (userPath: UserPath | undefined, dashboardAccess: boolean) => ({ userPath, dashboardAccess });

describe('the visibility of a caller', () => {
  it('is everything for the master key and for global administrators', () => {
    for (const userPath of [undefined, root]) {
      expect(visibilityOf({ actor: 'master', userPath })).toEqual(everything);
      for (const bound of [undefined, root]) {
        expect(visibilityOf({ actor: 'key:1', userPath, key: key(bound, true) })).toEqual(everything);
      }
    }
  });

  it('is narrowed to the path in a header, for callers that see everything', () => {
    fc.assert(
      fc.property(path, (named) => {
        const subtree = { of: 'subtree', path: named };
        expect(visibilityOf({ actor: 'master', userPath: named })).toEqual(subtree);
        expect(visibilityOf({ actor: 'key:1', userPath: named, key: key(undefined, true) })).toEqual(subtree);
      }),
    );
  });

  it('is the subtree of its key, with and without dashboard access, whatever the header names', () => {
    fc.assert(
      fc.property(path, anyPath, fc.boolean(), (bound, named, dashboardAccess) => {
        const visibility = visibilityOf({ actor: 'key:1', userPath: named, key: key(bound, dashboardAccess) });
        expect(visibility).toEqual({ of: 'subtree', path: bound });
      }),
    );
  });

  it('is its own objects for a plain key without a subtree, whatever the header names', () => {
    fc.assert(
      fc.property(fc.constantFrom(undefined, root), anyPath, (bound, named) => {
        const visibility = visibilityOf({ actor: 'key:1', userPath: named, key: key(bound, false) });
        expect(visibility).toEqual({ of: 'own', actor: 'key:1' });
      }),
    );
  });

  it('is its own objects for an unknown key', () => {
    expect(visibilityOf({ actor: 'key:1', key: undefined })).toEqual({ of: 'own', actor: 'key:1' });
  });
});

describe('the objects that a caller sees', () => {
  it('are all, also those without a path, only for callers that see everything', () => {
    fc.assert(
      fc.property(path, owner, (of, object) => {
        expect(sees(everything, object)).toBe(true);
        const unplaced = { ...object, userPath: undefined };
        expect(sees({ of: 'subtree', path: of }, unplaced)).toBe(false);
      }),
    );
    const sights: VisibilityScope[] = [
      everything,
      { of: 'subtree', path: '/a' as UserPath },
      { of: 'own', actor: 'key:1' },
    ];
    expect(sights.map(seesEverything)).toEqual([true, false, false]);
  });

  it('are those created at the root of its subtree or below it, and none beside or above it', () => {
    fc.assert(
      fc.property(path, path, actor, (of, userPath, createdBy) => {
        const isWithin = `${userPath}/`.startsWith(`${of}/`);
        expect(sees({ of: 'subtree', path: of }, { userPath, createdBy })).toBe(isWithin);
      }),
    );
  });

  it('are those it created itself, at any path, and none that others created there', () => {
    fc.assert(
      fc.property(actor, owner, (one, object) => {
        expect(sees({ of: 'own', actor: one }, object)).toBe(object.createdBy === one);
      }),
    );
  });
});
