/** An administrator of a subtree: it sees its scope everywhere, and nothing that it uses is refused. */
import type { Locator } from 'playwright-core';
import { expect, it } from 'vitest';
import { ask } from '../e2e/gateway-process.ts';
import { someOf } from '../support/seed.ts';
import { expectClean, keyField, type OpenPage, settled, shownText } from './support/dashboard.ts';
import { type DashboardPage, dashboardPages } from './support/page-list.ts';
import { shownExchanges } from './support/rows.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

/** Of one page. */
const MOST_CONTROLS = 60;

describeInChromium('an administrator of /team', () => {
  const dashboard = withDashboard({ data: 'shared' });
  const openAsLead = (path: string) => dashboard.open(path, { key: dashboard.facts.keys.lead.value });

  function refusedIn({ answers }: OpenPage): string[] {
    return answers
      .filter(({ status }) => status === 403 || status === 401)
      .map(({ method, path }) => `${method} ${path}`);
  }

  const pathOf = ({ name, address }: DashboardPage) =>
    name === 'exchange' ? `/exchange/${dashboard.facts.shown.stream}` : address(dashboard.facts);

  it.each(dashboardPages)('sees its scope on the page $name', async (page) => {
    const opened = await openAsLead(pathOf(page));
    await expect.poll(() => shownText(opened.page.locator('main'))).toMatch(/You see\s+\/team\s/);
    expect(refusedIn(opened)).toEqual([]);
    expectClean(opened);
  });

  it.each(someOf(dashboardPages, undefined, 5))(
    'has no control on the page $name whose request is refused',
    async (page) => {
      const opened = await openAsLead(pathOf(page));
      const used = await useEveryControl(opened, pathOf(page));
      expect(refusedIn(opened), `used: ${used.join(', ')}`).toEqual([]);
      expect(opened.findings).toEqual([]);
    },
  );

  it('finds only requests of the subtree', async () => {
    const opened = await openAsLead('/audit');
    await expect.poll(() => shownExchanges(opened.page)).not.toEqual([]);
    const all = await shownText(opened.page.locator('main'));
    expect(all).toContain('/team');
    expect(all).not.toContain('/customers');
    expectClean(opened);
  });

  it('gets "not found" for an exchange outside, in the place of its data', async () => {
    const opened = await openAsLead(`/exchange/${dashboard.facts.shown.tuesday}`);
    await opened.page.getByRole('alert').first().waitFor();
    await expect.poll(() => shownText(opened.page.getByRole('alert').first())).toMatch(/not found/i);
    // The browser itself reports the 404 of the request on its console.
    opened.expectFindings(({ kind, text }) => kind === 'console' && text.includes('404'));
    expectClean(opened);
  });

  it('sees how to get access when its key has none', async () => {
    const { value } = dashboard.facts.keys.research;
    expect((await ask(dashboard.url, '/admin/access', { key: value })).status).toBe(403);
    const opened = await dashboard.open('/', { key: null });
    await keyField(opened.page).fill(value);
    await opened.page.keyboard.press('Enter');
    await opened.page.getByRole('alert').waitFor();
    expect(await shownText(opened.page.getByRole('alert'))).toMatch(/dashboard access/i);
    opened.expectFindings(({ kind, text }) => kind === 'console' && text.includes('403'));
    expectClean(opened);
  });
});

/** Clicks each button, tab and check box of the main part once, from the page as it is opened. @returns their names */
async function useEveryControl(opened: OpenPage, path: string): Promise<string[]> {
  const { page } = opened;
  const controls = page
    .locator('main')
    .locator('button:visible, [role=tab]:visible, input[type=checkbox]:visible, summary:visible');
  const count = Math.min(await controls.count(), MOST_CONTROLS);
  const used: string[] = [];
  for (let at = 0; at < count; at++) {
    const control = controls.nth(at);
    if ((await control.count()) === 0 || (await isDisabled(control))) continue;
    used.push(await nameOf(control));
    await control.click({ timeout: 2000 }).catch(() => {});
    await settled(page);
    if (await page.getByRole('dialog').isVisible()) await page.keyboard.press('Escape');
    if (!page.url().includes(path === '/' ? '/admin/dashboard' : path)) await opened.visit(path);
  }
  return used;
}

async function isDisabled(control: Locator): Promise<boolean> {
  return control.isDisabled();
}

async function nameOf(control: Locator): Promise<string> {
  return ((await control.getAttribute('aria-label')) ?? (await shownText(control))).trim().slice(0, 40);
}
