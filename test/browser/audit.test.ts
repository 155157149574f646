/** The Audit page with the seeded history. */
import { readFileSync } from 'node:fs';
import type { Page } from 'playwright-core';
import { describe, expect, it } from 'vitest';
import { ask } from '../e2e/gateway-process.ts';
import type { Answered } from '../support/answered.ts';
import { accessibilityViolations } from './support/accessibility.ts';
import { expectClean, overflowOf, settled } from './support/dashboard.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

describeInChromium('the Audit page', () => {
  const dashboard = withDashboard({ data: 'shared' });

  const table = (page: Page) => page.getByRole('table', { name: 'Requests' });
  const rows = (page: Page) => table(page).locator('tbody tr[aria-rowindex]');
  const total = (page: Page) => page.getByRole('region', { name: 'Requests over time' }).getByRole('status');
  const facet = (page: Page, title: string) => page.locator('details.facet').filter({ hasText: title }).first();
  const choose = async (page: Page, title: string, value: string) => {
    await facet(page, title).getByRole('checkbox', { name: value }).click();
    await settled(page);
  };
  const queryOf = (page: Page) => new URL(page.url()).searchParams;

  async function counted(query: string): Promise<number> {
    const body = { query: `SELECT sum(requests) AS n FROM exchanges WHERE ${query}`, format: 'JSON' };
    const answer = await ask(dashboard.url, '/admin/sql', { json: body });
    return Number(JSON.parse(await answer.text()).data[0].n);
  }

  const asText = (count: number) =>
    count === 1 ? '1 request' : `${new Intl.NumberFormat('en-GB').format(count)} requests`;

  it('narrows the requests by a value beside the table, and the address has the filter', async () => {
    const opened = await dashboard.open('/audit?range=30d');
    const { page } = opened;
    await choose(page, 'Outcome', 'refused');
    await choose(page, 'Error code', 'budget_exceeded');
    expect(queryOf(page).getAll('outcome')).toEqual(['refused']);
    const wanted = asText(await counted("outcome = 'refused' AND error_code = 'budget_exceeded'"));
    await expect.poll(() => total(page).textContent()).toBe(wanted);
    // Other choices of the same field are still offered, with what they would find.
    await facet(page, 'Error code').getByRole('checkbox', { name: 'model_access_denied' }).waitFor();
    await page.reload();
    await settled(page);
    await expect.poll(() => total(page).textContent()).toBe(wanted);
    await page.getByRole('button', { name: /Remove the filter Outcome/ }).click();
    await page.getByRole('button', { name: 'Remove all' }).click();
    await settled(page);
    expect([...queryOf(page).keys()]).toEqual(['range']);
    expectClean(opened);
  });

  it('counts the values of a group when it is opened, and keeps it open', async () => {
    const opened = await dashboard.open('/audit?range=30d');
    const { page } = opened;
    await facet(page, 'Cache').getByText('Cache').click();
    await settled(page);
    await facet(page, 'Outcome').getByText('Outcome').click();
    await choose(page, 'Cache', 'exact');
    await expect.poll(() => total(page).textContent()).toBe(asText(await counted("cache_type = 'exact'")));
    await page.reload();
    await settled(page);
    expect(await facet(page, 'Cache').getByRole('checkbox', { name: 'exact' }).isChecked()).toBe(true);
    expect(await facet(page, 'Outcome').getByRole('checkbox').count()).toBe(0);
    expectClean(opened);
  });

  it('loads further rows when the end comes into view, without holding all of them in the document', async () => {
    const opened = await dashboard.open('/audit?range=30d');
    const { page } = opened;
    const region = page.getByRole('group', { name: 'Requests', exact: true });
    const seen = new Set<string>();
    for (let page_ = 0; page_ < 4; page_++) {
      for (const href of await rows(page).locator('a').evaluateAll(hrefs)) seen.add(href);
      const before = Number(await rows(page).last().getAttribute('aria-rowindex'));
      await region.evaluate(scrollToEnd);
      await expect
        .poll(async () => Number(await rows(page).last().getAttribute('aria-rowindex')))
        .toBeGreaterThan(before);
    }
    expect(await rows(page).count()).toBeLessThan(80);
    expect(seen.size).toBeGreaterThan(50);
    expect(Number(await table(page).getAttribute('aria-rowcount'))).toBe((await counted('true')) + 1);
    expectClean(opened);
  });

  it.each(['exchange', 'request', 'response', 'session', 'key'] as const)(
    'finds requests outside the range by the id of their %s',
    async (kind) => {
      const column = { exchange: 'id', request: 'request_id', response: 'response_id', session: 'session_id' };
      const opened = await dashboard.open('/audit?range=1h');
      const { page } = opened;
      const id = kind === 'key' ? dashboard.facts.keys.finance.id : await oldest(column[kind]);
      await page.keyboard.press('/');
      await page.keyboard.type(id);
      await page.keyboard.press('Enter');
      const hint = page.getByRole('link', { name: 'Show its requests at any time' });
      if (kind !== 'exchange' && kind !== 'key' && !/^(resp_|[0-9a-f]{8}-)/.test(id)) await hint.click();
      await settled(page);
      await rows(page).first().waitFor();
      expect(queryOf(page).get('id')).toBe(id);
      const name = kind === 'key' ? 'auth_key_id' : column[kind];
      await expect.poll(() => total(page).textContent()).toBe(asText(await counted(`${name} = '${id}'`)));
      expectClean(opened);
    },
  );

  async function oldest(column: string): Promise<string> {
    const query = `SELECT ${column} AS id FROM exchanges WHERE ${column} != '' ORDER BY at LIMIT 1`;
    const answer = await ask(dashboard.url, '/admin/sql', { json: { query, format: 'JSON' } });
    return JSON.parse(await answer.text()).data[0].id;
  }

  it('says when no request has an id, and offers to search for the text', async () => {
    const opened = await dashboard.open('/audit?id=00000000-0000-7000-8000-000000000000');
    const { page } = opened;
    await page.getByText('No request has this id.').waitFor();
    expect(await page.getByRole('link', { name: 'Search for the text' }).getAttribute('href')).toContain('search=');
    expectClean(opened);
  });

  describe('the chart of the time', () => {
    it('chooses a range by dragging', async () => {
      const opened = await dashboard.open('/audit?range=30d');
      const { page } = opened;
      const before = (await total(page).textContent()) ?? '';
      const box = await page.locator('.brush-chart').boundingBox();
      if (box === null) throw new Error('the chart is not shown');
      const middle = box.y + box.height / 2;
      await page.mouse.move(box.x + box.width * 0.75, middle);
      await page.mouse.down();
      await page.mouse.move(box.x + box.width * 0.8, middle, { steps: 4 });
      await page.mouse.up();
      await settled(page);
      const [from, to] = [queryOf(page).get('from') ?? '', queryOf(page).get('to') ?? ''];
      expect(Date.parse(to) - Date.parse(from)).toBeGreaterThan(24 * 3_600_000);
      const inside = `at >= toDateTime64('${sqlTime(from)}', 3, 'UTC') AND at < toDateTime64('${sqlTime(to)}', 3, 'UTC')`;
      await expect.poll(() => total(page).textContent()).toBe(asText(await counted(inside)));
      expect(await total(page).textContent()).not.toBe(before);
      await page.goBack();
      await expect.poll(() => total(page).textContent()).toBe(before);
      expectClean(opened);
    });

    it('chooses a range with the arrow keys, reads out the numbers, and has them as a table', async () => {
      const opened = await dashboard.open('/audit?range=30d');
      const { page } = opened;
      await page.locator('.brush-chart').focus();
      await page.keyboard.press('ArrowLeft');
      await page.keyboard.press('Shift+ArrowLeft');
      await page.keyboard.press('Shift+ArrowLeft');
      await expect.poll(() => total(page).textContent()).toMatch(/ to .*: .*2xx: \d+/);
      await page.keyboard.press('Enter');
      await settled(page);
      expect(queryOf(page).get('from')).toMatch(/Z$/);
      await page.getByText('As a table').click();
      await page.getByRole('group', { name: 'Requests over time as a table' }).getByRole('row').nth(1).waitFor();
      expectClean(opened);
    });
  });

  it('keeps the chosen columns and saved views in the browser', async () => {
    const opened = await dashboard.open('/audit?range=30d&outcome=failed');
    const { page } = opened;
    await page.getByRole('button', { name: 'Columns' }).click();
    await page.getByRole('checkbox', { name: 'User agent' }).check();
    await page.getByRole('checkbox', { name: 'Tokens' }).uncheck();
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'Views' }).click();
    await page.getByLabel('Save the current filter and time range as').fill('My failures');
    await page.keyboard.press('Enter');
    await page.getByRole('link', { name: 'My failures' }).waitFor();
    await page.keyboard.press('Escape');
    await opened.visit('/audit');
    await table(page).getByRole('columnheader', { name: 'User agent' }).waitFor();
    expect(await table(page).getByRole('columnheader', { name: 'Tokens' }).count()).toBe(0);
    await page.getByRole('button', { name: 'Views' }).click();
    await page.getByRole('link', { name: 'My failures' }).click();
    await settled(page);
    expect(queryOf(page).toString()).toBe('range=30d&outcome=failed');
    await page.getByRole('button', { name: 'Views' }).click();
    await page.getByRole('button', { name: 'Delete the view My failures' }).click();
    expect(await page.getByRole('link', { name: 'My failures' }).count()).toBe(0);
    expectClean(opened);
  });

  it.each(['csv', 'ndjson'])('exports the filter, not the page, as %s', async (format) => {
    const opened = await dashboard.open('/audit?range=30d&outcome=refused');
    const { page } = opened;
    await page.getByRole('button', { name: 'Export' }).click();
    const dialog = page.getByRole('dialog', { name: 'Export' });
    await dialog.getByLabel('Format').selectOption(format);
    const downloaded = page.waitForEvent('download');
    await dialog.getByRole('button', { name: 'Export' }).click();
    const file = readFileSync(await (await downloaded).path(), 'utf8')
      .trimEnd()
      .split('\n');
    const wanted = await counted("outcome = 'refused'");
    expect(file.length - (format === 'csv' ? 1 : 0)).toBe(wanted);
    await dialog
      .getByText(`The file is complete: ${asText(wanted).replace(/^/, `${wanted} of `)}`, { exact: false })
      .waitFor();
    expectClean(opened);
  });

  it('shows SQL that finds the same requests', async () => {
    const opened = await dashboard.open('/audit?range=30d&guardrails_edited=true&user_path=/customers/web');
    const { page } = opened;
    await page.getByRole('button', { name: 'SQL' }).click();
    const sql = await page.getByRole('group', { name: 'SQL query' }).textContent();
    const answer = await ask(dashboard.url, '/admin/sql', { json: { query: sql, format: 'JSON' } });
    const { data }: Answered = JSON.parse(await answer.text());
    await page.keyboard.press('Escape');
    const links = await rows(page).locator('td:first-child a').evaluateAll(hrefs);
    expect(links.length).toBeGreaterThan(5);
    expect(links.map((href) => href.split('/').at(-1))).toEqual(
      data.slice(0, links.length).map(({ id }: Answered) => id),
    );
    expectClean(opened);
  });

  it('moves with j and k, and opens the exchange with Enter', async () => {
    const opened = await dashboard.open('/audit?range=30d');
    const { page } = opened;
    for (const key of ['j', 'j', 'j', 'k']) await page.keyboard.press(key);
    const current = page.locator('tr[aria-current=true]');
    expect(await current.getAttribute('aria-rowindex')).toBe('3');
    const [href = ''] = await current.locator('a').evaluateAll(hrefs);
    await page.keyboard.press('Enter');
    await page.waitForURL((url) => url.pathname === new URL(href, page.url()).pathname);
    await settled(page);
  });

  it('groups requests by session, and leads to the session', async () => {
    const opened = await dashboard.open('/audit?range=30d&has_session=true');
    const { page } = opened;
    await page.getByRole('button', { name: 'Group by session' }).click();
    await settled(page);
    await page.getByRole('table', { name: 'Sessions' }).locator('tbody a').first().click();
    await page.getByRole('heading', { level: 1, name: 'Session' }).waitFor();
    await settled(page);
    expectClean(opened);
  });

  it('shows the error of the gateway in place of the rows', async () => {
    const opened = await dashboard.open('/audit?status_code=abc');
    const { page } = opened;
    await page.getByRole('alert').filter({ hasText: "'status_code'" }).first().waitFor();
    await page.getByRole('button', { name: /Remove the filter Status/ }).click();
    await settled(page);
    await rows(page).first().waitFor();
    const refused = opened.expectFindings(({ text }) => text.includes('400'));
    expect(refused.length).toBeGreaterThan(0);
    expectClean(opened);
  });

  it('shows how long a slow query takes, and stops it', async () => {
    const opened = await dashboard.open('/settings');
    const { page } = opened;
    // Held back on the way, as by a slow query.
    await page.route('**/admin/audit/log?*', () => {});
    await page.getByRole('link', { name: 'Audit' }).click();
    const progress = page.locator('.list-busy');
    await progress.getByText(/Loading \(\d s\)/).waitFor();
    await progress.getByRole('button', { name: 'Cancel' }).click();
    await page.getByText('Loading was stopped.').waitFor();
    await page.unroute('**/admin/audit/log?*');
    await page.getByRole('button', { name: 'Load again' }).click();
    await rows(page).first().waitFor();
    expectClean(opened);
  });

  it('shows an administrator of a subtree that subtree alone', async () => {
    const opened = await dashboard.open('/audit?range=30d', { key: dashboard.facts.keys.lead.value });
    const { page } = opened;
    await page.getByText('You see').first().waitFor();
    const values = facet(page, 'User path').locator('.facet-text');
    await expect.poll(() => values.count()).toBeGreaterThan(1);
    const paths = await values.allTextContents();
    expect(paths.filter((path) => !path.startsWith('/team'))).toEqual([]);
    await expect
      .poll(() => total(page).textContent())
      .toBe(asText(await counted("user_path = '/team' OR startsWith(user_path, '/team/')")));
    expectClean(opened);
  });

  it('shows what clients wrote as text, with marks for hidden characters', async () => {
    const model = '<img src=x onerror=alert(1)>\u202ednim\u001b[31m';
    const headers = { 'x-session-id': '<script>alert(2)</script>', 'user-agent': '=cmd()<b>agent</b>' };
    const body = { model, messages: [{ role: 'user', content: 'Hello' }] };
    const refused = await ask(dashboard.url, '/v1/chat/completions', { json: body, headers });
    expect(refused.status).toBe(404);
    await expect.poll(() => counted("position(user_agent, 'cmd()') > 0")).toBe(1);
    const opened = await dashboard.open('/audit?range=1h&user_agent=cmd()');
    const { page } = opened;
    await page.getByRole('button', { name: 'Columns' }).click();
    for (const name of ['User agent', 'Session']) await page.getByRole('checkbox', { name }).check();
    await page.keyboard.press('Escape');
    const row = (await rows(page).first().textContent()) ?? '';
    expect(row).toContain('<img src=x onerror=alert(1)>⟨U+202E⟩dnim⟨');
    expect(row).toContain('=cmd()<b>agent</b>');
    expect(row).toContain('<script>alert(2)</script>');
    await facet(page, 'Requested model').getByRole('checkbox').first().click();
    await settled(page);
    expect(queryOf(page).get('requested_model_is')).toBe(model);
    await page.getByRole('button', { name: /Remove the filter Requested model is <img/ }).waitFor();
    await rows(page).getByRole('link').last().click();
    await page.getByRole('heading', { level: 1, name: 'Session' }).waitFor();
    await settled(page);
    expect(await page.locator('main img, main script, main b').count()).toBe(0);
    expectClean(opened);
  });

  it('has no violation of WCAG 2.2 AA in its dialogs, with filters, and in a narrow window', async () => {
    const opened = await dashboard.open('/audit?range=30d&outcome=failed&label=x%E2%80%AEy');
    const { page } = opened;
    expect(await accessibilityViolations(page)).toEqual([]);
    for (const name of ['More filters', 'Views', 'Export', 'SQL', 'Columns']) {
      await page.getByRole('button', { name, exact: true }).click();
      await settled(page);
      expect(await accessibilityViolations(page), name).toEqual([]);
      await page.keyboard.press('Escape');
    }
    await page.setViewportSize({ width: 360, height: 740 });
    await page.getByRole('button', { name: /^Filters/ }).click();
    expect(await accessibilityViolations(page)).toEqual([]);
    expect(await overflowOf(page)).toBeLessThanOrEqual(0);
    expectClean(opened);
  });
});

