/** The page Budgets and limits with the seeded history. */
import type { Locator, Page } from 'playwright-core';
import { expect, it } from 'vitest';
import { ask } from '../e2e/gateway-process.ts';
import type { Answered } from '../support/answered.ts';
import { expectClean, type OpenPage, settled, shownText } from './support/dashboard.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

describeInChromium('the page Budgets and limits', () => {
  const dashboard = withDashboard({
    env: { OPENAI_API_KEY: 'unused', OPENAI_BASE_URL: 'http://127.0.0.1:9/v1', ALLOW_PRIVATE_PROVIDERS: 'true' },
  });

  const read = async (path: string): Promise<Answered> => (await ask(dashboard.url, path)).json();
  const change = async (method: string, path: string, json: object): Promise<void> => {
    const answer = await ask(dashboard.url, path, { method, json });
    expect(answer.ok, await answer.text()).toBe(true);
  };
  const budgetOf = async (subject: string): Promise<Answered> =>
    (await read('/admin/budgets')).budgets.find((row: Answered) => row.subject === subject);
  const rowOf = (page: Page, text: string): Locator =>
    page.getByRole('tabpanel').getByRole('row').filter({ hasText: text });
  const dialogOf = (page: Page): Locator => page.getByRole('dialog');

  async function openTab(tab?: string): Promise<OpenPage> {
    const opened = await dashboard.open(tab === undefined ? '/budgets' : `/budgets?tab=${tab}`);
    return opened;
  }

  it('shows limit, spending, reservations and the end of the period', async () => {
    const opened = await openTab();
    const { subject, spent, amount } = await budgetOf('/team/research');
    const text = await shownText(rowOf(opened.page, subject));
    expect(spent).toBeGreaterThan(0);
    expect(text).toContain('monthly');
    expect(text).toContain(`$${amount.toFixed(2)}`);
    expect(text).toContain('$0.00');
    await rowOf(opened.page, subject).getByRole('link').click();
    await settled(opened.page);
    expect(new URL(opened.page.url()).searchParams.get('user_path')).toBe(subject);
    expectClean(opened);
  });

  it('creates, edits and removes a budget', async () => {
    const opened = await openTab();
    const { page } = opened;
    await page.getByRole('button', { name: 'Create a budget' }).click();
    await dialogOf(page).getByLabel('User path').fill('team/new');
    await dialogOf(page).getByLabel('Period').selectOption('Week');
    await dialogOf(page).getByLabel('Limit in US dollars').fill('12.5');
    await page.keyboard.press('Enter');
    await rowOf(page, '/team/new').waitFor();
    expect(await budgetOf('/team/new')).toMatchObject({ amount: 12.5, period_label: 'weekly', user_path: '/team/new' });

    await rowOf(page, '/team/new').getByRole('button', { name: 'Edit' }).click();
    await dialogOf(page).getByLabel('Limit in US dollars').fill('20');
    await dialogOf(page).getByRole('button', { name: 'Save the budget' }).click();
    await expect.poll(async () => (await budgetOf('/team/new')).amount).toBe(20);
    await expect.poll(() => shownText(rowOf(page, '/team/new'))).toContain('$20.00');

    await rowOf(page, '/team/new').getByRole('button', { name: 'Remove' }).click();
    expect(await shownText(dialogOf(page))).toContain('Its limit of $20.00 no longer applies');
    await dialogOf(page).getByRole('button', { name: 'Remove the budget' }).click();
    await rowOf(page, '/team/new').waitFor({ state: 'detached' });
    expect(await budgetOf('/team/new')).toBeUndefined();

    // The subject has had a budget before: a new one is created nevertheless.
    await page.getByRole('button', { name: 'Create a budget' }).click();
    await dialogOf(page).getByLabel('User path').fill('/team/new');
    await dialogOf(page).getByLabel('Limit in US dollars').fill('1');
    await page.keyboard.press('Enter');
    await rowOf(page, '/team/new').waitFor();
    opened.expectFindings(({ kind, text }) => kind === 'console' && text.includes('409'));
    expectClean(opened);
  });

  it('shows a refused amount at the form', async () => {
    const opened = await openTab();
    const { page } = opened;
    await page.getByRole('button', { name: 'Create a budget' }).click();
    await dialogOf(page).getByLabel('User path').fill('/team/bad');
    await dialogOf(page).getByLabel('Limit in US dollars').fill('-1');
    await page.keyboard.press('Enter');
    await expect.poll(() => shownText(dialogOf(page))).toMatch(/'amount' must be US dollars/);
    expect(await dialogOf(page).getByLabel('Limit in US dollars').getAttribute('aria-invalid')).toBe('true');
    opened.expectFindings(({ kind, text }) => kind === 'console' && text.includes('400'));
    expectClean(opened);
  });

  it('saves nothing over a change of another administrator without a choice', async () => {
    await change('PUT', '/admin/budgets/%2Fconflict/daily', { amount: 5 });
    const opened = await openTab();
    const { page } = opened;
    await rowOf(page, '/conflict').getByRole('button', { name: 'Edit' }).click();
    await change('PUT', '/admin/budgets/%2Fconflict/daily', { amount: 6 });
    await dialogOf(page).getByLabel('Limit in US dollars').fill('7');
    await dialogOf(page).getByRole('button', { name: 'Save the budget' }).click();
    await dialogOf(page).getByRole('button', { name: 'Save mine over it' }).waitFor();
    expect(await shownText(dialogOf(page))).toMatch(/Changed amount[\s\S]*Before:\s*6[\s\S]*Now:\s*7/);
    expect(await budgetOf('/conflict')).toMatchObject({ amount: 6 });
    await dialogOf(page).getByRole('button', { name: 'Save mine over it' }).click();
    await expect.poll(async () => (await budgetOf('/conflict')).amount).toBe(7);
    await change('DELETE', '/admin/budgets/%2Fconflict/daily', {});
    opened.expectFindings(({ kind, text }) => kind === 'console' && text.includes('409'));
    expectClean(opened);
  });

  it('does not create a budget over an existing one', async () => {
    const opened = await openTab();
    const { page } = opened;
    await page.getByRole('button', { name: 'Create a budget' }).click();
    await dialogOf(page).getByLabel('User path').fill('/team/research');
    await dialogOf(page).getByLabel('Limit in US dollars').fill('1');
    await page.keyboard.press('Enter');
    await dialogOf(page).getByRole('button', { name: 'Keep the current version' }).click();
    expect(await budgetOf('/team/research')).toMatchObject({ amount: 400 });
    expectClean(opened);
  });

  it('resets one budget, then all, and names the amounts before', async () => {
    const opened = await openTab();
    const { page } = opened;
    const { spent } = await budgetOf('/team/research');
    await rowOf(page, '/team/research').getByRole('button', { name: 'Reset' }).click();
    expect(await shownText(dialogOf(page))).toMatch(
      new RegExp(`from \\$${spent.toFixed(2).replace('.', '\\.')}\\d* to \\$0\\.00`),
    );
    await dialogOf(page).getByRole('button', { name: 'Set the spending to 0' }).click();
    await expect.poll(async () => (await budgetOf('/team/research')).spent).toBe(0);

    await page.getByRole('button', { name: 'Reset all' }).click();
    const effect = await shownText(dialogOf(page));
    for (const { subject } of (await read('/admin/budgets')).budgets) expect(effect).toContain(subject);
    await dialogOf(page).getByRole('button', { name: 'Set all spending to 0' }).click();
    await dialogOf(page).waitFor({ state: 'detached' });
    expect((await read('/admin/budgets')).budgets.every((row: Answered) => row.last_reset_at)).toBe(true);
    expectClean(opened);
  });

  it('creates, edits, resets and removes a rate limit', async () => {
    const limitOf = async (subject: string): Promise<Answered> =>
      (await read('/admin/rate-limits')).rate_limits.find((row: Answered) => row.subject === subject);
    const opened = await openTab('limits');
    const { page } = opened;
    expect(await shownText(rowOf(page, '/customers/mobile'))).toMatch(/of 30/);
    await page.getByRole('button', { name: 'Create a rate limit' }).click();
    await dialogOf(page).getByLabel('Limits the requests of').selectOption('A provider');
    await dialogOf(page).getByLabel('Provider').fill('openai');
    await dialogOf(page).getByLabel('Period').selectOption('Hour');
    await dialogOf(page).getByLabel('Most requests').fill('5000');
    await page.keyboard.press('Enter');
    await rowOf(page, 'openai').waitFor();
    expect(await limitOf('openai')).toMatchObject({ scope: 'provider', period_label: 'hour', max_requests: 5000 });

    await rowOf(page, 'openai').getByRole('button', { name: 'Edit' }).click();
    await dialogOf(page).getByLabel('Most requests').fill('');
    await dialogOf(page).getByLabel('Most tokens').fill('90000');
    await dialogOf(page).getByRole('button', { name: 'Save the rate limit' }).click();
    await expect.poll(async () => (await limitOf('openai')).max_tokens).toBe(90_000);
    expect(await limitOf('openai')).not.toHaveProperty('max_requests');

    await rowOf(page, 'openai').getByRole('button', { name: 'Reset' }).click();
    await dialogOf(page).getByRole('button', { name: 'Set the counts to 0' }).click();
    await dialogOf(page).waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Reset all' }).click();
    await dialogOf(page).getByRole('button', { name: 'Set all counts to 0' }).click();
    await dialogOf(page).waitFor({ state: 'detached' });

    await rowOf(page, 'openai').getByRole('button', { name: 'Remove' }).click();
    await dialogOf(page).getByRole('button', { name: 'Remove the rate limit' }).click();
    await rowOf(page, 'openai').waitFor({ state: 'detached' });
    expect(await limitOf('openai')).toBeUndefined();
    expectClean(opened);
  });

  it('changes when periods begin', async () => {
    const opened = await openTab('settings');
    const { page } = opened;
    await page.getByRole('button', { name: 'Change the settings' }).click();
    await dialogOf(page).getByLabel('Days begin at').fill('06:30');
    await dialogOf(page).getByLabel('Weeks begin on').selectOption('Sunday');
    await dialogOf(page).getByRole('button', { name: 'Save the settings' }).click();
    await dialogOf(page).waitFor({ state: 'detached' });
    const settings = await read('/admin/budgets/settings');
    expect(settings).toMatchObject({ daily_reset_hour: 6, daily_reset_minute: 30, weekly_reset_weekday: 0 });
    await expect.poll(() => shownText(page.getByRole('row', { name: /^Day/ }))).toMatch(/06:30[\s\S]*06:30:00/);
    await change('PUT', '/admin/budgets/settings', {
      daily_reset_hour: 0,
      daily_reset_minute: 0,
      weekly_reset_weekday: 1,
    });
    expectClean(opened);
  });

  it('shows budgets of the subtree only, and no change of the whole gateway, to its administrator', async () => {
    await change('PUT', '/admin/budgets/%2Fcustomers/daily', { amount: 50 });
    const opened = await dashboard.open('/budgets', { key: dashboard.facts.keys.lead.value });
    const { page } = opened;
    await rowOf(page, '/team/research').waitFor();
    expect(await shownText(page.getByRole('tabpanel'))).not.toContain('/customers');
    expect(await page.getByRole('button', { name: 'Reset all' }).count()).toBe(0);
    await page.getByRole('tab', { name: 'Settings' }).click();
    await settled(page);
    expect(await page.getByRole('button', { name: 'Change the settings' }).count()).toBe(0);
    await page.getByRole('tab', { name: 'Budgets' }).click();
    await page.getByRole('button', { name: 'Create a budget' }).click();
    await dialogOf(page).getByLabel('User path').fill('/team/lead');
    await dialogOf(page).getByLabel('Limit in US dollars').fill('3');
    await page.keyboard.press('Enter');
    await rowOf(page, '/team/lead').waitFor();
    expectClean(opened);
  });
});

describeInChromium('the page Budgets and limits without them', () => {
  const dashboard = withDashboard({
    data: 'empty',
    env: { BUDGETS_ENABLED: 'false', RATE_LIMITS_ENABLED: 'false', ANALYTICS_ENABLED: 'false' },
  });

  it.each([
    ['budgets', 'BUDGETS_ENABLED=true'],
    ['limits', 'RATE_LIMITS_ENABLED=true'],
    ['settings', 'BUDGETS_ENABLED=true'],
  ])('names the setting that switches them on (%s)', async (tab, setting) => {
    const opened = await dashboard.open(`/budgets?tab=${tab}`);
    expect(await shownText(opened.page.getByRole('tabpanel'))).toContain(setting);
    expectClean(opened);
  });
});
