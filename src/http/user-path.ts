/** User paths as clients and administrators write them. */
import { refusals } from '../commands/refusal.ts';
import type { UserPath } from '../events/event.ts';

const MAX_USER_PATH_LENGTH = 512;

/**
 * `team/alpha`, `/team/alpha` and `/team/alpha/` are the same path.
 * @param name the header or field that holds it
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
    if (/[^\x21-\x7e]/.test(segment)) throw refusals.invalidUserPath(name, 'has spaces or control characters');
  }
  return `/${segments.join('/')}` as UserPath;
}
