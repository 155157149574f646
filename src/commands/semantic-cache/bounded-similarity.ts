/**
 * The similarity of two vectors of length 1, given up as soon as it cannot reach a floor. After each block, the rest
 * of the product is at most the product of the lengths of the two rests (Cauchy–Schwarz inequality): most vectors
 * about something else are left after a fraction of their dimensions, and none is left that reaches the floor.
 */

/** Dimensions between two looks at the bound. */
const BLOCK = 32;
/** More than the rounding of the numbers: a similarity this close to the floor is computed to its end. */
const ROUNDING = 1e-5;

/** @returns the length of what follows each block of the vector */
export function restsOf(vector: Float32Array): Float32Array {
  const rests = new Float32Array(Math.ceil(vector.length / BLOCK));
  let squares = 0;
  for (let block = rests.length - 1; block >= 0; block--) {
    rests[block] = Math.sqrt(squares);
    for (let at = block * BLOCK; at < Math.min((block + 1) * BLOCK, vector.length); at++) {
      squares += (vector[at] ?? 0) ** 2;
    }
  }
  return rests;
}

/** @returns undefined when the similarity is below `floor`. Both vectors have the same number of dimensions. */
export function similarityAtLeast(
  floor: number,
  one: Float32Array,
  oneRests: Float32Array,
  other: Float32Array,
  otherRests: Float32Array,
): number | undefined {
  const { length } = one;
  let sum = 0;
  for (let block = 0, at = 0; at < length; block++) {
    const end = Math.min(at + BLOCK, length);
    let a = 0;
    let b = 0;
    let c = 0;
    let d = 0;
    // Four sums, so that the processor does not wait for one addition before the next.
    for (; at + 3 < end; at += 4) {
      a += (one[at] ?? 0) * (other[at] ?? 0);
      b += (one[at + 1] ?? 0) * (other[at + 1] ?? 0);
      c += (one[at + 2] ?? 0) * (other[at + 2] ?? 0);
      d += (one[at + 3] ?? 0) * (other[at + 3] ?? 0);
    }
    for (; at < end; at++) a += (one[at] ?? 0) * (other[at] ?? 0);
    sum += a + b + c + d;
    if (sum + (oneRests[block] ?? 0) * (otherRests[block] ?? 0) < floor - ROUNDING) return undefined;
  }
  return sum >= floor ? Math.min(sum, 1) : undefined;
}
