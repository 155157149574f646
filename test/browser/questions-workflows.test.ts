/** A question about a draft, from the Overview to its answer, with the number of clicks of docs/dashboard.md. */
import { expect, it } from 'vitest';
import { ask } from '../e2e/gateway-process.ts';
import type { Answered } from '../support/answered.ts';
import { expectClean, settled, shownText } from './support/dashboard.ts';
import { countSteps } from './support/steps.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

const RUN_MS = 60_000;

describeInChromium('a question about a draft', () => {
  const dashboard = withDashboard({ data: 'shared changes' });

  it('what a draft guardrail would have done last week: 7 clicks and its rules', { timeout: 120_000 }, async () => {
    const opened = await dashboard.open();
    const { page } = opened;
    const steps = countSteps(page);
    const pages = page.getByRole('navigation', { name: 'Pages' });
    await steps.click(pages.getByRole('link', { name: 'Workflows and guardrails' }));
    await steps.click(page.getByRole('tab', { name: 'Draft replay' }));
    await settled(page);
    await steps.select(page.getByLabel('Draft guardrail'), 'type:string_replace');
    await steps.fill(page.getByLabel(/^Rules/), 'invoices => bills');
    await steps.select(page.getByLabel('Time range'), 'Last week');
    await steps.click(page.getByRole('button', { name: 'Run the draft' }));
    const report = page.getByRole('tabpanel');
    await page
      .getByRole('heading', { name: 'What the draft would have done', exact: true })
      .waitFor({ timeout: RUN_MS });
    expect(steps).toMatchObject({ clicks: 7, keys: 0, texts: 1 });

    const id = new URL(page.url()).searchParams.get('run');
    const answer = await ask(dashboard.url, `/admin/guardrails/replay/${id}`);
    const { result }: Answered = await answer.json();
    expect(result.verdicts.changed).toBeGreaterThan(0);
    expect(result.verdicts.passed).toBeGreaterThan(0);
    const counts = await page.getByRole('table', { name: 'Requests by verdict' }).getByRole('row').allInnerTexts();
    const shown = counts.find((row) => row.startsWith('changed'));
    expect(shown).toContain(result.verdicts.changed.toLocaleString('en-GB'));
    expect(await shownText(report)).toMatch(/Differences to what happened/);
    const example = result.examples.find(({ verdict }: Answered) => verdict === 'changed');
    await page.locator(`main a[href*="/exchange/${example.exchange_id}"]`).first().click();
    await page.getByRole('heading', { level: 1 }).waitFor();
    await settled(page);
    expect(new URL(page.url()).pathname).toContain(example.exchange_id);
    expectClean(opened);
  });
});
