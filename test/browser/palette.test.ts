/** The palette, the keys of the whole page, and where the focus is after them. */
import type { Page } from 'playwright-core';
import { expect, it } from 'vitest';
import { accessibilityViolations } from './support/accessibility.ts';
import { expectClean, settled } from './support/dashboard.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

declare const document: {
  readonly activeElement: { readonly tagName: string; readonly textContent: string | null } | null;
};

function focused(page: Page): Promise<string> {
  return page.evaluate(() => `${document.activeElement?.tagName} ${document.activeElement?.textContent ?? ''}`);
}

describeInChromium('palette', () => {
  const dashboard = withDashboard({ data: 'shared' });
  const palette = (page: Page) => page.getByRole('dialog', { name: 'Go to' });

  it('goes to a page by a part of its name, and the focus is on its heading', async () => {
    const opened = await dashboard.open('/settings');
    const { page } = opened;
    await page.keyboard.press('Control+k');
    await expect.poll(() => focused(page)).toContain('INPUT');
    await page.keyboard.type('usa');
    await page.keyboard.press('Enter');
    await settled(page);
    expect(new URL(page.url()).pathname).toBe('/admin/dashboard/usage');
    await palette(page).waitFor({ state: 'detached' });
    await expect.poll(() => focused(page)).toBe('H1 Usage');
    expectClean(opened);
  });

  it('finds an exchange by its id, and lists it as recent afterwards', async () => {
    const opened = await dashboard.open('/settings');
    const { page } = opened;
    const id = dashboard.facts.shown.failover;
    await page.keyboard.press('Control+k');
    await page.keyboard.type(id);
    await palette(page)
      .getByRole('option', { name: new RegExp(`^${id}`) })
      .first()
      .waitFor();
    await page.keyboard.press('Enter');
    await page.waitForURL(`**/admin/dashboard/exchange/${id}`);
    await settled(page);
    await opened.visit('/settings');
    await page.keyboard.press('Control+k');
    const recent = palette(page).getByRole('group', { name: 'Recent exchanges' });
    expect(await recent.getByRole('option').allTextContents()).toEqual([id]);
    expectClean(opened);
  });

  it('says when no request has an id, and searches for it in Audit', async () => {
    const opened = await dashboard.open('/settings');
    const { page } = opened;
    await page.keyboard.press('Control+k');
    await page.keyboard.type('no-such-id-42');
    await palette(page).getByText('No request has this id.').waitFor();
    await palette(page).getByRole('option', { name: 'Search requests for' }).click();
    await settled(page);
    expect(new URL(page.url()).searchParams.get('search')).toBe('no-such-id-42');
    expectClean(opened);
  });

  it('changes theme and time zone', async () => {
    const opened = await dashboard.open('/settings');
    const { page } = opened;
    for (const text of ['theme dark', 'tokyo']) {
      await page.keyboard.press('Control+k');
      await page.keyboard.type(text);
      await page.keyboard.press('Enter');
      await palette(page).waitFor({ state: 'detached' });
    }
    expect(await page.locator('html').getAttribute('data-theme')).toBe('dark');
    await page.getByRole('button', { name: 'Asia/Tokyo' }).waitFor();
    expectClean(opened);
  });

  it('returns the focus when it is closed', async () => {
    const opened = await dashboard.open('/settings');
    const { page } = opened;
    const link = page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Usage' });
    await link.focus();
    await page.keyboard.press('Control+k');
    await palette(page).waitFor();
    await page.keyboard.press('Escape');
    await palette(page).waitFor({ state: 'detached' });
    expect(await focused(page)).toBe('A Usage');
    expectClean(opened);
  });

  it('has no violation of WCAG 2.2 AA, nor has the list of keys, light and dark', async () => {
    const opened = await dashboard.open('/settings');
    const { page } = opened;
    await page.keyboard.press('Control+k');
    await palette(page).waitFor();
    expect(await accessibilityViolations(page)).toEqual([]);
    await page.keyboard.press('Escape');
    await page.keyboard.press('?');
    await page.getByRole('dialog', { name: 'Keys' }).waitFor();
    expect(await accessibilityViolations(page)).toEqual([]);
    expectClean(opened);
  });
});

describeInChromium('keys', () => {
  const dashboard = withDashboard({ data: 'shared' });

  it('g and a letter show a page; letters do nothing in a field', async () => {
    const opened = await dashboard.open('/settings');
    const { page } = opened;
    await page.keyboard.press('g');
    await page.keyboard.press('s');
    await settled(page);
    await expect.poll(() => focused(page)).toBe('H1 Sessions');
    await page.keyboard.press('Control+k');
    await page.keyboard.type('gu');
    expect(new URL(page.url()).pathname).toBe('/admin/dashboard/sessions');
    expectClean(opened);
  });

  it('can be turned off, except those with Ctrl', async () => {
    const opened = await dashboard.open('/settings');
    const { page } = opened;
    await page.keyboard.press('?');
    await page.getByRole('checkbox', { name: /act on the page/ }).uncheck();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await page.keyboard.type('?gu');
    expect(await page.getByRole('dialog').count()).toBe(0);
    expect(new URL(page.url()).pathname).toBe('/admin/dashboard/settings');
    await page.keyboard.press('Control+k');
    await page.getByRole('dialog', { name: 'Go to' }).waitFor();
    expectClean(opened);
  });
});
