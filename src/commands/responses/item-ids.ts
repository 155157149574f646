/**
 * Ids of items that contain their location: `<kind>_<32 hex>_<n>` is the n-th output item of the translated response
 * `resp_<32 hex>`, `<kind>_<32 hex>_i<n>` the n-th item of its input. Such items are found without an index.
 */

/** The id of an input item that the client sent without one. @param root 32 hexadecimal digits */
export function inputItemId(kind: string, root: string, index: number): string {
  return `${kind}_${root}_i${index}`;
}

/** The 32 hexadecimal digits in the id of a response that the gateway generated; undefined for any other id. */
export function rootOf(responseId: string): string | undefined {
  return /^resp_([0-9a-f]{32})$/.exec(responseId)?.[1];
}

/** The id of the response that an item's id contains; undefined when it contains none. */
export function responseOfItem(itemId: string): string | undefined {
  const root = /^[a-z]+_([0-9a-f]{32})_i?\d+$/.exec(itemId)?.[1];
  return root === undefined ? undefined : `resp_${root}`;
}
