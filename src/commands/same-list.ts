/** Whether two lists have the same entries in the same order. */
export function isSameList(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((entry, place) => entry === other[place]);
}
