/**
 * Five questions of auditors and operators, each from the Overview to its answer, with the number of clicks. The figures
 * are those of docs/dashboard.md: a change of them changes the document, too.
 */
import { expect, it } from 'vitest';
import { ask } from '../e2e/gateway-process.ts';
import type { Answered } from '../support/answered.ts';
import { expectClean, settled, shownText } from './support/dashboard.ts';
import { listedExchanges } from './support/rows.ts';
import { countSteps } from './support/steps.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

describeInChromium('five questions', () => {
  const dashboard = withDashboard({ data: 'shared' });

  async function rows(query: string): Promise<Answered[]> {
    const answer = await ask(dashboard.url, '/admin/sql', { json: { query, format: 'JSON' } });
    return JSON.parse(await answer.text()).data;
  }

  it('which key spent most last week: 4 clicks', async () => {
    const opened = await dashboard.open();
    const { page } = opened;
    const steps = countSteps(page);
    await steps.click(page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Usage' }));
    await steps.select(page.getByLabel('Time range'), 'Last week');
    await steps.click(page.getByRole('tab', { name: 'Key' }));
    await settled(page);
    const first = page.getByRole('tabpanel').getByRole('table').getByRole('row').nth(1);
    await expect.poll(() => shownText(first)).toContain('Research notebooks');
    expect(steps).toMatchObject({ clicks: 4, keys: 0, texts: 0 });

    const [most] = await rows(`SELECT auth_key_id, sum(total_cost) / 1e9 AS dollars FROM usage
      WHERE at >= toMonday(now()) - INTERVAL 7 DAY AND at < toMonday(now()) GROUP BY auth_key_id ORDER BY dollars DESC LIMIT 1`);
    expect(most?.auth_key_id).toBe(dashboard.facts.keys.research.id);
    expect(await shownText(first)).toContain(Number(most?.dollars).toFixed(2));
    expectClean(opened);
  });

  it('what exactly the provider received for a request: the id, 3 clicks', async () => {
    const opened = await dashboard.open();
    const { page } = opened;
    const steps = countSteps(page);
    await steps.press('Control+k');
    await steps.fill(page.getByRole('dialog').getByRole('combobox'), dashboard.facts.shown.changedYesterday);
    await page.getByRole('group', { name: 'Requests with this id' }).getByRole('option').waitFor();
    await steps.press('Enter');
    await steps.click(page.getByRole('tab', { name: 'Request' }));
    await steps.select(page.getByRole('tabpanel').getByLabel('Show'), 'What openai received (attempt 1)');
    await page.getByRole('heading', { name: 'What openai received' }).waitFor();
    await settled(page);
    expect(steps).toMatchObject({ clicks: 3, keys: 2, texts: 1 });

    const raw = page.getByRole('button', { name: 'Raw' });
    await raw.click();
    await expect.poll(() => shownText(page.getByRole('tabpanel').first())).toMatch(/affordable chair to a customer/);
    expect(await shownText(page.getByRole('tabpanel').first())).not.toMatch(/cheap/);
    expectClean(opened);
  });

  it('why a request was refused: the id, no click', async () => {
    const opened = await dashboard.open();
    const { page } = opened;
    const steps = countSteps(page);
    await steps.press('Control+k');
    await steps.fill(page.getByRole('dialog').getByRole('combobox'), dashboard.facts.shown.budget);
    await page.getByRole('group', { name: 'Requests with this id' }).getByRole('option').waitFor();
    await steps.press('Enter');
    await expect
      .poll(() => shownText(page.locator('main')))
      .toMatch(/The daily budget of '\/team\/finance', 0\.02 USD/);
    expect(steps).toMatchObject({ clicks: 0, keys: 2, texts: 1 });
    expectClean(opened);
  });

  it("which requests yesterday's guardrail changed: 5 clicks and its name", async () => {
    const opened = await dashboard.open();
    const { page } = opened;
    const steps = countSteps(page);
    await steps.click(page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Audit' }));
    await steps.select(page.getByLabel('Time range'), 'Yesterday');
    await steps.click(page.getByRole('button', { name: 'More filters' }));
    const dialog = page.getByRole('dialog', { name: 'More filters' });
    await steps.fill(dialog.getByLabel(/^Guardrail /), 'house-style');
    await steps.click(dialog.getByLabel('Changed by guardrails'));
    await steps.press('Enter');
    await settled(page);
    expect(steps).toMatchObject({ clicks: 5, keys: 1, texts: 1 });

    const changed = await rows(`SELECT id FROM exchanges WHERE guardrails_edited = 1 AND user_path = '/customers/web'
      AND toDate(at) = '${dashboard.facts.yesterday.date}'`);
    expect(changed.length).toBeGreaterThanOrEqual(dashboard.facts.yesterday.changed);
    const ids = changed.map(({ id }) => id).toSorted();
    await expect.poll(async () => (await listedExchanges(page)).toSorted()).toEqual(ids);
    expectClean(opened);
  });

  it('the conversation of a user of Tuesday: 3 clicks and the user path', async () => {
    const opened = await dashboard.open();
    const { page } = opened;
    const { userPath } = dashboard.facts.tuesday;
    const steps = countSteps(page);
    await steps.click(page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Sessions' }));
    await steps.fill(page.getByRole('searchbox'), userPath);
    await steps.press('Enter');
    const date = new Date(dashboard.facts.tuesday.date);
    const tuesday = date.toLocaleDateString('en-GB', { month: 'short', day: 'numeric', timeZone: 'UTC' });
    await steps.click(
      page
        .getByRole('row')
        .filter({ hasText: `${tuesday}, ` })
        .getByRole('link'),
    );
    await steps.click(page.getByRole('link', { name: 'Read the conversation' }));
    await settled(page);
    const conversation = page.getByRole('tabpanel');
    await expect.poll(() => shownText(conversation)).toMatch(/Harbour Street 12, third floor/);
    expect(await shownText(conversation)).toMatch(/My order 20418 arrived without the power supply/);
    expect(steps).toMatchObject({ clicks: 3, keys: 1, texts: 1 });
    expectClean(opened);
  });
});
