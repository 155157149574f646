/**
 * Ids of items that tell where the item is: `<kind>_<32 hex>_<n>` is the n-th output item of the translated response
 * `resp_<32 hex>`, `<kind>_<32 hex>_i<n>` the n-th of its input. They are found without an index.
 */

/** Of an input item that came without an id. @param root 32 hexadecimal digits */
export function inputItemId(kind: string, root: string, index: number): string {
  return `${kind}_${root}_i${index}`;
}

/** The 32 hexadecimal digits in the id of a response that the gateway made; undefined for any other id. */
export function rootOf(responseId: string): string | undefined {
  return /^resp_([0-9a-f]{32})$/.exec(responseId)?.[1];
}

/** The id of the response that an item says it belongs to; undefined when it says nothing. */
export function responseOfItem(itemId: string): string | undefined {
  const root = /^[a-z]+_([0-9a-f]{32})_i?\d+$/.exec(itemId)?.[1];
  return root === undefined ? undefined : `resp_${root}`;
}
