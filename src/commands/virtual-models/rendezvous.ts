/**
 * Assigns sessions to places by weighted rendezvous hashing (highest random weight): a session keeps its place as
 * long as the place exists, places get sessions by their weights, and when one is removed only its own sessions move.
 */

/** @param among never empty, in any order @returns the index in the list */
export function placeOf(session: string, among: readonly { readonly key: string; readonly weight: number }[]): number {
  let chosen = 0;
  let highest = Number.NEGATIVE_INFINITY;
  for (const [place, { key, weight }] of among.entries()) {
    const score = -weight / Math.log(fraction(`${session}\0${key}`));
    if (score > highest) {
      highest = score;
      chosen = place;
    }
  }
  return chosen;
}

/** The text's hash as a number strictly between 0 and 1: FNV-1a, followed by the final mix of MurmurHash3. */
function fraction(text: string): number {
  let hash = 0x811c9dc5;
  for (let place = 0; place < text.length; place++) hash = Math.imul(hash ^ text.charCodeAt(place), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (((hash ^ (hash >>> 16)) >>> 0) + 0.5) / 2 ** 32;
}
