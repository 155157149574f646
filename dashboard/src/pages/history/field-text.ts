/** The value of a field as text. Pure. */

/** Lists of words with commas; other lists and objects as JSON. */
export function fieldText(value: unknown): string {
  if (typeof value === 'string') return value;
  if (Array.isArray(value) && value.length > 0 && value.every((one) => typeof one === 'string'))
    return value.join(', ');
  return JSON.stringify(value, undefined, typeof value === 'object' ? 1 : undefined);
}
