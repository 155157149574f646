/** How many bytes two texts share at their beginning and at their end, by native comparison of ranges. */

/** The first range that is compared on its own; later ones double. */
const FIRST_RANGE = 64;

export function commonPrefix(one: Buffer, other: Buffer): number {
  const most = Math.min(one.length, other.length);
  return sharedLength(most, (from, to) => one.compare(other, from, to, from, to) === 0);
}

/** @param most bytes of both that may count, at most the length of the shorter one */
export function commonSuffix(one: Buffer, other: Buffer, most: number): number {
  const [ofOne, ofOther] = [one.length, other.length];
  return sharedLength(
    most,
    (from, to) => one.compare(other, ofOther - to, ofOther - from, ofOne - to, ofOne - from) === 0,
  );
}

/** @param isEqual whether the ranges are equal, counted from the end at which the comparison begins */
function sharedLength(most: number, isEqual: (from: number, to: number) => boolean): number {
  if (isEqual(0, most)) return most;
  let equal = 0;
  let range = FIRST_RANGE;
  while (equal + range < most && isEqual(equal, equal + range)) {
    equal += range;
    range *= 2;
  }
  let different = Math.min(equal + range, most);
  while (different - equal > 1) {
    const middle = (equal + different) >>> 1;
    if (isEqual(equal, middle)) equal = middle;
    else different = middle;
  }
  return equal;
}
