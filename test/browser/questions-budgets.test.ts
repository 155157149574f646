/** A question about the past of budgets, from the Overview to its answer, with the number of clicks (docs/dashboard.md). */
import { expect, it } from 'vitest';
import { ask } from '../e2e/gateway-process.ts';
import type { Answered } from '../support/answered.ts';
import { expectClean, settled, shownText } from './support/dashboard.ts';
import { countSteps } from './support/steps.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

describeInChromium('how the budgets looked on an earlier day', () => {
  const dashboard = withDashboard({ data: 'shared changes' });

  it('shows the limits of that time and the spending up to it: 2 clicks and the time', async () => {
    // The limit of today is another one.
    const changed = await ask(dashboard.url, '/admin/budgets/%2Fteam%2Fresearch/monthly', {
      ...{ method: 'PUT', json: { amount: 999 } },
    });
    expect(changed.status).toBe(200);
    const opened = await dashboard.open();
    const { page } = opened;
    const day = dashboard.facts.tuesday.date;
    const steps = countSteps(page);
    await steps.click(
      page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Budgets and limits' }),
    );
    await steps.click(page.getByRole('button', { name: 'Show a past time' }));
    await steps.fill(page.getByLabel('Time', { exact: true }), `${day}T18:00:00`);
    await steps.press('Enter');
    await settled(page);
    const row = page.getByRole('row').filter({ hasText: '/team/research' });
    await expect.poll(() => shownText(row)).toContain('$400.00');
    expect(steps).toMatchObject({ clicks: 2, keys: 1, texts: 1 });

    const begin = `${day.slice(0, 7)}-01T00:00:00Z`;
    const query = `SELECT sum(total_cost) / 1e9 AS dollars FROM usage
      WHERE (user_path = '/team/research' OR startsWith(user_path, '/team/research/'))
      AND at >= parseDateTime64BestEffort('${begin}') AND at < parseDateTime64BestEffort('${day}T18:00:00Z')`;
    const answer = await ask(dashboard.url, '/admin/sql', { json: { query, format: 'JSON' } });
    const [{ dollars }]: Answered[] = JSON.parse(await answer.text()).data;
    expect(Number(dollars)).toBeGreaterThan(0);
    await expect.poll(() => shownText(row)).toContain(`$${Number(dollars).toFixed(2)}`);
    expect(await shownText(row)).not.toContain('999');

    expect(await page.getByRole('tabpanel').getByRole('button').count()).toBe(0);
    await page.getByRole('tab', { name: 'Rate limits' }).click();
    await settled(page);
    expect(await shownText(page.getByRole('tabpanel'))).toMatch(/counts are not recorded/);
    await page.getByRole('button', { name: 'Show the present' }).click();
    await page.getByRole('button', { name: 'Create a rate limit' }).waitFor();
    expectClean(opened);
  });
});
