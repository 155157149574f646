/** Every dialog that a button of an administration page opens: accessible, light and dark, and closed by Escape. */
import type { Page } from 'playwright-core';
import { beforeAll, expect, it } from 'vitest';
import { isLong, someOf } from '../support/seed.ts';
import { accessibilityViolations } from './support/accessibility.ts';
import { adminChanges } from './support/admin-changes.ts';
import { expectClean, settled, shownText } from './support/dashboard.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

const model = 'demo/simulated-small';

describeInChromium('the dialogs', () => {
  const dashboard = withDashboard({ data: 'shared changes' });
  const admin = adminChanges(dashboard);

  /** Names of buttons, one for each kind: `Edit the daily budget of /a` and `… of /b` are one kind. */
  async function kinds(page: Page): Promise<string[]> {
    const names = await page
      .locator('main')
      .getByRole('button')
      .evaluateAll((buttons) =>
        buttons
          .filter((button) => !button.matches(':disabled') && button.checkVisibility())
          .map((button) => button.getAttribute('aria-label') ?? button.textContent?.trim() ?? ''),
      );
    const byKind = new Map(names.map((name) => [name.replace(/^Rebuild .*/, 'Rebuild').split(/ of | “|: /)[0], name]));
    return [...byKind.values()].filter((name) => name !== '');
  }

  const keys = { active: '', ended: '' };
  beforeAll(async () => {
    keys.active = (await admin.newKey({ name: 'With dialogs', user_path: '/dialogs' })).id;
    keys.ended = (await admin.newKey({ name: 'Ended' })).id;
    await admin.change('POST', `/admin/auth-keys/${keys.ended}/deactivate`);
    await admin.change('PUT', '/admin/users', { user_path: '/dialogs', allowed_models: [model] });
    await admin.change('PUT', '/admin/budgets', { user_path: '/dialogs', budget_key: { period: 'daily' }, amount: 5 });
    await admin.change('PUT', '/admin/rate-limits', {
      ...{ user_path: '/dialogs', limit_key: { period: 'minute' }, max_requests: 5 },
    });
    await admin.change('PUT', '/admin/virtual-models', { source: 'with-dialogs', target_model: model });
    await admin.change('PUT', '/admin/model-pricing-overrides', { selector: model, pricing: { input_per_mtok: 1 } });
    await admin.change('PUT', '/admin/mcp-servers', {
      ...{ name: 'with-dialogs', url: 'https://mcp.example.com', enabled: false },
    });
    await admin.change('PUT', '/admin/guardrails', {
      ...{ name: 'with-dialogs', type: 'string_replace' },
      config: { rules: 'a => b' },
    });
  });

  const titles = new Set<string>();
  const addresses = [
    ...['/keys', '/keys?path=/dialogs', '/keys?tab=keys', '/keys/active', '/keys/ended'],
    ...['/budgets', '/budgets?tab=limits', '/budgets?tab=settings'],
    ...['/models?tab=virtual', '/models?tab=prices', '/models?tab=providers'],
    ...['/workflows', '/workflows?tab=guardrails', '/workflows?tab=guardrails&guardrail=with-dialogs'],
    ...['/mcp', '/mcp/with-dialogs'],
    ...['/cache', '/log?tab=projections', '/settings?tab=labels'],
  ];

  it.each(someOf(addresses, undefined, 5))(
    'of %s are accessible and close with Escape',
    { timeout: 120_000 },
    async (named) => {
      const address = named.replace('/active', `/${keys.active}`).replace('/ended', `/${keys.ended}`);
      const opened = await dashboard.open(address);
      const { page } = opened;
      const problems: unknown[] = [];
      let dialogs = 0;
      for (const name of await kinds(page)) {
        const button = page.locator('main').getByRole('button', { name, exact: true }).first();
        if ((await button.count()) === 0) continue;
        await button.click();
        const dialog = page.getByRole('dialog');
        if ((await dialog.count()) === 0) {
          await opened.visit(address);
          continue;
        }
        dialogs += 1;
        await settled(page);
        const title = await shownText(dialog.getByRole('heading').first());
        if (!titles.has(title)) {
          titles.add(title);
          problems.push(...(await accessibilityViolations(page)).map((found) => ({ title, found })));
        }
        await page.keyboard.press('Escape');
        await dialog.waitFor({ state: 'detached', timeout: 3000 }).catch(() => problems.push(`${title}: Escape`));
      }
      expect(problems).toEqual([]);
      expect(dialogs).toBeGreaterThan(0);
      expectClean(opened);
    },
  );

  if (isLong)
    it('are many', () => {
      expect(titles.size).toBeGreaterThan(35);
    });
});
