/**
 * A set of names in two megabytes, however many there are: one bit per hash of a name. A name in the set is always
 * found; a few names outside it are reported as found too, so the caller has to verify a hit.
 */
const BITS = 24;

export class SeenNames {
  readonly #bits = new Uint8Array(2 ** (BITS - 3));

  add(name: string): void {
    const place = placeOf(name);
    this.#bits[place >>> 3] = this.#byte(place) | (1 << (place & 7));
  }

  mayHave(name: string): boolean {
    const place = placeOf(name);
    return (this.#byte(place) & (1 << (place & 7))) !== 0;
  }

  #byte(place: number): number {
    return this.#bits[place >>> 3] ?? 0;
  }
}

/** FNV-1a, folded to `BITS` bits. */
function placeOf(name: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < name.length; at++) hash = Math.imul(hash ^ name.charCodeAt(at), 0x01000193);
  return ((hash >>> BITS) ^ hash) & (2 ** BITS - 1);
}
