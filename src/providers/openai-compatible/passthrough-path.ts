import type { BaseUrl } from '../base-url.ts';

/**
 * The path of a passthrough request on the provider's server. A leading `v1/` is the gateway's spelling, so it is
 * removed below the base URL; on a server with further routes at its root it is kept for those. Dot segments are
 * resolved first: a path never leaves the base.
 * @param path begins with `/` and may have a query
 */
export function passthroughPath(path: string, base: BaseUrl, servedFromBase?: readonly string[]): string {
  const safe = /\.\.|%2e|\\/i.test(path) ? resolveDots(path) : path;
  const mark = safe.indexOf('?');
  const route = mark === -1 ? safe : safe.slice(0, mark);
  const query = mark === -1 ? '' : safe.slice(mark);
  const withoutV1 = route === '/v1' ? '/' : route.startsWith('/v1/') ? route.slice(3) : route;
  if (servedFromBase === undefined || servedFromBase.includes(withoutV1.slice(1))) {
    return base.path + withoutV1 + query;
  }
  return base.root + route + query;
}

function resolveDots(path: string): string {
  const { pathname, search } = new URL(`http://host${path}`);
  return pathname + search;
}
