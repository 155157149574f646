/** The page Log and gateways, on a gateway with an empty log. */
import { expect, it } from 'vitest';
import { ask } from '../e2e/gateway-process.ts';
import type { Answered } from '../support/answered.ts';
import { expectClean, settled } from './support/dashboard.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

describeInChromium('the page Log and gateways', () => {
  const dashboard = withDashboard({ data: 'empty' });
  const read = async (path: string): Promise<Answered> => JSON.parse(await (await ask(dashboard.url, path)).text());
  const show = async (query = '') => {
    const opened = await dashboard.open();
    await opened.page.goto(`${dashboard.url}/admin/dashboard/log${query}`);
    await settled(opened.page);
    return opened;
  };

  it('shows the end of the log, the durability and the segments', async () => {
    const opened = await show();
    const { page } = opened;
    const { head } = await read('/admin/log');
    const shown = page.getByRole('definition').filter({ hasText: /^\d{16}$/ });
    await expect.poll(() => shown.textContent(), { timeout: 12_000 }).toSatisfy((text: string) => text >= head);
    await page.getByText('LOG_DURABILITY=standard').waitFor();
    await page.getByRole('cell', { name: 'being written' }).waitFor();
    await expectClean(opened);
  });

  it('finds a stream by its name, and keeps it in the address', async () => {
    const created = await ask(dashboard.url, '/admin/auth-keys', { json: { name: 'looked up' } });
    const { id } = JSON.parse(await created.text());
    const opened = await show('?tab=streams');
    const { page } = opened;
    await page.getByRole('searchbox', { name: 'Name of the stream' }).fill(`key-${id}`);
    await page.getByRole('button', { name: 'Show', exact: true }).click();
    await page.getByRole('cell', { name: 'key.created' }).waitFor();
    await page.reload();
    await page.getByRole('cell', { name: 'key.created' }).waitFor();
    expect(new URL(page.url()).searchParams.get('stream')).toBe(`key-${id}`);
    await expectClean(opened);
  });

  it('rebuilds a projection only after the confirmation, which names the effect', async () => {
    const opened = await show('?tab=projections');
    const { page } = opened;
    const users = page.getByRole('listitem').filter({ has: page.getByRole('heading', { name: 'users', exact: true }) });
    await users.getByText(/live$/).waitFor();
    await users.getByRole('button', { name: 'Rebuild users' }).click();
    const dialog = page.getByRole('dialog', { name: 'Rebuild users?' });
    await dialog.getByText('At its next start each gateway discards its snapshot of users').waitFor();
    const requested = async () =>
      (await read('/admin/views')).views.find(({ name }: Answered) => name === 'users').rebuild_requested;
    expect(await requested()).toBe(null);
    await dialog.getByRole('textbox', { name: 'Reason (optional)' }).fill('a test');
    await dialog.getByRole('button', { name: 'Rebuild at the next start' }).click();
    await users.getByText('Will be built from the log at the next start').waitFor();
    expect(await requested()).toMatchObject({ by: 'master' });
    await expectClean(opened);
  });

  it('shows the gateways on the log', async () => {
    const opened = await show('?tab=gateways');
    const { gateways } = await read('/admin/gateways');
    const panel = opened.page.getByRole('region', { name: `Gateway ${gateways[0].id}` });
    await panel.getByText('serving').waitFor();
    await panel.getByText(`pid ${gateways[0].pid}`).waitFor();
    await expectClean(opened);
  });
});
