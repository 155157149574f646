/** What is shown does not move while data arrives: https://web.dev/articles/cls names 0.1 as the limit of a good page. */
import { expect, it } from 'vitest';
import { dashboardPages } from './support/page-list.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

const observe = `
  window.shifted = 0;
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifted += entry.value;
  }).observe({ type: 'layout-shift', buffered: true });
`;

describeInChromium('the layout of a page that is loaded', () => {
  const dashboard = withDashboard({ data: 'shared' });

  it.each([412, 1350])('does not move at %i px', async (width) => {
    const { page, visit } = await dashboard.open('/settings', { context: { viewport: { width, height: 823 } } });
    await page.addInitScript(observe);
    const moved: Record<string, number> = {};
    for (const { name, address } of dashboardPages) {
      await visit(address(dashboard.facts));
      const shifted = await page.evaluate<number>('window.shifted');
      if (!(shifted < 0.1)) moved[name] = shifted;
    }
    expect(moved).toEqual({});
  });
});
