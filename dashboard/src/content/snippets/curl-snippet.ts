/** A recorded request as a curl command for POSIX shells, with exactly the recorded body. */
import { type RecordedRequest, repeatedHeaders, type Snippet } from './recorded-request.ts';

/** Linux limits one argument to 128 KiB; longer bodies are passed by a pipe, whose `printf` is part of the shell. */
const MAX_ARGUMENT = 100_000;

export function curlSnippet(request: RecordedRequest): Snippet {
  const { gateway, method, path, body } = request;
  const notes = ['Set API_KEY to a key of this gateway first: export API_KEY=…'];
  const options = [
    quoteForShell(gateway + path),
    ...(method === 'POST' && body.length > 0 ? [] : [`-X ${quoteForShell(method)}`]),
    keyHeader(path),
    ...repeatedHeaders(request).map(([name, value]) => `-H ${quoteForShell(`${name}: ${value}`)}`),
    ...(wantsStream(body) ? ['-N'] : []),
  ];
  const text = pasteableText(body);
  if (body.length === 0) return { code: command('curl', options), notes };
  if (text !== undefined && body.length <= MAX_ARGUMENT) {
    return { code: command('curl', [...options, `--data-raw ${quoteForShell(text)}`]), notes };
  }
  const piped = [...options, '--data-binary @-'];
  if (text !== undefined) return { code: `printf %s ${quoteForShell(text)} | ${command('curl', piped)}`, notes };
  notes.push('The body is given in base64, because it contains bytes that a terminal would not pass on.');
  return { code: `printf %s '${base64Of(body)}' | base64 -d | ${command('curl', piped)}`, notes };
}

function command(name: string, options: readonly string[]): string {
  return [name, ...options].join(' \\\n  ').replace(`${name} \\\n  `, `${name} `);
}

/** In single quotes a shell changes nothing; a single quote itself is written outside them. */
export function quoteForShell(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function keyHeader(path: string): string {
  return /^\/v1\/messages\b/.test(path) ? '-H "x-api-key: $API_KEY"' : '-H "Authorization: Bearer $API_KEY"';
}

function wantsStream(body: Uint8Array): boolean {
  return /"stream"\s*:\s*true/.test(new TextDecoder().decode(body.subarray(0, 1_000_000)));
}

/**
 * The body as text; undefined when it is not UTF-8, or contains control characters: pasted into a terminal, they can end
 * the quoted text and run what follows.
 */
function pasteableText(body: Uint8Array): string | undefined {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body);
    return /(?![\t\n])\p{Cc}/u.test(text) ? undefined : text;
  } catch {
    return undefined;
  }
}

function base64Of(bytes: Uint8Array): string {
  let binary = '';
  for (let at = 0; at < bytes.length; at += 8_192) binary += String.fromCharCode(...bytes.subarray(at, at + 8_192));
  return btoa(binary);
}
