/** Recorded content on the exchange page, by keyboard: JSON trees, raw text, differences, conversations, streams. */
import type { Page } from 'playwright-core';
import { expect, it } from 'vitest';
import { expectClean, type OpenPage, settled } from './support/dashboard.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

describeInChromium('recorded content', () => {
  const dashboard = withDashboard({ data: 'shared' });

  async function openTab(id: string, name: string): Promise<OpenPage> {
    const opened = await dashboard.open(`/exchange/${id}`);
    await opened.page.getByRole('tab', { name, exact: true }).click();
    await settled(opened.page);
    return opened;
  }
  const tree = (page: Page) => page.getByRole('tree').first();
  const item = (page: Page, name: RegExp) => tree(page).getByRole('treeitem', { name });

  it('is a tree that arrow keys move in', async () => {
    const opened = await openTab(dashboard.facts.shown.tools, 'Request');
    const { page } = opened;
    await tree(page).getByRole('treeitem').first().focus();
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('End');
    for (let press = 0; press < 20 && !(await focusedText(page)).includes('messages'); press++) {
      await page.keyboard.press('ArrowUp');
    }
    expect(await focusedText(page)).toContain('messages');
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('ArrowRight');
    expect(await focusedText(page)).toMatch(/0: \{ \d members \}/);
    expect(await focusedLevel(page)).toBe('3');
    await page.keyboard.press('ArrowLeft');
    await page.keyboard.press('ArrowLeft');
    expect(await item(page, /messages/).getAttribute('aria-expanded')).toBe('false');
    expectClean(opened);
  });

  it('is searched in names and values, and the place of a match is named', async () => {
    const opened = await openTab(dashboard.facts.shown.tools, 'Request');
    const { page } = opened;
    const field = page.getByRole('searchbox', { name: 'Search names and values' }).first();
    await field.fill('"');
    await page.getByText('Not found').first().waitFor();
    await field.fill('parameters');
    await page.getByText('found', { exact: false }).first().waitFor();
    await field.press('Enter');
    await item(page, /parameters/).waitFor();
    await page.getByText('tools[0].function.parameters', { exact: true }).waitFor();
    expectClean(opened);
  });

  it('is formatted and raw text with line numbers and marked matches', async () => {
    const opened = await openTab(dashboard.facts.shown.tools, 'Request');
    const { page } = opened;
    await page.getByRole('button', { name: 'Formatted' }).first().click();
    const text = page.getByRole('group', { name: /formatted$/ }).first();
    expect(await text.locator('[data-line="2"]').textContent()).toMatch(/^ {2}"/);
    await page.getByRole('button', { name: 'Raw', exact: true }).first().click();
    const field = page.getByRole('searchbox', { name: 'Search in this text' }).first();
    await field.fill('messages');
    await page
      .getByText(/\d found/)
      .first()
      .waitFor();
    await field.press('Enter');
    await page.locator('mark[data-current=true]').first().waitFor();
    expect(await page.locator('mark[data-current=true]').first().textContent()).toBe('messages');
    expectClean(opened);
  });

  it('shows what differs as values and as lines, with words and signs', async () => {
    const opened = await openTab(dashboard.facts.shown.anonymised, 'Diff');
    const { page } = opened;
    await page.locator('.diff-view').first().waitFor();
    await page.locator('.diff-badge', { hasText: 'Changed' }).first().waitFor();
    expect(await page.locator('.diff-view').first().textContent()).toMatch(/<[A-Z_]+_1>/);
    for (const [mode, region] of [
      ['Lines', / compared with /],
      ['Side by side', / beside /],
    ] as const) {
      await page.getByRole('button', { name: mode, exact: true }).first().click();
      const table = page.getByRole('group', { name: region }).first().getByRole('table');
      expect(await table.textContent()).toMatch(/removed[\s\S]*added/);
    }
    expectClean(opened);
  });

  it('is a conversation with its tool calls, folded', async () => {
    const opened = await openTab(dashboard.facts.shown.tools, 'Conversation');
    const { page } = opened;
    const call = page.locator('summary', { hasText: 'Tool call' }).first();
    await call.focus();
    await page.keyboard.press('Enter');
    await page.getByRole('tree', { name: 'Arguments' }).first().waitFor();
    await page.locator('summary', { hasText: 'Tools offered' }).first().waitFor();
    expectClean(opened);
  });

  it('is a stream that grows with the time of the player', async () => {
    const opened = await openTab(dashboard.facts.shown.stream, 'Replay');
    const { page } = opened;
    const time = page.getByRole('slider', { name: 'Time in the stream' });
    const answer = () => page.locator('.stream-player .turns').textContent();
    const whole = (await answer()) ?? '';
    await time.focus();
    await page.keyboard.press('Home');
    await expect.poll(async () => ((await answer()) ?? '').length).toBeLessThan(whole.length);
    await page.getByRole('button', { name: 'Next chunk' }).click();
    await page.getByRole('button', { name: 'Play' }).click();
    await expect.poll(answer).toBe(whole);
    await page.getByRole('button', { name: 'Play' }).waitFor();
    expectClean(opened);
  });
});

declare const document: {
  readonly activeElement: { readonly textContent: string | null; getAttribute(name: string): string | null } | null;
};

function focusedText(page: Page): Promise<string> {
  return page.evaluate(() => document.activeElement?.textContent ?? '');
}

function focusedLevel(page: Page): Promise<string | null | undefined> {
  return page.evaluate(() => document.activeElement?.getAttribute('aria-level'));
}
