/**
 * Whether a parsed JSON value is an object, neither null nor a list. Its members are still unknown.
 * An integer kept exact by `parseExactly` is an object too: test `isExactNumber` first where one may occur.
 */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
