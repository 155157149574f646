/** A recorded request, as the snippets repeat it against this gateway. */
export interface RecordedRequest {
  /** Where this gateway is, without `/v1`: `https://gateway.example/base`. */
  readonly gateway: string;
  readonly method: string;
  /** Path and query as recorded: `/v1/chat/completions`. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly body: Uint8Array;
}

export type Snippet = { readonly code: string; readonly notes: readonly string[] } | { readonly unavailable: string };

/** Headers that belong to one connection, to the client's program, or to credentials; an idempotency key would return the recorded answer. */
const dropped =
  /^(?:host|connection|keep-alive|content-length|content-encoding|transfer-encoding|te|trailer|upgrade|expect|date|accept-encoding|user-agent|cookie|authorization|proxy-.*|x-api-key|api-key|idempotency-key|traceparent|tracestate|x-request-id|x-forwarded-.*|x-real-ip|forwarded|via|origin|referer|sec-.*|x-stainless-.*)$/;
const redacted = /\[redacted\]|^\*+$/i;
const printable = /^[\x20-\x7e]*$/;

/** The headers worth repeating, in lower case. */
export function repeatedHeaders({ headers }: RecordedRequest): [name: string, value: string][] {
  return Object.entries(headers).flatMap(([name, value]) => {
    const lower = name.toLowerCase();
    if (dropped.test(lower) || !/^[a-z0-9-]+$/.test(lower) || value === undefined) return [];
    const text = typeof value === 'string' ? value : value.join(', ');
    return printable.test(text) && !redacted.test(text) ? [[lower, text] as [string, string]] : [];
  });
}
