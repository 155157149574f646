/** The History page: changes of administrators with their fields, of everything and of one subject. */
import type { Locator, Page } from 'playwright-core';
import { expect, it } from 'vitest';
import { ask } from '../e2e/gateway-process.ts';
import type { Answered } from '../support/answered.ts';
import { expectClean, settled, shownText } from './support/dashboard.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

describeInChromium('the History page', () => {
  const dashboard = withDashboard({ data: 'shared changes' });

  async function read(path: string): Promise<Answered> {
    const answer = await ask(dashboard.url, path);
    expect(answer.status, path).toBe(200);
    return answer.json();
  }
  async function change(method: string, path: string, json: object, key?: string): Promise<void> {
    const answer = await ask(dashboard.url, path, { method, json, ...(key === undefined ? {} : { key }) });
    expect(answer.status, `${method} ${path}`).toBeLessThan(300);
  }
  const entries = (page: Page): Locator => page.getByRole('list', { name: /Changes/ }).locator('> li');
  const titles = (page: Page) => entries(page).getByRole('heading').allTextContents();

  it('lists changes with their author, subject and fields, and leads to the state of that time', async () => {
    const { support, lead } = dashboard.facts.keys;
    const policy = { user_path: '/team/history', allowed_models: ['assistant'] };
    await change('PUT', '/admin/users', { ...policy, description: 'for tests' }, lead.value);
    await change('PUT', '/admin/users', { ...policy, description: 'for reports' }, lead.value);
    await change('PUT', `/admin/auth-keys/${support.id}/labels`, { labels: ['production'] });
    const opened = await dashboard.open('/settings');
    const { page } = opened;
    await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'History' }).click();
    await settled(page);
    const [labels, described, created] = [entries(page).nth(0), entries(page).nth(1), entries(page).nth(2)];
    await expect.poll(() => shownText(labels)).toMatch(/Labels changed[\s\S]+Support desk[\s\S]+by the master key/);
    expect(await shownText(labels)).toMatch(/labels\[1\][\s\S]+"personal-data"/);
    const author = described.getByRole('link', { name: 'Lead of the teams' });
    expect(await author.getAttribute('href')).toContain(`/keys/${lead.id}`);
    expect(await described.locator('del').allTextContents()).toEqual(['tests']);
    expect(await described.locator('ins').allTextContents()).toEqual(['reports']);
    expect(await shownText(created)).toMatch(/user_path[\s\S]+\/team\/history[\s\S]+allowed_models[\s\S]+assistant/);
    const [newest] = (await read('/admin/history?limit=1')).entries;
    const state = labels.getByRole('link', { name: 'Show the state at this time' });
    const href = new URL((await state.getAttribute('href')) ?? '', page.url());
    expect(href.pathname).toBe(`/admin/dashboard/keys/${support.id}`);
    expect(href.searchParams.get('as_of')).toBe(newest.position);
    await labels.locator('summary').click();
    await expect.poll(() => shownText(labels)).toContain(newest.request_id);
    await settled(page);
    expectClean(opened);
  });

  it('shows the changes of one actor, and keeps the choice in the address', async () => {
    const { support, lead } = dashboard.facts.keys;
    await change('PUT', '/admin/users', { user_path: '/team/by', allowed_models: ['assistant'] }, lead.value);
    await change('PUT', `/admin/auth-keys/${support.id}/labels`, { labels: ['by-master'] });
    const opened = await dashboard.open('/history');
    const { page } = opened;
    await page.getByLabel('By', { exact: true }).selectOption({ label: 'Lead of the teams' });
    await settled(page);
    await expect.poll(() => shownText(entries(page).first())).toContain('/team/by');
    const authors = await page.locator('.history-by').allTextContents();
    expect(authors.filter((author) => !author.endsWith('by Lead of the teams'))).toEqual([]);
    await page.reload();
    await settled(page);
    expect(await page.getByLabel('By', { exact: true }).inputValue()).toBe(`key:${lead.id}`);
    expect(await shownText(entries(page).first())).toContain('/team/by');
    expectClean(opened);
  });

  it('shows the changes of one subject, chosen from suggestions', async () => {
    const { finance } = dashboard.facts.keys;
    await change('PUT', `/admin/auth-keys/${finance.id}/name`, { name: 'Billing batch, renamed' });
    const opened = await dashboard.open('/history');
    const { page } = opened;
    await page.getByLabel('Changes of').selectOption('key');
    const suggestion = page.locator(`datalist option[value="${finance.id}"]`);
    await suggestion.waitFor({ state: 'attached' });
    expect(await suggestion.getAttribute('label')).toBe('Billing batch, renamed');
    await page.getByLabel('Id of the key').fill(finance.id);
    await page.getByRole('button', { name: 'Show', exact: true }).click();
    await expect.poll(() => titles(page)).toEqual(['Key renamed', 'Key created']);
    expect(new URL(page.url()).searchParams.get('subject')).toBe(`key:${finance.id}`);
    await page.reload();
    await expect.poll(() => titles(page)).toEqual(['Key renamed', 'Key created']);
    expect(await page.getByLabel('Id of the key').inputValue()).toBe(finance.id);
    await opened.visit('/history?subject=price:never-set');
    await page.getByText('was never changed through the API').waitFor();
    opened.expectFindings(({ kind, text }) => kind === 'console' && text.includes('404'));
    expectClean(opened);
  });

  it('goes to older changes and to a range of time', async () => {
    for (let n = 0; n < 26; n++) await change('PUT', '/admin/budgets/%2Fteam%2Fpages/daily', { amount: n + 1 });
    const opened = await dashboard.open('/history');
    const { page } = opened;
    await expect.poll(() => entries(page).count()).toBe(25);
    const first = (await read('/admin/history?limit=25')).entries;
    await page.getByRole('button', { name: 'Older changes' }).click();
    await expect.poll(() => new URL(page.url()).searchParams.get('before')).toBe(first[24].position);
    await settled(page);
    const older = await read(`/admin/history?limit=25&before=${first[24].position}`);
    await expect.poll(() => entries(page).count()).toBe(older.entries.length);
    await page.getByRole('combobox', { name: 'Time range' }).selectOption('1h');
    await expect.poll(() => entries(page).count()).toBe(25);
    expect(new URL(page.url()).searchParams.get('before')).toBeNull();
    await page.getByRole('combobox', { name: 'Time range' }).selectOption('last-week');
    await settled(page);
    const { searchParams } = new URL(page.url());
    expect(Object.fromEntries(searchParams)).toEqual({ range: 'last-week' });
    expectClean(opened);
  });

  it('has the SQL queries and other reads of recorded content', async () => {
    const query = "SELECT 'a question of history'";
    await change('POST', '/admin/sql', { query });
    const opened = await dashboard.open('/history');
    const { page } = opened;
    await page.getByLabel('Changes of').selectOption('audit');
    await expect.poll(async () => (await titles(page))[0]).toBe('SQL query');
    await expect.poll(() => shownText(entries(page).first())).toContain(query);
    expectClean(opened);
  });

  it('lets an administrator of a subtree choose among its keys and paths', async () => {
    const { lead, research } = dashboard.facts.keys;
    const opened = await dashboard.open('/history', { key: lead.value });
    const { page } = opened;
    await page.getByText('Choose a key or a path of your subtree.').waitFor();
    await page.getByRole('link', { name: 'Research notebooks' }).click();
    await expect.poll(() => titles(page)).toEqual(['Key created']);
    expect(new URL(page.url()).searchParams.get('subject')).toBe(`key:${research.id}`);
    const kinds = await page.getByLabel('Changes of').locator('option').allTextContents();
    expect(kinds).toEqual(['Key', 'User path', 'Budget', 'Rate limit']);
    expect(opened.answers.filter(({ status }) => status >= 400)).toEqual([]);
    expectClean(opened);
  });
});
