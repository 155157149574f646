/** A task of operators from the Overview to its result, with the number of clicks, which docs/dashboard.md states. */
import { afterAll, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { ask } from '../e2e/gateway-process.ts';
import { exchangeOf, json } from '../support/with-gateway.ts';
import { expectClean, settled, shownText } from './support/dashboard.ts';
import { countSteps } from './support/steps.ts';
import { until } from './support/until.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

describeInChromium('a question about models', () => {
  const first = createSimulatedProvider({ models: ['first-model'] });
  const second = createSimulatedProvider({ models: ['second-model'] });
  afterAll(() => Promise.all([first.close(), second.close()]));
  const dashboard = withDashboard(async () => ({
    data: 'empty',
    env: { LLAMACPP_BASE_URL: await first.listen(), ALLOW_PRIVATE_PROVIDERS: 'true' },
  }));

  it('add a provider and fail over to it: 10 clicks and 5 texts', async () => {
    const opened = await dashboard.open();
    const { page } = opened;
    const steps = countSteps(page);
    const dialog = page.getByRole('dialog');
    await steps.click(page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: /Models/ }));
    await steps.click(page.getByRole('tab', { name: 'Providers' }));
    await steps.click(page.getByRole('button', { name: 'Add a provider' }));
    await steps.select(dialog.getByLabel('Type'), 'vllm');
    await steps.fill(dialog.getByLabel(/^Base URL/), await second.listen());
    await steps.click(dialog.getByRole('button', { name: 'Add the provider' }));
    await dialog.waitFor({ state: 'detached' });
    await steps.click(page.getByRole('tab', { name: 'Virtual models' }));
    await steps.click(page.getByRole('button', { name: 'New virtual model' }));
    await steps.fill(dialog.getByLabel('Name'), 'steady');
    await steps.fill(dialog.getByRole('combobox', { name: 'Target 1' }), 'llamacpp/first-model');
    await steps.click(dialog.getByRole('button', { name: 'Add a target' }));
    await steps.fill(dialog.getByRole('combobox', { name: 'Target 2' }), 'vllm/second-model');
    await steps.click(dialog.getByRole('button', { name: 'Create the virtual model' }));
    await dialog.waitFor({ state: 'detached' });
    await expect.poll(() => shownText(page.getByRole('table', { name: 'Virtual models' }))).toContain('steady');

    const send = () =>
      ask(dashboard.url, '/v1/chat/completions', {
        json: { model: 'steady', messages: [{ role: 'user', content: 'Hi' }] },
      });
    const before = await send();
    expect([before.status, (await json(before)).model]).toEqual([200, 'first-model']);
    await first.close();
    const after = await send();
    expect([after.status, (await json(after)).model]).toEqual([200, 'second-model']);

    const id = exchangeOf(after);
    // The search finds a request once analytics has it.
    await until('analytics has the request', async () => {
      const { entries } = await json(await ask(dashboard.url, `/admin/audit/log?id=${id}`));
      return entries.length > 0;
    });
    await steps.press('Control+k');
    await steps.fill(dialog.getByRole('combobox'), id);
    await page.getByRole('group', { name: 'Requests with this id' }).getByRole('option').waitFor();
    await steps.press('Enter');
    await settled(page);
    const attempts = page
      .getByRole('group', { name: 'Timeline' })
      .locator('tbody tr')
      .filter({ hasText: /^Attempt \d/ });
    await expect.poll(() => attempts.count()).toBe(2);
    const texts = await Promise.all((await attempts.all()).map(shownText));
    expect(texts[0]).toContain('llamacpp/first-model');
    expect(texts[1]).toContain('vllm/second-model');
    expect(steps).toMatchObject({ clicks: 10, keys: 2, texts: 5 });
    expectClean(opened);
  });
});
