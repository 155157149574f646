/** The content of a `data:` URL (RFC 2397). */
export interface DataUrl {
  /** Lower case, without parameters; empty when the URL has none. */
  readonly mediaType: string;
  readonly base64: string;
}

/** Undefined when the text is not a data URL. The payload may be megabytes, so it is not checked. */
export function parseDataUrl(url: string): DataUrl | undefined {
  if (!/^data:/i.test(url)) return undefined;
  const comma = url.indexOf(',');
  if (comma === -1) return undefined;
  const [mediaType = '', ...parameters] = url.slice('data:'.length, comma).split(';');
  const payload = url.slice(comma + 1);
  const encoded = parameters.some((parameter) => parameter.trim().toLowerCase() === 'base64');
  return {
    mediaType: mediaType.trim().toLowerCase(),
    base64: encoded ? payload : percentDecoded(payload).toString('base64'),
  };
}

function percentDecoded(text: string): Buffer {
  try {
    return Buffer.from(decodeURIComponent(text));
  } catch {
    return Buffer.from(text);
  }
}
