/**
 * Keeps web pages away from a gateway that needs no key. A browser on the same machine or network sends any request
 * that a page triggers, and the page can also read the answers once its own name resolves to the gateway (DNS
 * rebinding). Clients other than browsers send neither `Origin` nor `Sec-Fetch-Site` (Fetch Metadata Request Headers,
 * W3C).
 */
import type { IncomingHttpHeaders } from 'node:http';
import { isIP } from 'node:net';
import { refusals } from '../commands/refusal.ts';

/**
 * Accepts a request when its `Host` is one of the gateway's own and no other site caused it. An address always counts
 * as own: a page cannot make an address resolve to another one. So does `localhost`.
 *
 * @param ownNames further host names of the gateway
 * @param allowedOrigins of web pages that may still use the gateway; `*` allows none here, where no key is needed
 * @returns a check that throws Refusal 403 `host_not_allowed` or `cross_site_refused`
 */
export function createCrossSiteCheck(
  ownNames: readonly string[],
  allowedOrigins: readonly string[] = [],
): (headers: IncomingHttpHeaders) => void {
  const named = allowedOrigins.filter((one) => one !== '*');
  const own = new Set(ownNames.map((name) => hostNameIn(name) ?? name));
  return (headers) => {
    const { host, origin } = headers;
    // Only HTTP/1.0 has no `Host`, and no browser uses it.
    if (host !== undefined && !isOwn(hostNameIn(host), own)) throw refusals.hostNotAllowed(host);
    if (origin !== undefined && isAllowedOrigin(origin, named)) return;
    const site = headers['sec-fetch-site'];
    const isOwnSite = site === undefined || site === 'same-origin' || site === 'none';
    if (!isOwnSite || (origin !== undefined && !isOriginOf(host, origin))) throw refusals.crossSiteRefused();
  };
}

/** Origins are compared in the form that browsers send: scheme, host and, unless it is the default, port. */
export function isAllowedOrigin(origin: string, allowed: readonly string[]): boolean {
  return allowed.includes(origin) || allowed.includes('*');
}

function isOwn(name: string | undefined, own: ReadonlySet<string>): boolean {
  if (name === undefined) return false;
  return own.has(name) || name === 'localhost' || name.endsWith('.localhost') || isIP(name) !== 0;
}

/** In lower case, without port, brackets and the final dot; undefined for an invalid host. */
function hostNameIn(host: string): string | undefined {
  const url = urlOf('http:', host);
  return url?.hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '');
}

/** The scheme is not compared: it differs behind a proxy that terminates TLS, and one port serves one scheme. */
function isOriginOf(host: string | undefined, origin: string): boolean {
  if (host === undefined || !URL.canParse(origin)) return false;
  const { protocol, host: originHost } = new URL(origin);
  return (protocol === 'http:' || protocol === 'https:') && urlOf(protocol, host)?.host === originHost;
}

function urlOf(protocol: string, host: string): URL | undefined {
  const isHost = !/[\s/?#@\\]/.test(host);
  const text = `${protocol}//${isIP(host) === 6 ? `[${host}]` : host}`;
  return isHost && URL.canParse(text) ? new URL(text) : undefined;
}
