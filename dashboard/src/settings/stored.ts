/** A setting of this browser: a signal that is kept in local storage, where the browser allows it. */
import { type Signal, signal } from '@preact/signals';

/** @param parse reads what is stored; undefined for a value that is no longer valid */
export function storedSignal<T>(name: string, initial: T, parse: (stored: unknown) => T | undefined): Signal<T> {
  const key = `chancery.${name}`;
  const setting = signal(parse(read(localStorage, key)) ?? initial);
  let first = true;
  setting.subscribe((value) => {
    if (first) first = false;
    else write(localStorage, key, value);
  });
  // Another tab changed it.
  addEventListener('storage', (event) => {
    if (event.storageArea === localStorage && event.key === key)
      setting.value = parse(parsed(event.newValue)) ?? initial;
  });
  return setting;
}

export function read(storage: Storage, key: string): unknown {
  try {
    return parsed(storage.getItem(key));
  } catch {
    return undefined;
  }
}

/** Without effect where the browser forbids storage. */
export function write(storage: Storage, key: string, value: unknown): void {
  try {
    if (value === undefined) storage.removeItem(key);
    else storage.setItem(key, JSON.stringify(value));
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
