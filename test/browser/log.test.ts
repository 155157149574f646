/** The page Log and gateways, on a gateway with an empty log. */
import type { Route } from 'playwright-core';
import { expect, it, onTestFinished } from 'vitest';
import { ask } from '../e2e/gateway-process.ts';
import type { Answered } from '../support/answered.ts';
import { expectClean, openDashboard } from './support/dashboard.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

/** How often the page reads its figures again. */
const REFRESH_MS = 5_000;

describeInChromium('the page Log and gateways', () => {
  const dashboard = withDashboard({ data: 'empty', env: { ANALYTICS_ENABLED: 'false' } });
  const read = async (path: string): Promise<Answered> => JSON.parse(await (await ask(dashboard.url, path)).text());
  const show = (query = '') => dashboard.open(`/log${query}`);
  /** Its timers follow `page.clock`, which stays with the context. */
  const showWithClock = async (query = '') => {
    const opened = await openDashboard(dashboard.browser, dashboard.url, '/settings');
    onTestFinished(opened.close);
    await opened.page.clock.install();
    await opened.visit(`/log${query}`);
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

  const failures: Readonly<Record<string, { fail: (route: Route) => Promise<unknown>; says: string }>> = {
    'is refused': {
      fail: (route) => route.fulfill({ status: 403, json: { error: { message: 'No more.', code: 'forbidden' } } }),
      says: 'Not allowed.',
    },
    'fails in the gateway': {
      fail: (route) =>
        route.fulfill({ status: 500, json: { error: { message: 'It failed.', code: 'internal_error' } } }),
      says: 'The gateway could not answer.',
    },
    'has no answer': { fail: (route) => route.abort('connectionrefused'), says: 'The gateway does not answer.' },
  };
  it.each(Object.keys(failures))('marks the figures before as old, with their time, when a refresh %s', async (how) => {
    const { fail, says } = failures[how] ?? expect.fail(how);
    const opened = await showWithClock();
    const { page } = opened;
    const writing = page.locator('[data-old]').getByText('possible');
    await writing.waitFor();
    const old = page.getByRole('status').filter({ hasText: /Not the present state\. As of .+, \d+ s ago\./ });
    expect(await old.count()).toBe(0);
    await page.route('**/admin/log', fail);
    await page.clock.fastForward(REFRESH_MS);
    await old.waitFor();
    expect(await page.getByRole('alert').textContent()).toContain(says);
    expect(await page.locator('[data-old=true]').getByText('possible').count()).toBe(1);
    const at = await old.locator('time').getAttribute('datetime');
    expect(Math.abs(Date.now() - Date.parse(at ?? ''))).toBeLessThan(60_000);
    // Still so after the next refresh, with the same time.
    const refreshed = page.waitForRequest('**/admin/log');
    await page.clock.fastForward(REFRESH_MS);
    await refreshed;
    await expect.poll(() => page.locator('[data-old=true]').count()).toBe(1);
    expect(await old.locator('time').getAttribute('datetime')).toBe(at);
    expect(await page.getByRole('alert').count()).toBe(1);
    await page.unroute('**/admin/log');
    await page.clock.fastForward(REFRESH_MS);
    await page.locator('[data-old=false]').waitFor();
    expect(await page.getByRole('alert').count()).toBe(0);
    expect(await old.count()).toBe(0);
    opened.expectFindings(({ kind, text }) => kind === 'console' && /Failed to load/.test(text));
    expectClean(opened);
  });

  it('marks the figures as old when the answer to a refresh does not arrive', async () => {
    const opened = await showWithClock('?tab=gateways');
    const { page } = opened;
    await page.locator('[data-old=false]').getByText('serving').waitFor();
    await page.route('**/admin/gateways', () => {});
    await page.clock.fastForward(4 * REFRESH_MS);
    await page.locator('[data-old=true]').getByText('serving').waitFor();
    await page
      .getByRole('status')
      .filter({ hasText: /As of .+, \d+ s ago/ })
      .waitFor();
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
