/** The time zone in which times are shown and days begin. Reports get it in `X-Gateway-Timezone`. */
import { computed } from '@preact/signals';
import { storedSignal } from './stored.ts';

export const browserZone = Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC';

/** '' is the zone of the browser. */
export const chosenZone = storedSignal<string>('time-zone', '', (stored) =>
  typeof stored === 'string' && isZone(stored) ? stored : undefined,
);

export const timeZone = computed(() => chosenZone.value || browserZone);

/** Zones to choose from: the browser's and UTC first. */
export function knownZones(): readonly string[] {
  return [...new Set([browserZone, 'UTC', ...Intl.supportedValuesOf('timeZone')])];
}

function isZone(name: string): boolean {
  if (name === '') return true;
  try {
    new Intl.DateTimeFormat('en', { timeZone: name });
    return true;
  } catch {
    return false;
  }
}
