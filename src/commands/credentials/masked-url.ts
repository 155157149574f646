/** Addresses that may hold a secret: what of them may be shown, and how they are recognised when they come back. */

/** What stands for a secret wherever one would be shown. */
export const MASK = '********';

/** Whether a text stands for a secret and is none: three asterisks or more, and nothing else. */
export function isMask(text: string): boolean {
  return /^\*{3,}$/.test(text);
}

export interface GivenUrl {
  /** With its password, or its user name when that stands alone, and the values of its query, masked. */
  readonly shown: string;
  /** Whether there is something in it that is not to be shown. */
  readonly hasSecret: boolean;
  /** Whether something in it is a mask, so that the secret it stands for has to be found elsewhere. */
  readonly isMasked: boolean;
}

/** Undefined for what is no absolute http or https URL. */
export function readUrl(text: string): GivenUrl | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || (url.protocol !== 'http:' && url.protocol !== 'https:')) return undefined;
  const { username, password, search, hash } = url;
  const values = [...url.searchParams.values()].filter((value) => value !== '');
  const isMasked = [decoded(password === '' ? username : password), ...values].some(isMask);
  if (username === '' && password === '' && values.length === 0) return { shown: text, hasSecret: false, isMasked };
  const asked = search.replace(/=[^&]+/g, `=${MASK}`);
  // A name without a password is a token.
  const who = password !== '' ? `${username}:${MASK}` : username === '' ? '' : MASK;
  const path = url.pathname === '/' ? '' : url.pathname;
  const shown = `${url.protocol}//${who}${who === '' ? '' : '@'}${url.host}${path}${asked}${hash}`;
  return { shown, hasSecret: true, isMasked };
}

/** Without credentials and query: what may be told of a provider anywhere. */
export function publicUrl(text: string): string {
  const url = new URL(text);
  url.username = '';
  url.password = '';
  url.search = '';
  return url.href;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
