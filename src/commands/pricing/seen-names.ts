/**
 * The names that were seen, in two megabytes however many they are: a bit for each hash of a name. It never forgets
 * one; of those it has not seen it takes a few for seen, and whoever asks must look closer then.
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

/** FNV-1a, folded to so many bits. */
function placeOf(name: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < name.length; at++) hash = Math.imul(hash ^ name.charCodeAt(at), 0x01000193);
  return ((hash >>> BITS) ^ hash) & (2 ** BITS - 1);
}
