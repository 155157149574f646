/** Parts that the addresses of all engines have. Messages name no value: it could be a part of a password. */
import { EngineUnsuitable } from './engine.ts';

/** @throws EngineUnsuitable */
export function enginePort(text: string): number {
  const port = Number(text);
  if (!/^\d{1,5}$/.test(text) || port < 1 || port > 65_535) {
    throw new EngineUnsuitable('a port in the address is not from 1 to 65535');
  }
  return port;
}

/**
 * Each setting of the query once, with its name in the normal form.
 * @throws EngineUnsuitable
 */
export function settingsInQuery(query: string, normal = (name: string) => name): ReadonlyMap<string, string> {
  const settings = new Map<string, string>();
  for (const [typed, value] of new URLSearchParams(query)) {
    const name = normal(typed);
    if (settings.has(name)) throw new EngineUnsuitable('the address has a setting twice');
    settings.set(name, value);
  }
  return settings;
}
