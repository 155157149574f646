/** A setting of this browser: a signal that is kept in local storage, where the browser allows it. */
import { type Signal, signal } from '@preact/signals';

/** @param parse reads what is stored; undefined for a value that is no longer valid */
export function storedSignal<T>(name: string, initial: T, parse: (stored: unknown) => T | undefined): Signal<T> {
  const key = `chancery.${name}`;
  const setting = signal(parse(read('local', key)) ?? initial);
  let first = true;
  setting.subscribe((value) => {
    if (first) first = false;
    else write('local', key, value);
  });
  // Another tab changed it.
  addEventListener('storage', (event) => {
    if (event.key === key && event.storageArea === storageOf('local'))
      setting.value = parse(parsed(event.newValue)) ?? initial;
  });
  return setting;
}

/** `session` is that of the tab. */
type StorageName = 'local' | 'session';

export function read(name: StorageName, key: string): unknown {
  try {
    return parsed(storageOf(name)?.getItem(key) ?? null);
  } catch {
    return undefined;
  }
}

/** Undefined where the browser blocks it: reading the property throws then. */
function storageOf(name: StorageName): Storage | undefined {
  try {
    return name === 'local' ? localStorage : sessionStorage;
  } catch {
    return undefined;
  }
}

/** Without effect where the browser forbids storage. */
export function write(name: StorageName, key: string, value: unknown): void {
  try {
    const storage = storageOf(name);
    if (value === undefined) storage?.removeItem(key);
    else storage?.setItem(key, JSON.stringify(value));
  } catch {
    // The value is used until the page is closed.
  }
}

function parsed(text: string | null): unknown {
  if (text === null) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
