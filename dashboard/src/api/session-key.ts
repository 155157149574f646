/**
 * The key with which the page reads data. It is in the session storage of this tab; in local storage only when the user
 * chose to keep it. It is never part of a URL, a message to another tab, or an error.
 */
import { signal } from '@preact/signals';
import { read, write } from '../settings/stored.ts';

const NAME = 'chancery.key';

/** A key is sent in a header, which takes no other characters. */
export function isKey(text: string): boolean {
  return /^[\x21-\x7e]{1,4096}$/.test(text);
}

function storedKey(): string {
  for (const storage of ['session', 'local'] as const) {
    const stored = read(storage, NAME);
    if (typeof stored === 'string' && isKey(stored)) return stored;
  }
  return '';
}

/** '' without a key. */
export const sessionKey = signal(storedKey());

/** Why the last key is not used any more; shown where a key is entered. */
export const keyProblem = signal<string | undefined>(undefined);

export function useKey(key: string, { keep }: { readonly keep: boolean }): void {
  write('session', NAME, key);
  write('local', NAME, keep ? key : undefined);
  keyProblem.value = undefined;
  sessionKey.value = key;
}

/** @param problem shown to the user; undefined when the user removed the key */
export function forgetKey(problem?: string): void {
  write('session', NAME, undefined);
  write('local', NAME, undefined);
  keyProblem.value = problem;
  sessionKey.value = '';
}
