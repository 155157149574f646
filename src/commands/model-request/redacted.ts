/** The provider of an answer, and how its credentials are redacted. */
export interface Answering {
  readonly name: string;
  redact?(text: string): string;
}

/** The bytes without the provider's credentials, which some providers repeat in their errors. */
export function redacted(bytes: Buffer, provider: Answering): Buffer {
  // Credentials are ASCII, so the bytes survive a conversion to Latin-1 and back.
  const text = bytes.toString('latin1');
  const clean = provider.redact?.(text) ?? text;
  return clean === text ? bytes : Buffer.from(clean, 'latin1');
}
