/** The Usage page with the seeded history. */
import { readFileSync } from 'node:fs';
import type { Locator, Page } from 'playwright-core';
import { expect, it } from 'vitest';
import { ask } from '../e2e/gateway-process.ts';
import type { Answered } from '../support/answered.ts';
import { expectClean, settled } from './support/dashboard.ts';
import { countSteps } from './support/steps.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

const DAY_MS = 86_400_000;

describeInChromium('the Usage page', () => {
  const dashboard = withDashboard({ data: 'shared' });

  async function text(path: string): Promise<string> {
    const answer = await ask(dashboard.url, path);
    expect(answer.status).toBe(200);
    return answer.text();
  }
  const read = async (path: string): Promise<Answered> => JSON.parse(await text(path));

  /** The week from Monday to Sunday before this one, in UTC. */
  function lastWeek() {
    const today = Math.floor(Date.now() / DAY_MS) * DAY_MS;
    const monday = today - ((new Date(today).getUTCDay() + 6) % 7) * DAY_MS;
    return { from: new Date(monday - 7 * DAY_MS).toISOString(), to: new Date(monday).toISOString() };
  }
  const query = (more: Record<string, string> = {}) =>
    new URLSearchParams({ ...lastWeek(), cache_mode: 'all', ...more });

  const rowsOf = (page: Page, name: string): Locator =>
    page.getByRole('table', { name: `Usage by ${name}` }).locator('tbody tr[aria-rowindex]');
  const namesOf = async (page: Page, name: string): Promise<string[]> =>
    (await rowsOf(page, name).all()).reduce<Promise<string[]>>(
      async (before, row) => [...(await before), (await row.getByRole('cell').first().textContent()) ?? ''],
      Promise.resolve([]),
    );

  it('answers which key spent most last week in four clicks', async () => {
    const opened = await dashboard.open();
    const { page } = opened;
    const steps = countSteps(page);
    await steps.click(page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Usage' }));
    await settled(page);
    await steps.select(page.getByRole('combobox', { name: 'Time range' }), 'last-week');
    await steps.click(page.getByRole('tab', { name: 'Key' }));
    await settled(page);
    const keys = await read(`/admin/usage/keys?${query()}`);
    const most = keys.toSorted((one: Answered, other: Answered) => (other.total_cost ?? -1) - (one.total_cost ?? -1));
    await expect.poll(async () => (await namesOf(page, 'key'))[0]).toBe(most[0].name);
    expect(most[0].total_cost).toBeGreaterThan(0);
    expect({ clicks: steps.clicks, keys: steps.keys, texts: steps.texts }).toEqual({ clicks: 4, keys: 0, texts: 0 });
    expectClean(opened);
  });

  it('has the rows of each report', async () => {
    const opened = await dashboard.open('/usage?range=last-week&measure=tokens');
    const { page } = opened;
    const tokens = (row: Answered) =>
      row.input_tokens - row.local_cached_input_tokens + row.output_tokens - row.local_cached_output_tokens;
    for (const [tab, path, nameOf] of [
      ['Model', 'models', (row: Answered) => `${row.provider_name}/${row.model}`],
      ['User path', 'user-paths', (row: Answered) => row.user_path],
      ['Label', 'labels', (row: Answered) => row.label],
    ] as const) {
      await page.getByRole('tab', { name: tab, exact: true }).click();
      await settled(page);
      const rows = (await read(`/admin/usage/${path}?${query()}`)).toSorted(
        (one: Answered, other: Answered) => tokens(other) - tokens(one),
      );
      const shown = await namesOf(page, tab.toLowerCase());
      expect(shown.length).toBeGreaterThan(0);
      expect(shown).toEqual(rows.map(nameOf).slice(0, shown.length));
      const first = await rowsOf(page, tab.toLowerCase()).first().textContent();
      expect(first).toContain(tokens(rows[0]).toLocaleString('en-GB'));
    }
    await page.getByRole('tab', { name: 'Provider' }).click();
    await settled(page);
    const models = await read(`/admin/usage/models?${query()}`);
    const providers = new Set(models.map(({ provider_name }: Answered) => provider_name));
    expect(new Set(await namesOf(page, 'provider'))).toEqual(providers);
    await page.getByRole('tab', { name: 'Session' }).click();
    await settled(page);
    const sessions = await read(`/admin/usage/sessions?${query({ limit: '5' })}`);
    expect((await namesOf(page, 'session')).slice(0, 5)).toEqual(
      sessions.entries.map(({ session_id }: Answered) => session_id),
    );
    expectClean(opened);
  });

  it('compares each day with that of the time before, also in words', async () => {
    const opened = await dashboard.open('/usage?range=last-week&measure=tokens&by=day');
    const { page } = opened;
    expect(await rowsOf(page, 'day').count()).toBe(7);
    const chart = page.getByRole('figure', { name: 'Tokens by day' });
    await chart.getByRole('button', { name: 'Table' }).click();
    const heads = await chart.getByRole('columnheader').allTextContents();
    expect(heads).toEqual(['Time', 'Input', 'Input read from prompt caches', 'Output', 'Time before']);
    const { from } = lastWeek();
    const before = new URLSearchParams({
      from: new Date(Date.parse(from) - 7 * DAY_MS).toISOString(),
      to: from,
      cache_mode: 'all',
    });
    const earlier = await read(`/admin/usage/daily?${before}`);
    const day = new Date(Date.parse(from) - 6 * DAY_MS).toISOString().slice(0, 10);
    const row = earlier.find(({ date }: Answered) => date === day);
    const tokens =
      row.input_tokens - row.local_cached_input_tokens + row.output_tokens - row.local_cached_output_tokens;
    expect(await chart.getByRole('row').nth(2).textContent()).toContain(tokens.toLocaleString('en-GB'));
    expectClean(opened);
  });

  it('a row leads to its days, and to its requests', async () => {
    const opened = await dashboard.open('/usage?range=last-week&by=path&measure=tokens');
    const { page } = opened;
    const [path = ''] = await namesOf(page, 'user path');
    await rowsOf(page, 'user path').first().getByRole('link', { name: 'by day' }).click();
    await page.getByRole('list', { name: 'Filters' }).getByText(path).waitFor();
    await settled(page);
    const { searchParams } = new URL(page.url());
    expect(Object.fromEntries(searchParams)).toEqual({
      range: 'last-week',
      by: 'day',
      measure: 'tokens',
      user_path: path,
    });
    expect(await rowsOf(page, 'day').count()).toBe(7);
    await page.getByRole('link', { name: 'Remove the filter User path' }).click();
    await page.getByRole('list', { name: 'Filters' }).waitFor({ state: 'detached' });
    await page.getByRole('tab', { name: 'User path' }).click();
    await settled(page);
    await page
      .getByRole('table', { name: 'Usage by user path' })
      .getByRole('link', { name: path, exact: true })
      .click();
    await page.getByRole('heading', { level: 1, name: 'Audit' }).waitFor();
    expect(Object.fromEntries(new URL(page.url()).searchParams)).toEqual({ ...lastWeek(), user_path: path });
    await settled(page);
    expectClean(opened);
  });

  it('saves the shown report as CSV', async () => {
    const opened = await dashboard.open('/usage?range=last-week&by=model');
    const { page } = opened;
    const download = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Save as CSV' }).click();
    const file = await download;
    expect(file.suggestedFilename()).toBe('usage-by-model.csv');
    const saved = readFileSync(await file.path(), 'utf8');
    expect(saved).toBe(await text(`/admin/usage/models?${query({ format: 'csv' })}`));
    expect(saved.split('\r\n').length).toBeGreaterThan(3);
    expectClean(opened);
  });
});