function sqlTime(instant: string): string {
  return instant.replace('T', ' ').replace('Z', '');
}

/** Run in the page. */
function hrefs(links: readonly { getAttribute(name: string): string | null }[]): string[] {
  return links.map((link) => link.getAttribute('href') ?? '');
}

/** Run in the page. */
function scrollToEnd(element: { scrollTop: number; readonly scrollHeight: number }): void {
  element.scrollTop = element.scrollHeight;
}

describeInChromium('the Audit page of a new gateway', () => {
  const dashboard = withDashboard({ data: 'shared empty' });

  it('shows a request to send', async () => {
    const opened = await dashboard.open('/audit');
    const { page } = opened;
    await page.getByText('No requests in this time range.').waitFor();
    const command = await page.getByRole('group', { name: 'Request with curl' }).textContent();
    expect(command).toContain(`curl ${dashboard.url}/v1/chat/completions`);
    expectClean(opened);
  });
});

describeInChromium('the Audit page without analytics', () => {
  const dashboard = withDashboard({ data: 'empty', env: { ANALYTICS_ENABLED: 'false' } });

  it('says why it lists nothing', async () => {
    const opened = await dashboard.open('/audit');
    await opened.page.getByText('Analytics is off.').waitFor();
    await opened.visit('/sessions');
    await opened.page.getByText('Analytics is off.').waitFor();
    expectClean(opened);
  });
});
