/** The SQL page: questions, completion, results as table, chart and file, errors, and what stays in this browser. */
import { readFileSync } from 'node:fs';
import type { Page } from 'playwright-core';
import { expect, it } from 'vitest';
import { ask } from '../e2e/gateway-process.ts';
import type { Answered } from '../support/answered.ts';
import { accessibilityViolations } from './support/accessibility.ts';
import { expectClean, settled, shownText } from './support/dashboard.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

describeInChromium('the SQL page', () => {
  const dashboard = withDashboard({ data: 'shared' });
  const editor = (page: Page) => page.getByLabel('Query', { exact: true });
  const cells = (page: Page) => page.getByRole('table', { name: 'Result' }).locator('tbody tr[aria-rowindex]');
  async function run(page: Page, query: string): Promise<void> {
    await editor(page).fill(query);
    await page.keyboard.press('Control+Enter');
    await settled(page);
  }
  async function rows(query: string): Promise<Answered[]> {
    const answer = await ask(dashboard.url, '/admin/sql', { json: { query, format: 'JSON' } });
    const { data }: Answered = await answer.json();
    return data;
  }
  async function recorded(): Promise<string[]> {
    const answer = await ask(dashboard.url, '/admin/history?subject=audit:reads&limit=200');
    const { entries }: Answered = await answer.json();
    return entries.map(({ after }: Answered) => after.filter?.query ?? '');
  }

  it('runs a question of the guide, as a table and as a chart', async () => {
    const opened = await dashboard.open('/settings');
    const { page } = opened;
    await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'SQL' }).click();
    await page.getByRole('button', { name: 'How slow is each provider, by the hour?' }).click();
    const query = await editor(page).inputValue();
    expect(query).toMatch(/^SELECT\n {2}toStartOfHour\(at\) AS hour/);
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await cells(page).first().waitFor();
    const expected = await rows(query);
    await expect.poll(() => shownText(page.locator('.sql-result-head'))).toContain(`${expected.length} rows`);
    const first = await cells(page).first().getByRole('cell').allTextContents();
    expect(first.slice(1)).toEqual(Object.values(expected[0]).map(String));
    expect(await cells(page).count()).toBeLessThan(80);
    await cells(page).first().getByRole('button', { name: 'Show row 1' }).click();
    const whole = page.getByRole('dialog', { name: 'Row 1' });
    await expect.poll(() => shownText(whole)).toContain(String(expected[0].p95_first_byte_ms));
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'Chart', exact: true }).click();
    const chart = page.getByRole('figure', { name: 'requests by hour' });
    await chart.waitFor();
    expect(await page.getByLabel('Separate by').inputValue()).toBe('provider');
    await page.getByLabel('Value', { exact: true }).selectOption('p95_ms');
    await page.getByLabel('Chart', { exact: true }).selectOption('bars');
    const other = page.getByRole('figure', { name: 'p95_ms by hour' });
    await other.getByRole('button', { name: 'Table' }).click();
    expect((await other.getByRole('columnheader').allTextContents())[0]).toBe('Place');
    expect(await accessibilityViolations(page)).toEqual([]);
    expectClean(opened);
  });

  it('completes names by keyboard and never traps the Tab key', async () => {
    const opened = await dashboard.open('/sql');
    const { page } = opened;
    await editor(page).click();
    await page.keyboard.type('SELECT 1 FROM excha');
    const list = page.getByRole('listbox', { name: 'Names' });
    await list.waitFor();
    expect(await list.getByRole('option', { selected: true }).count()).toBe(0);
    await page.keyboard.press('ArrowDown');
    expect(await editor(page).getAttribute('aria-activedescendant')).toBe(
      await list.getByRole('option').first().getAttribute('id'),
    );
    expect(await accessibilityViolations(page)).toEqual([]);
    await page.keyboard.press('Enter');
    expect(await editor(page).inputValue()).toBe('SELECT 1 FROM exchanges');
    await page.keyboard.press('Control+z');
    expect(await editor(page).inputValue()).toBe('SELECT 1 FROM excha');
    await page.keyboard.press('End');
    await page.keyboard.type('n');
    await list.waitFor();
    await page.keyboard.press('Enter');
    expect(await editor(page).inputValue()).toBe('SELECT 1 FROM exchan\n');
    await page.keyboard.press('Control+Space');
    await list.waitFor();
    await page.keyboard.press('Escape');
    await list.waitFor({ state: 'detached' });
    await page.keyboard.press('Tab');
    expect(await editor(page).inputValue()).toBe('SELECT 1 FROM exchan\n');
    const toggle = page.getByRole('checkbox', { name: 'Tab inserts spaces' });
    await expect.poll(() => toggle.evaluate((element) => element.matches(':focus'))).toBe(true);
    await toggle.check();
    await editor(page).focus();
    await page.keyboard.press('Tab');
    expect(await editor(page).inputValue()).toBe('SELECT 1 FROM exchan\n  ');
    await page.keyboard.press('Shift+Tab');
    await expect.poll(() => editor(page).evaluate((element) => element.matches(':focus'))).toBe(false);
    await page.getByRole('tab', { name: 'Tables' }).click();
    await page.getByLabel('Search columns').fill('finish_reason');
    await editor(page).fill('SELECT ');
    await page.getByRole('button', { name: 'Insert finish_reason' }).first().click();
    expect(await editor(page).inputValue()).toBe('SELECT finish_reason');
    expectClean(opened);
  });

  it('shows an error with its place in the query', async () => {
    const opened = await dashboard.open('/sql');
    const { page } = opened;
    await run(page, 'SELECT count()\nFROM exchanges\nWHERE colour = 1');
    await expect.poll(() => shownText(page.getByRole('alert'))).toContain('colour');
    await page.getByRole('button', { name: 'Go to line 3, column 7' }).click();
    const caret = await editor(page).evaluate(
      (element) => (element as unknown as { selectionStart: number }).selectionStart,
    );
    expect(caret).toBe('SELECT count()\nFROM exchanges\nWHERE '.length);
    await run(page, 'SELECT 1\nFRM exchanges x');
    await page.getByRole('button', { name: /^Go to line 2, column/ }).waitFor();
    await run(page, "SELECT * FROM url('http://127.0.0.1/')");
    await expect.poll(() => shownText(page.getByRole('alert'))).toMatch(/sql_refused/);
    opened.expectFindings(({ kind, text }) => kind === 'console' && text.includes('400'));
    expectClean(opened);
  });

  it('limits the rows, saves all of them, and ends a query', async () => {
    const opened = await dashboard.open('/sql');
    const { page } = opened;
    const query = 'SELECT number, toString(number) AS text FROM numbers(2500) -- all';
    await run(page, query);
    await expect.poll(() => shownText(page.locator('.sql-result-head'))).toContain('The first 1,000 rows');
    await page.getByRole('group', { name: 'Result' }).press('End');
    await expect.poll(() => cells(page).last().getByRole('cell').allTextContents()).toEqual(['1000', '999', '999']);
    const download = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Save all rows' }).click();
    const file = await download;
    expect(file.suggestedFilename()).toBe('query.csv');
    expect(
      readFileSync(await file.path(), 'utf8')
        .trim()
        .split('\n'),
    ).toHaveLength(2501);
    await editor(page).fill('SELECT sum(cityHash64(SHA512(toString(number)))) FROM numbers(900000000)');
    await page.keyboard.press('Control+Enter');
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.locator('.pending').waitFor({ state: 'detached' });
    expect(await page.getByRole('alert').count()).toBe(0);
    await run(page, 'SHOW TABLES FORMAT CSV');
    await expect.poll(() => shownText(page.getByRole('group', { name: 'Result' }))).toContain('"usage"');
    expectClean(opened);
  });

  it('has the query in the fragment of the address, which does not run by itself', async () => {
    const opened = await dashboard.open('/sql', { keep: true });
    const { page } = opened;
    const query = "SELECT 'in the address' AS text";
    await run(page, query);
    const address = page.url();
    expect(new URL(address).search).toBe('');
    expect(new URL(address).hash).toBe(`#query=${encodeURIComponent(query)}`);
    await page.getByRole('tab', { name: 'My queries' }).click();
    expect(new URL(page.url()).hash).toBe(new URL(address).hash);
    const before = (await recorded()).length;
    const second = await opened.context.newPage();
    await second.goto(address);
    await settled(second);
    await expect.poll(() => editor(second).inputValue()).toBe(query);
    expect((await recorded()).length).toBe(before);
    expect(opened.answers.filter(({ path }) => path.includes('address'))).toEqual([]);
    await second.close();
    await run(page, `SELECT '${'x'.repeat(2000)}'`);
    expect(new URL(page.url()).hash).toBe('');
    await page.getByText('Too long for a link.').waitFor();
    expectClean(opened);
  });

  it('lists the queries of this browser, and every query is on record', async () => {
    const opened = await dashboard.open('/sql?tab=own');
    const { page } = opened;
    await page.getByText('No query was run here yet.').waitFor();
    await run(page, "SELECT 'first of mine'");
    await run(page, "SELECT 'second of mine'");
    const own = page.getByRole('tabpanel', { name: 'My queries' });
    await own.getByRole('button', { name: "SELECT 'first of mine'" }).click();
    expect(await editor(page).inputValue()).toBe("SELECT 'first of mine'");
    expect((await recorded()).some((query) => query.startsWith("SELECT 'second of mine'"))).toBe(true);
    await page.reload();
    await settled(page);
    await own.getByRole('button', { name: 'Clear this list' }).click();
    await page.getByText('No query was run here yet.').waitFor();
    await own.getByRole('link', { name: 'recorded queries' }).click();
    await page.getByRole('heading', { level: 1, name: 'History' }).waitFor();
    await expect.poll(() => shownText(page.locator('main'))).toContain("SELECT 'second of mine'");
    expectClean(opened);
  });

  it('shows and saves no result that is not the one that the gateway has sent', async () => {
    const opened = await dashboard.open('/sql');
    const { page } = opened;
    let change = (text: string) => text;
    await page.route(
      (url) => url.pathname === '/admin/sql',
      async (route) => {
        const answer = await route.fetch();
        await route.fulfill({ response: answer, body: change(await answer.text()) });
      },
    );
    await editor(page).fill('SELECT number FROM numbers(100)');
    const runAgain = () => page.keyboard.press('Control+Enter');
    change = (text) => text.slice(0, 200);
    await runAgain();
    await page.getByText(/it has 200 bytes instead of/).waitFor();
    change = (text) => `${text}Code: 241. DB::Exception`;
    await runAgain();
    await page.getByText(/The result is not the one that the gateway has sent: it has (?!200)/).waitFor();
    change = (text) => text;
    await runAgain();
    await page.getByRole('button', { name: 'Save all rows' }).waitFor();
    change = (text) => text.slice(0, 50);
    let saved = 0;
    page.on('download', () => {
      saved += 1;
    });
    await page.getByRole('button', { name: 'Save all rows' }).click();
    await page.getByText(/it has 50 bytes instead of/).waitFor();
    expect(saved).toBe(0);
    expectClean(opened);
  });

  it('tells an administrator of a subtree where its requests are', async () => {
    const opened = await dashboard.open('/sql', { key: dashboard.facts.keys.lead.value });
    await opened.page.getByText('SQL is for administrators of the whole gateway.').waitFor();
    expect(await editor(opened.page).count()).toBe(0);
    expectClean(opened);
  });
});

describeInChromium('the SQL page without analytics', () => {
  const dashboard = withDashboard({ data: 'empty', env: { ANALYTICS_ENABLED: 'false' } });

  it('names the settings that switch it on', async () => {
    const opened = await dashboard.open('/sql');
    const text = await shownText(opened.page.locator('main'));
    expect(text).toContain('ANALYTICS_ENABLED=true');
    expect(text).toContain('analytics.enabled: true');
    expect(await opened.page.getByLabel('Query', { exact: true }).count()).toBe(0);
    expect(await accessibilityViolations(opened.page)).toEqual([]);
    expectClean(opened);
  });
});
