/** Converts a parser's result to the request that the exchange works with. */
import type { ReadResult } from '../../model-request/parsed-request.ts';
import { Refusal } from '../../refusal.ts';

export function readWith(parsed: Parsed): ReadResult {
  if (!parsed.ok) return { ok: false, refusal: new Refusal({ ...parsed.refusal, type: 'invalid_request_error' }) };
  const json = parsed.request;
  const provider = typeof json.provider === 'string' && json.provider !== '' ? json.provider : undefined;
  return { ok: true, parsedRequest: { model: json.model, provider, stream: json.stream === true, json } };
}

/** The result of parsing a request body. */
export type Parsed =
  | { readonly ok: true; readonly request: Record<string, unknown> & { model: string } }
  | {
      readonly ok: false;
      readonly refusal: { status: number; code: string | null; param: string | null; message: string };
    };
