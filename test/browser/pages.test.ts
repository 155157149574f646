/** Every page with the seeded history: no error, WCAG 2.2 AA, 360 pixels, keyboard, permalinks. */
import type { Page } from 'playwright-core';
import { expect, it } from 'vitest';
import { pairsOf, someOf } from '../support/seed.ts';
import { accessibilityViolations } from './support/accessibility.ts';
import { expectClean, overflowOf, settled } from './support/dashboard.ts';
import { tabStops } from './support/keyboard.ts';
import { dashboardPages } from './support/page-list.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

const narrow = { viewport: { width: 360, height: 740 } };

/** Runs `check` for the page and then for each of its tabs. */
async function inEachTab(page: Page, check: (tab: string) => Promise<void>): Promise<void> {
  const tabs = page.locator('main').getByRole('tab');
  const count = await tabs.count();
  if (count === 0) return check('');
  for (let at = 0; at < count; at++) {
    await tabs.nth(at).click();
    await settled(page);
    await check((await tabs.nth(at).textContent()) ?? String(at));
  }
}

describeInChromium('dashboard pages', () => {
  const dashboard = withDashboard({ data: 'shared' });

  const checks: Readonly<Record<string, (address: string) => Promise<void>>> = {
    async 'has no error and no violation of WCAG 2.2 AA, light and dark'(address) {
      const opened = await dashboard.open(address);
      const violations: string[] = [];
      await inEachTab(opened.page, async (tab) => {
        violations.push(...(await accessibilityViolations(opened.page)).map((text) => `${tab} ${text}`));
      });
      expect(violations).toEqual([]);
      expectClean(opened);
    },

    async 'does not scroll sideways in a window of 360 pixels'(address) {
      const opened = await dashboard.open(address, { context: narrow });
      const wide: Record<string, number> = {};
      await inEachTab(opened.page, async (tab) => {
        const pixels = await overflowOf(opened.page);
        if (pixels > 0) wide[tab] = pixels;
      });
      expect(wide).toEqual({});
      expectClean(opened);
    },

    async 'reaches every control with the Tab key, with a visible focus'(address) {
      const opened = await dashboard.open(address);
      expect(await tabStops(opened.page)).toEqual({ missed: [], invisible: [] });
      expectClean(opened);
    },

    async 'is the same after a reload'(address) {
      const opened = await dashboard.open(address);
      const { page } = opened;
      const heading = await page.locator('h1').textContent();
      const before = page.url();
      await page.reload();
      await settled(page);
      expect(page.url()).toBe(before);
      expect(await page.locator('h1').textContent()).toBe(heading);
      expectClean(opened);
    },
  };
  const cases = pairsOf(dashboardPages, Object.entries(checks)).map(([{ name, address }, [what, check]]) => ({
    ...{ name, address, what, check },
  }));

  it.each(someOf(cases, ({ name, what }) => [name, what]))('$name $what', async ({ address, check }) => {
    await check(address(dashboard.facts));
  });

  it('are loaded without a new document, and back and forward show them again', async () => {
    const opened = await dashboard.open('/settings');
    const { page } = opened;
    let documents = 0;
    page.on('request', (request) => {
      if (request.resourceType() === 'document') documents += 1;
    });
    const navigation = page.getByRole('navigation', { name: 'Pages' });
    for (const title of ['Audit', 'Usage', 'Sessions']) {
      await navigation.getByRole('link', { name: title }).click();
      await page.getByRole('heading', { level: 1, name: title }).waitFor();
    }
    await page.goBack();
    await page.getByRole('heading', { level: 1, name: 'Usage' }).waitFor();
    await page.goBack();
    await page.getByRole('heading', { level: 1, name: 'Audit' }).waitFor();
    await page.goForward();
    await page.getByRole('heading', { level: 1, name: 'Usage' }).waitFor();
    await settled(page);
    expect(documents).toBe(0);
    expectClean(opened);
  });

  it('open with g and a letter, with the palette, and list their keys', async () => {
    const opened = await dashboard.open('/settings');
    const { page } = opened;
    const shows = (title: string) => page.getByRole('heading', { level: 1, name: title }).waitFor();
    for (const [letter, title] of [
      ['l', 'Live'],
      ['a', 'Audit'],
      ['s', 'Sessions'],
      ['u', 'Usage'],
      ['o', 'Overview'],
    ] as const) {
      await page.keyboard.press('g');
      await page.keyboard.press(letter);
      await shows(title);
    }
    await page.keyboard.press('Control+k');
    await page.getByRole('dialog', { name: 'Go to' }).getByRole('combobox').fill('usa');
    await page.keyboard.press('Enter');
    await shows('Usage');
    await page.keyboard.press('?');
    await page.getByRole('dialog', { name: 'Keys' }).waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await settled(page);
    expectClean(opened);
  });

  it('keep the address and the key out of each other', async () => {
    const opened = await dashboard.open('/audit');
    expect(opened.page.url()).not.toMatch(/process-test-key/);
    for (const { path } of opened.answers) expect(path).not.toMatch(/process-test-key/);
    const second = await opened.context.newPage();
    await second.goto(`${dashboard.url}/admin/dashboard`);
    // The key is in the session storage of the first tab only.
    await second.getByLabel('Key', { exact: true }).waitFor();
    await second.close();
  });
});
