/**
 * The one parser of user paths: in headers, queries, bodies, address segments and the configuration.
 *
 * Accepted: segments of printable ASCII without spaces, separated by `/`; a leading and one trailing slash are
 * optional. At most 512 characters. Refused: an empty segment, `.` and `..`.
 * Everything else is 400 `invalid_user_path` with the name of the header, parameter or field as `param`.
 */
import { refusals } from '../commands/refusal.ts';
import type { UserPath } from '../events/event.ts';
import { type Query, single } from './query.ts';

const MAX_USER_PATH_LENGTH = 512;

/**
 * The canonical form: `team/alpha`, `/team/alpha` and `/team/alpha/` become `/team/alpha`; an empty text becomes `/`.
 * @param name the header, parameter or field that holds it
 * @throws Refusal 400 `invalid_user_path`
 */
export function parseUserPath(value: string, name: string): UserPath {
  if (value.length > MAX_USER_PATH_LENGTH) {
    throw refusals.invalidUserPath(name, `is longer than ${MAX_USER_PATH_LENGTH} characters`);
  }
  const segments = value.split('/').slice(value.startsWith('/') ? 1 : 0);
  if (segments.at(-1) === '') segments.pop();
  for (const segment of segments) {
    if (segment === '') throw refusals.invalidUserPath(name, 'has an empty segment');
    if (segment === '.' || segment === '..') throw refusals.invalidUserPath(name, `has a '${segment}' segment`);
    if (/[^\x21-\x7e]/.test(segment)) throw refusals.invalidUserPath(name, 'has characters other than visible ASCII');
  }
  return `/${segments.join('/')}` as UserPath;
}

/** The same where a path is optional: an empty text counts as not given. @throws Refusal 400 `invalid_user_path` */
export function optionalUserPath(value: string | null | undefined, name: string): UserPath | undefined {
  return value === undefined || value === null || value === '' ? undefined : parseUserPath(value, name);
}

/**
 * The subtree to which `user_path` in a query restricts a report or the live tail. A filter names nothing that is
 * stored, so empty segments are dropped instead of refused: `//team//alpha` becomes `/team/alpha`.
 * @throws Refusal 400 `invalid_user_path`
 */
export function userPathFilter(query: Query): UserPath | undefined {
  const text = single(query['user_path']);
  return optionalUserPath(text?.replaceAll(/\/{2,}/g, '/'), 'user_path');
}
