/** A provider's base URL, split once so that a call only joins strings. */

export interface BaseUrl {
  /** Scheme, host and port. */
  readonly origin: string;
  /** Without a trailing slash, for example `/v1`. */
  readonly path: string;
  /** The server's root: the path without its final `/v1`; empty for most. */
  readonly root: string;
  /** Query string of every call, without `?`; empty for most. */
  readonly query: string;
  /** The `Authorization` value for credentials written into the URL. */
  readonly basicAuth?: string;
}

/** @throws Error when it is not an absolute http or https URL; the message omits it, since it may hold a password. */
export function parseBaseUrl(text: string, defaultPath = '/v1'): BaseUrl {
  const url = URL.canParse(text.trim()) ? new URL(text.trim()) : undefined;
  if (url === undefined || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw new Error('the base URL must be an absolute URL that begins with http:// or https://');
  }
  const given = url.pathname.replace(/\/+$/, '').replace(/\/{2,}/g, '/');
  const path = given === '' ? defaultPath : given;
  const credentials = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
  return {
    origin: url.origin,
    path,
    root: path.endsWith('/v1') ? path.slice(0, -3) : path,
    query: url.search.slice(1),
    ...(credentials === ':' ? {} : { basicAuth: `Basic ${Buffer.from(credentials).toString('base64')}` }),
  };
}

/** Adds a base URL's query to a path. A name that is also in the path's own query keeps the path's value. */
export function withQuery(path: string, query: string): string {
  if (query === '') return path;
  const mark = path.indexOf('?');
  if (mark === -1) return `${path}?${query}`;
  const own = new URLSearchParams(path.slice(mark));
  const added = query.split('&').filter((pair) => !own.has(decodeURIComponent(pair.split('=')[0] ?? '')));
  return added.length === 0 ? path : `${path}&${added.join('&')}`;
}
