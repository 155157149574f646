/** What stands in a text instead of a value that was found in it. */
import { createHash } from 'node:crypto';

export const operators = ['replace', 'mask', 'redact', 'hash'] as const;
export type Operator = (typeof operators)[number];

/** Without a way back: the value is not recorded. */
export function hiddenValue(operator: Operator, entity: string, value: string): string {
  if (operator === 'redact') return '';
  if (operator === 'mask') return masked(value);
  if (operator === 'hash') return createHash('sha256').update(value).digest('hex');
  return `<${entity}>`;
}

const shown = 4;

/** All letters and digits but the last four, of values with more than eight. */
function masked(value: string): string {
  const signs = value.match(/[\p{L}\p{N}]/gu)?.length ?? 0;
  let hidden = signs > 2 * shown ? signs - shown : signs;
  return value.replace(/[\p{L}\p{N}]/gu, (sign) => {
    hidden -= 1;
    return hidden >= 0 ? '*' : sign;
  });
}
