/** Instants as fields for local times have them, in the chosen zone. */
import { offsetOfZone } from './zone-days.ts';

/** `YYYY-MM-DDTHH:MM:SS` in the zone. */
export function localText(instant: string, zone: string): string {
  const at = Date.parse(instant);
  return new Date(at + offsetOfZone(at, zone)).toISOString().slice(0, 19);
}

/** @returns milliseconds since the epoch; undefined for a text that is no local time */
export function instantOfLocal(text: string, zone: string): number | undefined {
  const local = Date.parse(`${text}Z`);
  if (Number.isNaN(local)) return undefined;
  const guess = local - offsetOfZone(local, zone);
  return local - offsetOfZone(guess, zone);
}
