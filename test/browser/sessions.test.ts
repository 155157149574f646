/** The Sessions page with the seeded history. */
import type { Page } from 'playwright-core';
import { expect, it } from 'vitest';
import { ask } from '../e2e/gateway-process.ts';
import type { Answered } from '../support/answered.ts';
import { accessibilityViolations } from './support/accessibility.ts';
import { expectClean, overflowOf, settled } from './support/dashboard.ts';
import { countSteps } from './support/steps.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

describeInChromium('the Sessions page', () => {
  const dashboard = withDashboard({ data: 'shared' });

  async function read(path: string, json?: object): Promise<Answered> {
    const answer = await ask(dashboard.url, path, json === undefined ? {} : { json });
    return JSON.parse(await answer.text());
  }

  const requests = (page: Page) => page.getByRole('list', { name: 'Requests, oldest first' }).getByRole('listitem');
  const idsOf = async (page: Page): Promise<string[]> =>
    (await requests(page).locator('a').evaluateAll(hrefs)).map((href) => href.split('/').at(-1) ?? '');

  it('lists sessions with their requests, and requests without a session on demand', async () => {
    const opened = await dashboard.open('/sessions?range=30d');
    const { page } = opened;
    const { sessions } = await read('/admin/audit/sessions?days=30&has_session=true&limit=5');
    const rows = page.getByRole('table', { name: 'Sessions' }).locator('tbody tr[aria-rowindex]');
    for (const [place, { latest, request_count }] of sessions.entries()) {
      const cells = await rows.nth(place).getByRole('cell').allTextContents();
      expect([cells[0], cells[1], cells[2]]).toEqual([latest.session_id, latest.user_path, String(request_count)]);
    }
    await page.getByRole('checkbox', { name: 'Also requests without a session' }).check();
    await settled(page);
    await page.getByRole('link', { name: 'without a session' }).first().waitFor();
    expect(new URL(page.url()).searchParams.get('single')).toBe('true');
    expectClean(opened);
  });

  it("shows this user's conversation of Tuesday in few steps", async () => {
    const opened = await dashboard.open('/settings');
    const { page } = opened;
    const { tuesday, shown } = dashboard.facts;
    const steps = countSteps(page);
    await steps.press('g');
    await steps.press('s');
    await page.getByRole('heading', { level: 1, name: 'Sessions' }).waitFor();
    await steps.fill(page.getByRole('searchbox', { name: 'Search' }), tuesday.session);
    await steps.press('Enter');
    await settled(page);
    const hint = page.getByRole('link', { name: 'Show its requests at any time' });
    if (new URL(page.url()).searchParams.get('id') === null) await steps.click(hint);
    await steps.click(page.getByRole('table', { name: 'Sessions' }).locator('tbody a').first());
    await page.getByRole('heading', { level: 1, name: 'Session' }).waitFor();
    await settled(page);
    expect(await idsOf(page)).toContain(shown.tuesday);
    expect(steps.clicks).toBeLessThanOrEqual(2);
    expectClean(opened);
  });

  it('shows the requests of a session as a graph and as a list, with their relations as text', async () => {
    const id = dashboard.facts.shown.tuesday;
    const chain = await read(`/admin/audit/chain?log_id=${id}`);
    const opened = await dashboard.open(`/sessions/${id}`);
    const { page } = opened;
    expect(await idsOf(page)).toEqual(chain.nodes.map((node: Answered) => node.id));
    expect(await page.locator('.chain path').count()).toBe(chain.edges.length);
    const related = chain.nodes.map(
      (node: Answered) => chain.edges.filter(({ to }: Answered) => to === node.id).length,
    );
    for (const [place, count] of related.entries()) {
      const text = (await requests(page).nth(place).textContent()) ?? '';
      expect(text.match(/follows in|continues the|got the recorded/g)?.length ?? 0).toBe(count);
    }
    const graph = await idsOf(page);
    await page.getByRole('tab', { name: 'List' }).click();
    const links = await page.getByRole('table', { name: 'Requests of the session' }).locator('a').evaluateAll(hrefs);
    expect(links.map((href) => href.split('/').at(-1))).toEqual(graph);
    await page.reload();
    await settled(page);
    await page.getByRole('table', { name: 'Requests of the session' }).waitFor();
    expectClean(opened);
  });

  it('shows responses that continue others', async () => {
    const query = "SELECT id FROM exchanges WHERE history_items > 2 AND startsWith(endpoint, '/v1/responses') LIMIT 1";
    const { data } = await read('/admin/sql', { query, format: 'JSON' });
    const opened = await dashboard.open(`/sessions/${data[0].id}`);
    const { page } = opened;
    const details = await requests(page).locator('.chain-details').allTextContents();
    expect(details.length).toBeGreaterThan(1);
    expect(details.some((text) => /continues the response of \d+|follows in the conversation on \d+/.test(text))).toBe(
      true,
    );
    expect(await accessibilityViolations(page)).toEqual([]);
    expectClean(opened);
  });

  it('moves between requests with j and k, and opens one with Enter', async () => {
    const opened = await dashboard.open(`/sessions?exchange=${dashboard.facts.shown.tuesday}`);
    const { page } = opened;
    const ids = await idsOf(page);
    for (const key of ['j', 'j', 'k', 'Enter']) await page.keyboard.press(key);
    await page.waitForURL((url) => url.pathname.endsWith(`/exchange/${ids[0]}`));
    await settled(page);
  });

  it('says that a request is unknown, also to an administrator of another subtree', async () => {
    const opened = await dashboard.open(`/sessions/${dashboard.facts.shown.tuesday}`, {
      key: dashboard.facts.keys.lead.value,
    });
    const { page } = opened;
    await page.getByRole('alert').filter({ hasText: 'Not found.' }).waitFor();
    opened.expectFindings(({ text }) => text.includes('404'));
    expectClean(opened);
  });

  it('fits a narrow window, without a violation of WCAG 2.2 AA', async () => {
    for (const path of [`/sessions/${dashboard.facts.shown.tuesday}`, '/sessions?range=30d']) {
      const opened = await dashboard.open(path, { context: { viewport: { width: 360, height: 740 } } });
      const { page } = opened;
      expect(await overflowOf(page)).toBeLessThanOrEqual(0);
      expect(await accessibilityViolations(page)).toEqual([]);
      expectClean(opened);
    }
  });
});

/** Run in the page. */
function hrefs(links: readonly { getAttribute(name: string): string | null }[]): string[] {
  return links.map((link) => link.getAttribute('href') ?? '');
}
