/** Text from a seed: the same seed and length give the same words on every machine. */

const VOCABULARY = (
  'amber anchor autumn basket beacon blossom border bridge candle canyon carpet castle cedar circle clover copper ' +
  'coral cotton crystal dawn delta desert ember feather field forest fountain garden glacier granite harbor hazel ' +
  'horizon island ivory jasmine kettle lantern ledger lemon library linen magnet maple marble meadow mirror mountain ' +
  'needle ocean olive orchard paper pebble pepper pillar planet prairie quarry quartz ribbon river saddle sage ' +
  'sail shadow silver spruce stone summer sunrise temple thistle thunder timber tower valley velvet village violet ' +
  'walnut water willow window winter yarrow'
).split(' ');

/** FNV-1a over the UTF-16 code units, 32 bits; `seed` continues an earlier hash. */
export function hashOf(text: string, seed = 0x811c9dc5): number {
  let hash = seed;
  for (let i = 0; i < text.length; i++) {
    hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  }
  return hash >>> 0;
}

/** A small generator of uniform 32-bit numbers (splitmix32). */
export function randomNumbers(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x9e3779b9) | 0;
    let mixed = state ^ (state >>> 16);
    mixed = Math.imul(mixed, 0x21f0aaad);
    mixed ^= mixed >>> 15;
    mixed = Math.imul(mixed, 0x735a2d97);
    return (mixed ^ (mixed >>> 15)) >>> 0;
  };
}

export function wordFor(number: number): string {
  return VOCABULARY[number % VOCABULARY.length] ?? 'stone';
}

/** A sentence of exactly `tokens` tokens: words, the first with a capital, and a full stop as the last token. */
export function sentence(seed: number, tokens: number): string {
  if (tokens < 1) return '';
  const next = randomNumbers(seed);
  const first = wordFor(next());
  let text = first.charAt(0).toUpperCase() + first.slice(1);
  for (let i = 2; i < tokens; i++) text += ` ${wordFor(next())}`;
  return tokens === 1 ? text : `${text}.`;
}

/** That many bytes of noise. */
export function noise(seed: number, length: number): Buffer {
  const next = randomNumbers(seed);
  return Buffer.from(Array.from({ length }, () => next() & 0xff));
}
