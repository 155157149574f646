import { isUtf8 } from 'node:buffer';
import { parseExactly } from '../json/exact-json.ts';
import { refusals } from './refusal.ts';

/**
 * The value of a body that is one JSON text.
 * @param parse parses the text
 * @throws Refusal 400 `invalid_json`
 */
export function parseJson(body: Buffer, parse: (text: string) => unknown = parseExactly): unknown {
  if (!isUtf8(body)) throw refusals.malformedJson('it is not valid UTF-8');
  try {
    return parse(body.toString());
  } catch (error) {
    throw refusals.malformedJson(error instanceof Error ? error.message : 'it cannot be read');
  }
}
