import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type Authority,
  authorityAt,
  authorityOf,
  bindingValue,
  highest,
  type ValuesByAdministrator,
  withValue,
} from '../../src/commands/access/authority.ts';
import type { KnownKey } from '../../src/commands/access/key-directory.ts';
import { covers, selectorList } from '../../src/commands/access/selector.ts';
import type { Caller } from '../../src/commands/model-request/model-request.ts';
import { visibilityOf } from '../../src/commands/visibility.ts';
import type { Actor, UserPath } from '../../src/events/event.ts';

const known = new Map<string, KnownKey>();
const keys = { byId: (id: string) => known.get(id) };

function key(id: string, path: string | undefined, deactivatedAt?: number): Caller {
  const made: KnownKey = {
    id,
    userPath: path as UserPath | undefined,
    dashboardAccess: true,
    allowedModels: [],
    labels: [],
    secretHash: id,
    previousSecret: undefined,
    userPathHeader: true,
    allowedCidrs: [],
    expiresAt: undefined,
    deactivatedAt,
  };
  known.set(id, made);
  const actor = `key:${id}` as const;
  return {
    actor,
    authMethod: 'api_key',
    userPath: made.userPath,
    key: made,
    visibility: visibilityOf({ actor, key: made }),
  };
}

const master: Caller = { actor: 'master', authMethod: 'master_key', visibility: { of: 'everything' } };
const global = key('global', undefined);
const ofRoot = key('of the root', '/');
const org = key('org', '/org');
const team = key('team', '/org/team');
const peer = key('peer', '/org/team');
const similar = key('similar', '/org/te');
const below = key('below', '/org/team/a');
const beside = key('beside', '/org/other');
const gone = key('gone', '/org', 1);

describe('actors above a caller', () => {
  const above = (caller: Caller, ...others: Caller[]) =>
    others.map(({ actor }) => authorityOf(caller, keys).isUnder(actor));

  it('are none for the master key', () => {
    expect(above(master, master, global, org)).toEqual([false, false, false]);
    expect(authorityOf(master, keys).isUnder('system')).toBe(false);
  });

  it('are the master key and the configuration for a global administrator, and no key', () => {
    for (const caller of [global, ofRoot]) {
      expect(above(caller, master, global, ofRoot, org)).toEqual([true, false, false, false]);
      expect(authorityOf(caller, keys).isUnder('system')).toBe(true);
    }
  });

  it('are for an administrator of a subtree also the keys above it, and deactivated ones that were', () => {
    expect(above(team, master, global, ofRoot, org, gone)).toEqual([true, true, true, true, true]);
    expect(above(team, team, peer, similar, below, beside)).toEqual([false, false, false, false, false]);
    expect(authorityOf(team, keys).isUnder('system')).toBe(true);
  });

  it('include an unknown key', () => {
    expect(authorityOf(team, keys).isUnder('key:unknown')).toBe(true);
  });

  it('count at the root of the own subtree alone', () => {
    expect(authorityAt('/org/team', team, keys).isUnder('master')).toBe(true);
    for (const path of ['/org/team/a', '/org/team-b']) expect(authorityAt(path, team, keys)).toBe(highest);
    for (const caller of [global, ofRoot, master]) expect(authorityAt('/', caller, keys)).toBe(highest);
  });
});

describe('the binding setting', () => {
  const under = (...actors: Actor[]): Authority => ({ isUnder: (actor) => actors.includes(actor) });
  const said = (...words: [Actor, number | undefined][]): ValuesByAdministrator<number> =>
    words.reduce<ValuesByAdministrator<number>>((before, [by, value]) => withValue(before, by, value), []);

  it('is the newest one of the actors above, also when another actor set it later', () => {
    const words = said(['master', 1], ['key:org', 2], ['key:team', 3]);
    expect(bindingValue(words, under('master', 'key:org'))).toBe(2);
    expect(bindingValue(words, under('master'))).toBe(1);
    expect(bindingValue(words, highest)).toBeUndefined();
    expect(bindingValue(said(['key:org', 2], ['master', 1]), under('master', 'key:org'))).toBe(1);
  });

  it('is none after an actor above removed it, and is kept when an actor below did', () => {
    expect(bindingValue(said(['master', 1], ['key:org', undefined]), under('master', 'key:org'))).toBeUndefined();
    expect(bindingValue(said(['master', 1], ['key:team', undefined]), under('master'))).toBe(1);
    expect(bindingValue(said(['master', 1], ['master', undefined], ['master', 4]), under('master'))).toBe(4);
  });

  it('equals a fold of the whole history, and has one entry for each actor', () => {
    const actor = fc.constantFrom<Actor[]>('master', 'key:1', 'key:2');
    const word = fc.tuple(actor, fc.option(fc.nat(5), { nil: undefined }));
    fc.assert(
      fc.property(fc.array(word), fc.subarray(['master', 'key:1', 'key:2'] as Actor[]), (history, above) => {
        let expected: number | undefined;
        for (const [by, value] of history) if (above.includes(by)) expected = value;
        const words = said(...history);
        expect(bindingValue(words, under(...above))).toBe(expected);
        expect(words.length).toBeLessThanOrEqual(3);
      }),
    );
  });
});

describe('covers', () => {
  const selector = fc.constantFrom('/', 'p/', 'q/', 'p/m', 'q/m', 'p/n', 'm', 'n');
  const list = fc.uniqueArray(selector, { maxLength: 4 });
  const models = ['p', 'q', 'r'].flatMap((provider) => ['m', 'n', 'o'].map((model) => [provider, model] as const));

  it('is true only when the one list allows everything that the other does', () => {
    fc.assert(
      fc.property(list, list, (wide, narrow) => {
        if (!covers(wide, narrow)) return;
        for (const [provider, model] of models) {
          if (selectorList(narrow).has(provider, model)) expect(selectorList(wide).has(provider, model)).toBe(true);
        }
      }),
    );
  });

  it('is true for the same list, a part of it and single models within it', () => {
    fc.assert(fc.property(list, (one) => covers(one, one)));
    expect(covers(['p/', 'm'], ['p/x', 'q/m', 'm'])).toBe(true);
    expect(covers([], ['anything'])).toBe(true);
  });

  it.each([
    [['p/'], []],
    [['p/'], ['/']],
    [['p/m'], ['p/']],
    [['p/m'], ['m']],
    [['p/m', 'q/m'], ['m']],
  ])('is false for wider lists: %j does not cover %j', (one, other) => {
    expect(covers(one, other)).toBe(false);
  });
});
