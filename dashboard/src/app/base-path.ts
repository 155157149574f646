/** Where the gateway is: the page is at `<base>/admin/dashboard` and below, at any base path. */
const MARK = '/admin/dashboard';

/** The scripts of the page are in `<base>/admin/static/`. */
const scriptPath = new URL(import.meta.url).pathname;

/** The path before `/admin`, without a slash at the end. */
export const basePath = scriptPath.slice(0, Math.max(0, scriptPath.lastIndexOf('/admin/static/')));

/** The URL of the gateway, as a client of its API uses it. */
export const gatewayUrl = `${location.origin}${basePath}`;

/** The address of a page within the dashboard; `path` begins with a slash. */
export function addressOf(path: string): string {
  return `${basePath}${MARK}${path === '/' ? '' : path}`;
}

/** The page's own path of an address. */
export function pathOf(pathname: string): string {
  const path = pathname.slice(basePath.length + MARK.length);
  return path === '' ? '/' : path.replace(/(?<=.)\/+$/, '');
}
