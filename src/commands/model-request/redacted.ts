/** Who answers, and how its credentials are taken out of what it says. */
export interface Answering {
  readonly name: string;
  redact?(text: string): string;
}

/** The bytes without the provider's credentials, which some providers repeat in their errors. */
export function redacted(bytes: Buffer, provider: Answering): Buffer {
  // Credentials are ASCII, so bytes can be looked at as Latin-1 and come back as they were.
  const text = bytes.toString('latin1');
  const clean = provider.redact?.(text) ?? text;
  return clean === text ? bytes : Buffer.from(clean, 'latin1');
}
