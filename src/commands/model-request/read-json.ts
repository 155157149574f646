import { isUtf8 } from 'node:buffer';
import { parseExactly } from '../../json/exact-json.ts';
import { refusals } from '../refusal.ts';
import type { ReadResult } from './parsed-request.ts';

interface JsonReader {
  read(json: unknown): ReadResult;
}

/** Reads a body that is one JSON text, with its dialect. */
export function readJson(dialect: JsonReader, body: Buffer): ReadResult {
  if (!isUtf8(body)) return { ok: false, refusal: refusals.malformedJson('it is not valid UTF-8') };
  let json: unknown;
  try {
    json = parseExactly(body.toString());
  } catch (error) {
    const detail = body.length === 0 ? 'it is empty' : error instanceof Error ? error.message : 'it cannot be read';
    return { ok: false, refusal: refusals.malformedJson(detail) };
  }
  return dialect.read(json);
}
