/** Rows of requests, on any page: each has a link to its exchange. */
import type { Locator, Page } from 'playwright-core';

declare const requestAnimationFrame: (callback: (at: number) => void) => void;
declare const document: { querySelectorAll(selector: string): Iterable<{ getAttribute(name: string): string | null }> };

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

/** The exchange ids of all rows of a long table, of which only the visible rows are in the document. Scrolls to its end. */
export async function listedExchanges(page: Page): Promise<string[]> {
  const table = page.locator('main .data-table');
  const ids = new Set<string>();
  await table.evaluate((element) => element.scrollTo(0, 0));
  for (let isAtEnd = false; !isAtEnd; ) {
    // Two frames: the rows of this position are in the document after them.
    await table.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    for (const id of await shownExchanges(page)) ids.add(id);
    isAtEnd = await table.evaluate((element) => {
      const before = element.scrollTop;
      element.scrollBy(0, element.clientHeight / 2);
      return element.scrollTop === before;
    });
  }
  return [...ids];
}
