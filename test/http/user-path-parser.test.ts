/** The one parser of user paths: accepted forms and refusals, value by value. */
import { describe, expect, it } from 'vitest';
import { Refusal } from '../../src/commands/refusal.ts';
import { optionalUserPath, parseUserPath, userPathFilter } from '../../src/http/request-head.ts';

/** A path, or the code of the refusal. */
function outcome(parse: () => string | undefined): string | undefined {
  try {
    return parse();
  } catch (error) {
    if (error instanceof Refusal && error.status === 400 && error.param === 'field') return `${error.code}`;
    if (error instanceof Refusal && error.status === 400 && error.param === 'user_path') return `${error.code}`;
    throw error;
  }
}

const invalid = 'invalid_user_path';
const long = `/${'a'.repeat(511)}`;

/** The input; the result as a path, as an optional path, and as a filter. */
const table: readonly (readonly [string, string, string | undefined, string | undefined])[] = [
  ['', '/', undefined, undefined],
  ['/', '/', '/', '/'],
  ['//', invalid, invalid, '/'],
  ['team', '/team', '/team', '/team'],
  ['/team/alpha', '/team/alpha', '/team/alpha', '/team/alpha'],
  ['team/alpha/', '/team/alpha', '/team/alpha', '/team/alpha'],
  ['/team//alpha', invalid, invalid, '/team/alpha'],
  ['//team///alpha//', invalid, invalid, '/team/alpha'],
  ['/team/.', invalid, invalid, invalid],
  ['/team/../alpha', invalid, invalid, invalid],
  ['..', invalid, invalid, invalid],
  ['/team/...', '/team/...', '/team/...', '/team/...'],
  ['/Team', '/Team', '/Team', '/Team'],
  ['/a:b@c,d', '/a:b@c,d', '/a:b@c,d', '/a:b@c,d'],
  ['/%2e%2e', '/%2e%2e', '/%2e%2e', '/%2e%2e'],
  ['-1', '/-1', '/-1', '/-1'],
  ['1e3', '/1e3', '/1e3', '/1e3'],
  [' ', invalid, invalid, invalid],
  ['/team alpha', invalid, invalid, invalid],
  ['/team\t', invalid, invalid, invalid],
  ['/team\n/x', invalid, invalid, invalid],
  ['/te\0am', invalid, invalid, invalid],
  ['/\x7f', invalid, invalid, invalid],
  ['/grüße', invalid, invalid, invalid],
  ['/١٢', invalid, invalid, invalid],
  ['/👩', invalid, invalid, invalid],
  [long, long, long, long],
  [`${long}a`, invalid, invalid, invalid],
  [`/${'a/'.repeat(100_000)}`, invalid, invalid, invalid],
];

describe('a user path', () => {
  it.each(table)('%j is %j, %j as an optional path, %j as a filter', (text, path, optional, filter) => {
    expect(outcome(() => parseUserPath(text, 'field'))).toBe(path);
    expect(outcome(() => optionalUserPath(text, 'field'))).toBe(optional);
    expect(outcome(() => userPathFilter({ user_path: text }))).toBe(filter);
  });

  it.each(['/grüße', '/team alpha', '/te\0am'])('%j is refused with what is not allowed in it', (text) => {
    expect(() => parseUserPath(text, 'field')).toThrow('has characters other than visible ASCII');
  });

  it('is absent when it is null or undefined', () => {
    expect(optionalUserPath(undefined, 'field')).toBeUndefined();
    expect(optionalUserPath(null, 'field')).toBeUndefined();
    expect(userPathFilter({})).toBeUndefined();
  });

  it('is the last of a repeated parameter', () => {
    expect(userPathFilter({ user_path: ['/../x', '/b'] })).toBe('/b');
    expect(outcome(() => userPathFilter({ user_path: ['/b', '/../x'] }))).toBe(invalid);
  });
});
