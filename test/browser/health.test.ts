/** What a page shows of the state of the gateway, and of a key that cannot be sent. */
import { expect, it } from 'vitest';
import { MASTER_KEY } from '../e2e/gateway-process.ts';
import { keyField } from './support/dashboard.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

describeInChromium('the dashboard', () => {
  const dashboard = withDashboard({ data: 'shared empty' });

  it.each([
    [503, { storage: 'down', analytics: 'ok' }, 'cannot write its log'],
    [200, { storage: 'degraded', analytics: 'ok' }, 'full segments'],
    [200, { storage: 'ok', analytics: 'down' }, 'Analytics does not answer'],
  ])('states on every page that %s %j', async (status, components, text) => {
    const { page, context, visit } = await dashboard.open('/settings');
    await context.route('**/health/ready', (route) => route.fulfill({ status, json: { status: 'x', components } }));
    for (const path of ['/audit', '/usage', '/live']) {
      await visit(path);
      await page.locator('.health-banner', { hasText: text }).waitFor();
    }
  });

  it('states nothing while all is well', async () => {
    const { page, visit } = await dashboard.open('/settings');
    const answered = page.waitForResponse('**/health/ready');
    await visit('/usage');
    await (await answered).finished();
    expect(await page.locator('.health-banner').textContent()).toBe('');
  });

  it('accepts no key that a header cannot contain, and uses none that is stored', async () => {
    const { page } = await dashboard.open('/', { key: null });
    await keyField(page).fill('sk-…');
    await page.getByText('A key has no spaces').waitFor();
    expect(await page.getByRole('button', { name: 'Open' }).isDisabled()).toBe(true);
    await page.evaluate("localStorage.setItem('chancery.key', JSON.stringify('sk-…'))");
    await page.reload();
    await keyField(page).fill(MASTER_KEY);
    await keyField(page).press('Enter');
    await page.getByRole('navigation').waitFor();
  });
});
