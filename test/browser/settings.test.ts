/** The page Settings and About, on a gateway with an empty log. */
import { expect, it } from 'vitest';
import { ask } from '../e2e/gateway-process.ts';
import type { Answered } from '../support/answered.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

describeInChromium('the page Settings and About', () => {
  const dashboard = withDashboard({ data: 'empty', env: { ANALYTICS_ENABLED: 'false' } });
  const read = async (path: string): Promise<Answered> => JSON.parse(await (await ask(dashboard.url, path)).text());
  const show = async (query = '') => {
    const { page } = await dashboard.open(`/settings${query}`);
    return page;
  };

  it('shows each switch with its value and effect, and the result of a refresh', async () => {
    const page = await show();
    const config = await read('/admin/runtime/config');
    const rows = page.getByRole('region', { name: 'Switches of the gateway' }).locator('tbody tr');
    await expect.poll(() => rows.count(), { timeout: 12_000 }).toBe(Object.keys(config).length);
    const budgets = rows.filter({ hasText: 'BUDGETS_ENABLED' });
    expect(await budgets.textContent()).toContain(config['BUDGETS_ENABLED']);
    for (const row of await rows.all()) expect((await row.getByRole('cell').last().textContent()) ?? '').toMatch(/\w/);
    await page.getByRole('button', { name: 'Refresh now' }).click();
    await page.getByRole('cell', { name: 'model_list' }).waitFor();
  });

  it('saves headers that become labels, and shows both versions after another change', async () => {
    const page = await show('?tab=labels');
    const edit = async (header: string) => {
      await page.getByRole('button', { name: 'Change…' }).click();
      await page.getByRole('textbox', { name: 'Header', exact: true }).last().fill(header);
    };
    const headers = async () =>
      (await read('/admin/tagging/settings')).headers.map(({ header }: { header: string }) => header);
    await edit('X-Team');
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByRole('cell', { name: 'x-team' }).waitFor();
    expect(await headers()).toEqual(['x-team']);

    await edit('X-Mine');
    const put = { method: 'PUT', json: { headers: [{ header: 'x-other' }] } };
    expect((await ask(dashboard.url, '/admin/tagging/settings', put)).status).toBe(200);
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByRole('button', { name: 'Keep the current version' }).waitFor();
    expect(await headers()).toEqual(['x-other']);
    await page.getByRole('button', { name: 'Save mine over it' }).click();
    await page.getByRole('cell', { name: 'x-mine' }).waitFor();
    expect(await headers()).toEqual(['x-mine']);
  });

  it('shows the versions', async () => {
    const page = await show('?tab=about');
    const { gateway, node } = await read('/admin/runtime/versions');
    await page.getByText(`Chancery ${gateway}`).waitFor();
    await page.getByText(node, { exact: true }).waitFor();
    await page.getByRole('link', { name: 'openapi.json' }).waitFor();
  });
});
