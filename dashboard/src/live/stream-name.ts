/** The name that tabs with the same gateway, key and filter share. It does not reveal the key. */
import { type LiveFilter, liveQuery } from './live-filter.ts';

/** @param gateway address of the gateway @throws without `crypto.subtle`, which only secure pages have */
export async function streamName(gateway: string, key: string, filter: LiveFilter): Promise<string> {
  const identity = JSON.stringify([gateway, key, Object.entries(liveQuery(filter)).sort()]);
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(identity));
  const hex = Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('');
  return `chancery-live-${hex}`;
}
