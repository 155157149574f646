/** Removes the credentials that are sent to a provider from texts that it, or a proxy before it, returns. */

/** Shorter ones would be found in ordinary words. */
const MIN_LENGTH = 4;
const MIN_QUERY_LENGTH = 8;

/**
 * A function that replaces each secret with `[redacted]`: as it is, with escapes of JSON or URLs, and within any Base64
 * (RFC 4648 §4, §5), as of `user:secret` in Basic authentication. Of a Base64 text, what precedes the secret is kept.
 */
export function redactorOf(secrets: readonly string[]): (text: string) => string {
  const longestFirst = [...new Set(secrets)]
    .filter(({ length }) => length >= MIN_LENGTH)
    .sort((a, b) => b.length - a.length);
  const plain = longestFirst.map((secret) => [...secret].map(spellings).join(''));
  const encoded = longestFirst.flatMap(inBase64).map((text) => `${[...text].map(spellings).join('')}[\\w+/-]*={0,2}`);
  // One by one: a search for a pattern that begins with a fixed text is fast, also in a long answer.
  const patterns = [...plain, ...encoded].map((pattern) => new RegExp(pattern, 'g'));
  return (text) => patterns.reduce((rest, pattern) => rest.replace(pattern, '[redacted]'), text);
}

/** Of a URL, decoded and as written: user and password, a user name without a password, and the long values of its query. */
export function credentialsIn(url: string): string[] {
  if (!URL.canParse(url)) return [];
  const { username, password, searchParams } = new URL(url);
  const secret = password === '' ? username : password;
  const login = secret === '' ? [] : [`${username}:${password}`, secret];
  const queried = [...searchParams].filter(
    ([name, value]) => name !== 'api-version' && value.length >= MIN_QUERY_LENGTH,
  );
  return [...login.flatMap((text) => [text, decodeURIComponent(text)]), ...queried.map(([, value]) => value)];
}

/** The characters of its Base64 that depend on the secret alone, for each of its three positions in a longer text. */
function inBase64(secret: string): string[] {
  return [0, 1, 2].map((before) => {
    const bytes = Buffer.concat([Buffer.alloc(before), Buffer.from(secret)]);
    return bytes.toString('base64').slice(Math.ceil((before * 8) / 6), Math.floor((bytes.length * 8) / 6));
  });
}

/** In the alphabet for URLs. */
const urlSafe: Readonly<Record<string, string>> = { '+': '-', '/': '_' };

/** A pattern of the ways in which a character may be written, also of UTF-8 that is read as Latin-1. */
function spellings(character: string): string {
  if (/[a-z\d]/i.test(character)) return character;
  const bytes = Buffer.from(character);
  const percent = bytes.toString('hex').replace(/../g, '%$&');
  const unicode = Array.from({ length: character.length }, (_, at) =>
    character.charCodeAt(at).toString(16).padStart(4, '0'),
  );
  const inHex = [percent, unicode.map((code) => `\\u${code}`).join('')];
  const upper = [percent.toUpperCase(), unicode.map((code) => `\\u${code.toUpperCase()}`).join('')];
  const literal = [character, `\\${character}`, bytes.toString('latin1'), urlSafe[character] ?? character];
  return `(?:${[...new Set([...literal, ...inHex, ...upper])].map((text) => text.replace(/\W/g, '\\$&')).join('|')})`;
}
