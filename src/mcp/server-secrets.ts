/** Removes the credentials that the gateway sends to a server from all that the server sends back. */
import { isObject } from '../json/is-object.ts';
import { credentialsIn, redactorOf } from '../providers/redact.ts';
import type { McpServer } from './mcp-server.ts';

/** In results: shorter values are found in ordinary words. */
const MIN_LENGTH = 8;
/** Of a text of a server in an error. */
const MAX_EXCERPT = 200;
/** Values of headers that were sent with tokens that have been replaced since. */
const MAX_SENT = 16;

/** Headers whose values are no secrets, and are found in many results. */
const isPublic: ReadonlySet<string> = new Set(['accept', 'accept-language', 'content-type', 'user-agent']);

/** The secrets of one server in one session. */
export class ServerSecrets {
  readonly #stored: () => readonly string[];
  readonly #fixed: readonly string[];
  /** Of a process: they may be paths or names, so they are removed from errors only. */
  readonly #ofProcess: readonly string[];
  #sent: readonly string[] = [];
  #redactor: { readonly key: string; redact(text: string): string } | undefined;

  /** @param stored the tokens on record */
  constructor({ url = '', headers, env = {}, oauth }: McpServer, stored: () => readonly string[]) {
    this.#stored = stored;
    const secret = oauth?.clientSecret;
    this.#fixed = [...secretsIn(headers), ...credentialsIn(url), ...(secret === undefined ? [] : [secret])];
    this.#ofProcess = Object.values(env);
  }

  /** Notes the headers of a request. */
  sent(headers: Readonly<Record<string, string>>): void {
    const news = secretsIn(headers).filter((one) => !this.#fixed.includes(one) && !this.#sent.includes(one));
    if (news.length > 0) this.#sent = [...this.#sent, ...news].slice(-MAX_SENT);
  }

  /** A text of an error without the secrets, however they are written. */
  redact(text: string): string {
    const all = [...this.#all(), ...this.#ofProcess];
    const key = JSON.stringify(all);
    if (this.#redactor?.key !== key) this.#redactor = { key, redact: redactorOf(all) };
    return this.#redactor.redact(text);
  }

  /** The beginning of a text, in one line. */
  excerpt(text: string): string {
    const line = this.redact(text)
      .replace(/[\s\p{C}]+/gu, ' ')
      .trim();
    return line.length > MAX_EXCERPT ? `${line.slice(0, MAX_EXCERPT)}…` : line;
  }

  /** What an error says, without texts that parsers make of an answer: these have pieces of it. */
  reasonOf(error: unknown): string {
    return this.excerpt(reasonOf(error));
  }

  /** The data of an error, in which secrets may be written in any way. */
  inError(value: unknown): unknown {
    return mapped(value, (text) => this.redact(text));
  }

  /** A result without the values of the secrets: the same object where it has none. */
  inResult(value: unknown): unknown {
    const secrets = this.#all()
      .filter(({ length }) => length >= MIN_LENGTH)
      .sort((one, other) => other.length - one.length);
    return mapped(value, (text) =>
      secrets.reduce((rest, one) => (rest.includes(one) ? rest.replaceAll(one, '[redacted]') : rest), text),
    );
  }

  #all(): string[] {
    return [...new Set([...this.#fixed, ...this.#sent, ...this.#stored()])];
  }
}

/** A failure in words, without the pieces of an answer that parsers repeat. */
export function reasonOf(error: unknown): string {
  if (error instanceof SyntaxError) return 'the answer is not valid JSON';
  if (!(error instanceof Error)) return String(error);
  if ('issues' in error) return 'the answer does not have the form that the protocol demands';
  return error.message.replace(/Invalid OAuth error response:.*$/s, 'the answer is no error of OAuth');
}

/** The values of headers, and what stands behind the name of a scheme in them. */
function secretsIn(headers: Readonly<Record<string, string>>): string[] {
  return Object.entries(headers).flatMap(([name, value]) => {
    if (isPublic.has(name.toLowerCase())) return [];
    const [, scheme = '', credentials = ''] = /^(\S+) +(\S+)$/.exec(value) ?? [];
    if (scheme.toLowerCase() !== 'basic') return [value, ...(credentials === '' ? [] : [credentials])];
    const login = Buffer.from(credentials, 'base64').toString();
    return [value, credentials, login, login.slice(login.indexOf(':') + 1)];
  });
}

/** A value with other texts, names of members included. */
function mapped(value: unknown, change: (text: string) => string): unknown {
  if (typeof value === 'string') return change(value);
  if (Array.isArray(value)) {
    const list = value.map((one) => mapped(one, change));
    return list.some((one, place) => one !== value[place]) ? list : value;
  }
  if (!isObject(value)) return value;
  const members = Object.entries(value).map(([name, one]) => [name, one, change(name), mapped(one, change)] as const);
  if (members.every(([name, one, newName, newOne]) => name === newName && one === newOne)) return value;
  return Object.fromEntries(members.map(([, , name, one]) => [name, one]));
}
