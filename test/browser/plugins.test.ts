/** The page Plugins with the seeded history, a plugin that works and one that cannot be loaded. */
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { ask, root } from '../e2e/gateway-process.ts';
import type { Answered } from '../support/answered.ts';
import { expectClean, shownText } from './support/dashboard.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

describeInChromium('the page Plugins', () => {
  const load = [{ path: join(root, 'infra/plugins/project-names.ts') }, { path: '/nowhere/missing.ts' }];
  const dashboard = withDashboard({ env: { GUARDRAILS_ENABLED: 'true', PLUGINS: JSON.stringify(load) } });

  it('lists every type with its hooks, settings, state and use', async () => {
    const answer = await ask(dashboard.url, '/admin/plugins');
    const plugins: Answered[] = JSON.parse(await answer.text());
    const opened = await dashboard.open('/plugins');
    const { page } = opened;
    const names = await page.locator('.plugin-name').allInnerTexts();
    for (const { name, label } of plugins) expect(names.some((text) => text.includes(label || name))).toBe(true);
    const failed = plugins.find(({ health }) => health === 'failed');
    expect(failed?.error).toBeTruthy();

    const summary = page.locator('summary').filter({ hasText: failed?.name });
    await summary.click();
    await expect.poll(() => shownText(page.locator('details[open]'))).toContain('Last failure.');
    await expect.poll(() => new URL(page.url()).searchParams.get('plugin')).toBe(failed?.name);

    await opened.visit('/plugins?plugin=string_replace');
    const open = () => shownText(page.locator('details[open]'));
    await expect.poll(open).toMatch(/Guardrails: .*house-style/);
    await expect.poll(open).toMatch(/Workflows: .*website/);
    await expect.poll(open).toContain('rules');
    expectClean(opened);
  });
});

describeInChromium('the page Plugins without plugins', () => {
  const dashboard = withDashboard({ data: 'shared empty' });

  it('names the settings that switch them on', async () => {
    const opened = await dashboard.open('/plugins');
    expect(await shownText(opened.page.locator('main'))).toContain('PLUGINS_ENABLED=true');
    expectClean(opened);
  });
});
