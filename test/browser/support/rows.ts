/** Rows of requests, on any page: each has a link to its exchange. */
import type { Locator, Page } from 'playwright-core';

declare const document: { querySelectorAll(selector: string): Iterable<{ getAttribute(name: string): string | null }> };

/** The links to exchanges in the main part of the page. */
export function exchangeLinks(page: Page): Locator {
  return page.locator('main a[href*="/admin/dashboard/exchange/"]');
}

export function linkTo(page: Page, exchange: string): Locator {
  return page.locator(`main a[href*="/admin/dashboard/exchange/${exchange}"]`).first();
}

/** The exchange ids of the shown rows, from the top; an id is there once for each row that shows it. */
export async function shownExchanges(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const ids: string[] = [];
    for (const link of document.querySelectorAll('main table a[href*="/admin/dashboard/exchange/"]')) {
      ids.push(/exchange\/([\w-]+)/.exec(link.getAttribute('href') ?? '')?.[1] ?? '');
    }
    return ids;
  });
}
