/** The requests of each page that have no whole answer yet, other than the live tail, which has no end. */
import type { BrowserContext, Page, Request } from 'playwright-core';

const open = new WeakMap<Page, Set<Request>>();

/** To be called before the context has a page. */
export function watchRequests(context: BrowserContext): void {
  context.on('page', (page) => {
    const requests = new Set<Request>();
    open.set(page, requests);
    page.on('request', (request) => {
      if (!new URL(request.url()).pathname.endsWith('/admin/live/logs')) requests.add(request);
    });
    page.on('requestfinished', (request) => requests.delete(request));
    page.on('requestfailed', (request) => requests.delete(request));
  });
}

export function hasOpenRequests(page: Page): boolean {
  return (open.get(page)?.size ?? 0) > 0;
}
