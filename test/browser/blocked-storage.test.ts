/** A browser that keeps nothing for a page, and one whose storage is full or holds other values. */
import { expect, it } from 'vitest';
import { MASTER_KEY } from '../e2e/gateway-process.ts';
import { logIn } from './support/dashboard.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

/** Run in the page, before its scripts. */
const changes: readonly (readonly [string, string])[] = [
  [
    'blocks storage',
    `for (const name of ['localStorage', 'sessionStorage']) {
      Object.defineProperty(window, name, { get() { throw new DOMException('denied', 'SecurityError'); } });
    }`,
  ],
  [
    'has a full storage',
    `Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError'); };`,
  ],
  [
    'holds other values',
    `for (const name of ['theme', 'time-zone', 'audit.columns', 'audit.views', 'key']) {
      for (const value of ['{', '[{}]', '{"a":1}', '7']) localStorage.setItem('chancery.' + name, value);
    }`,
  ],
];

describeInChromium('a browser', () => {
  const dashboard = withDashboard({ data: 'shared empty' });

  it.each(changes)('that %s shows the dashboard', async (_name, script) => {
    const context = await dashboard.browser.newContext();
    const page = await context.newPage();
    const uncaught: string[] = [];
    page.on('pageerror', (error) => uncaught.push(error.message));
    await page.addInitScript(script);
    await page.goto(`${dashboard.url}/admin/dashboard`);
    await logIn(page, MASTER_KEY);
    for (const name of ['Audit', 'Sessions', 'Live', 'Overview']) {
      await page.getByRole('navigation').getByRole('link', { name, exact: true }).click();
      await page.getByRole('heading', { level: 1, name, exact: true }).waitFor();
    }
    await context.close();
    expect(uncaught).toEqual([]);
  });
});
