/** What is shown does not move while data arrives: https://web.dev/articles/cls names 0.1 as the limit of a good page. */
import { expect, it } from 'vitest';
import { MASTER_KEY } from '../e2e/gateway-process.ts';
import { settled } from './support/dashboard.ts';
import { dashboardPages } from './support/page-list.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

const observe = `
  window.shifted = 0;
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifted += entry.value;
  }).observe({ type: 'layout-shift', buffered: true });
`;

describeInChromium('the layout of a page that is loaded', () => {
  const dashboard = withDashboard({
    env: { GUARDRAILS_ENABLED: 'true', PLUGINS_ENABLED: 'true', RESPONSE_CACHE_ENABLED: 'true' },
  });

  it.each([412, 1350])('does not move at %i px', { timeout: 120_000 }, async (width) => {
    const context = await dashboard.browser.newContext({ viewport: { width, height: 823 } });
    const page = await context.newPage();
    await page.goto(`${dashboard.url}/admin/dashboard`);
    await page.getByLabel('Key', { exact: true }).fill(MASTER_KEY);
    await page.getByRole('button', { name: 'Open' }).click();
    await page.getByRole('navigation').waitFor();
    await page.addInitScript(observe);
    const moved: Record<string, number> = {};
    for (const { name, address } of dashboardPages) {
      await page.goto(`${dashboard.url}/admin/dashboard${address(dashboard.facts)}`);
      await settled(page);
      const shifted = await page.evaluate<number>('window.shifted');
      if (!(shifted < 0.1)) moved[name] = shifted;
    }
    await context.close();
    expect(moved).toEqual({});
  });
});
