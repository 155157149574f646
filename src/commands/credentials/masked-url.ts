/** Addresses that may hold a secret: their visible form, and how a masked address is recognised. */

/** Shown in place of a secret. */
export const MASK = '********';

/** Whether a text is a mask: three asterisks or more, and nothing else. */
export function isMask(text: string): boolean {
  return /^\*{3,}$/.test(text);
}

export interface GivenUrl {
  /** The address with its password, its user name if there is no password, and the values of its query masked. */
  readonly shown: string;
  /** Whether a part of it may not be shown. */
  readonly hasSecret: boolean;
  /** Whether a part of it is a mask, so that the secret has to be taken from the stored address. */
  readonly isMasked: boolean;
}

/** Undefined for a text that is not an absolute http or https URL. */
export function readUrl(text: string): GivenUrl | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || (url.protocol !== 'http:' && url.protocol !== 'https:')) return undefined;
  const { username, password, search, hash } = url;
  const values = [...url.searchParams.values()].filter((value) => value !== '');
  const isMasked = [decoded(password === '' ? username : password), ...values].some(isMask);
  if (username === '' && password === '' && values.length === 0) return { shown: text, hasSecret: false, isMasked };
  const query = search.replace(/=[^&]+/g, `=${MASK}`);
  // A user name without a password is a token.
  const who = password !== '' ? `${username}:${MASK}` : username === '' ? '' : MASK;
  const path = url.pathname === '/' ? '' : url.pathname;
  const shown = `${url.protocol}//${who}${who === '' ? '' : '@'}${url.host}${path}${query}${hash}`;
  return { shown, hasSecret: true, isMasked };
}

/** The address without credentials and query, which may be shown everywhere. */
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
