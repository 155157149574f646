/** The page Live: rows from the first request on, shared by tabs. `reconnect.test.ts` has a gateway that is killed. */
import type { BrowserContext, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { ask, MASTER_KEY } from '../e2e/gateway-process.ts';
import { accessibilityViolations } from './support/accessibility.ts';
import { expectClean, overflowOf } from './support/dashboard.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

const simulated = createSimulatedProvider({});
let providerUrl = '';

beforeAll(async () => {
  providerUrl = await simulated.listen();
});
afterAll(() => simulated.close());

const rowOf = (page: Page, id: string) => page.locator(`tr[data-exchange="${id}"]`);
const shownIds = (page: Page) =>
  page
    .locator('tr[data-exchange]')
    .evaluateAll((rows) =>
      rows.map((row) => (row as { getAttribute(name: string): string | null }).getAttribute('data-exchange')),
    );

/** @returns the id of its exchange */
async function send(url: string, body: object = {}): Promise<string> {
  const answer = await ask(url, '/v1/chat/completions', {
    json: { model: 'llamacpp/simulated-small', messages: [{ role: 'user', content: 'Hello' }], ...body },
  });
  await answer.text();
  return answer.headers.get('x-exchange-id') ?? '';
}

async function sendMany(url: string, count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let sent = 0; sent < count; sent += 1) ids.push(await send(url));
  return ids;
}

/** Another tab of the same browser. */
async function openTab(context: BrowserContext, url: string): Promise<Page> {
  const page = await context.newPage();
  await page.addInitScript(([name, key]) => Object(globalThis).sessionStorage.setItem(name, JSON.stringify(key)), [
    'chancery.key',
    MASTER_KEY,
  ] as const);
  await page.goto(`${url}/admin/dashboard/live`);
  return page;
}

const isLive = (page: Page) => page.locator('.live-status[data-connection="live"]').waitFor();

describeInChromium('the page Live', () => {
  const dashboard = withDashboard(async () => ({
    data: 'empty',
    env: { LLAMACPP_BASE_URL: providerUrl, ANALYTICS_ENABLED: 'false' },
  }));

  it('shows how to send the first request, and that request within a second', async () => {
    const opened = await dashboard.open('/live');
    const { page } = opened;
    const command = await page.getByRole('group', { name: 'Request with curl' }).textContent();
    expect(command).toContain(`curl ${dashboard.url}/v1/chat/completions`);
    const sent = send(dashboard.url);
    await page.locator('tr[data-exchange]').waitFor({ timeout: 1_000 });
    const id = await sent;
    await rowOf(page, id).getByText('200 completed').waitFor();
    await expect.poll(() => page.locator('.live-position').textContent()).toMatch(/^\d+$/);
    expectClean(opened);
  });

  it('shows a stream from in flight over its growing text to its end', async () => {
    const opened = await dashboard.open('/live');
    const { page } = opened;
    await isLive(page);
    const sent = send(dashboard.url, {
      ...{ stream: true, simulate: { holdAfterChunks: 4 } },
      messages: [{ role: 'user', content: 'Reply with exactly: one two three four five six' }],
    });
    const row = page.locator('tr[data-state="streaming"]');
    await row.waitFor();
    const running = () => row.locator('[data-column="duration"]').textContent();
    const before = await running();
    await expect.poll(running).not.toBe(before);
    await row.locator('[data-column="request"]').click();
    const answer = page.getByRole('group', { name: 'End of the answer' });
    await expect.poll(() => answer.textContent()).toMatch(/^one/);
    expect(await answer.textContent()).not.toContain('six');
    simulated.control.release();
    const id = await sent;
    await rowOf(page, id).getByText('200 completed').waitFor();
    await expect.poll(() => answer.textContent()).toBe('one two three four five six');
    await page.getByRole('link', { name: 'Open exchange' }).click();
    await page.waitForURL(`**/exchange/${id}`);
    expectClean(opened);
  });

  it('holds the rows while paused, counts the new ones, and shows them afterwards', async () => {
    const opened = await dashboard.open('/live');
    const { page } = opened;
    await isLive(page);
    const first = await send(dashboard.url);
    await rowOf(page, first).getByText('200 completed').waitFor();
    await page.keyboard.press('Space');
    await page.getByRole('button', { name: 'Resume' }).waitFor();
    const during = await sendMany(dashboard.url, 3);
    await page.getByText('3 new · Jump to newest').waitFor();
    expect(await shownIds(page)).toEqual([first]);
    await page.keyboard.press('Space');
    await expect.poll(() => shownIds(page)).toEqual([...during].reverse().concat(first));
    await page.getByRole('button', { name: 'Clear' }).click();
    await expect.poll(() => shownIds(page)).toEqual([]);
    const later = await send(dashboard.url);
    await expect.poll(() => shownIds(page)).toEqual([later]);
    expectClean(opened);
  });

  it('shows while paused that a running request has ended', async () => {
    const opened = await dashboard.open('/live');
    const { page } = opened;
    await isLive(page);
    const sent = send(dashboard.url, {
      ...{ stream: true, simulate: { holdAfterChunks: 4 } },
      messages: [{ role: 'user', content: 'Reply with exactly: one two three four five six' }],
    });
    const running = page.locator('tr[data-state="streaming"]');
    await running.waitFor();
    await page.keyboard.press('Space');
    await page.getByRole('button', { name: 'Resume' }).waitFor();
    simulated.control.release();
    const id = await sent;
    await rowOf(page, id).getByText('200 completed').waitFor();
    expect(await rowOf(page, id).locator('[data-running="true"]').count()).toBe(0);
    await page.getByText('Paused.').waitFor();
    expectClean(opened);
  });

  it('stops following when the user scrolls or selects a row, and opens it with the keyboard', async () => {
    const opened = await dashboard.open('/live');
    const { page } = opened;
    await isLive(page);
    const ids = await sendMany(dashboard.url, 40);
    await rowOf(page, ids.at(-1) ?? '').waitFor();
    const region = page.getByRole('group', { name: 'Live requests' });
    await region.hover();
    await page.mouse.wheel(0, 400);
    await page.getByText('Not following.').waitFor();
    const shown = await shownIds(page);
    await sendMany(dashboard.url, 2);
    await page.getByText('2 new · Jump to newest').click();
    await expect.poll(async () => (await shownIds(page))[2]).toBe(ids.at(-1));
    expect(shown).not.toContain(await shownIds(page).then(([newest]) => newest));
    await page.getByRole('heading', { name: 'Live' }).focus();
    for (const key of ['j', 'j', 'j', 'k']) await page.keyboard.press(key);
    await page.getByText('Not following.').waitFor();
    const selected = await page.locator('tr[aria-current="true"]').getAttribute('data-exchange');
    expect(selected).toBe((await shownIds(page))[1]);
    await page.keyboard.press('Enter');
    await page.waitForURL(`**/exchange/${selected}`);
    expectClean(opened);
  });

  it('has its filters in the address, and the gateway evaluates them', async () => {
    const opened = await dashboard.open('/live');
    const { page } = opened;
    await page.getByLabel('Show').selectOption('failed');
    await page.waitForURL('**/live?show=failed');
    const connected = page.waitForResponse(
      (answer) => answer.url().includes('/live/logs') && /path=/.test(answer.url()),
    );
    await page.getByLabel('Request path begins with').fill('/v1/chat');
    await page.waitForURL('**/live?show=failed&path=%2Fv1%2Fchat');
    await connected;
    await isLive(page);
    await page.getByText('No request of this filter yet.').waitFor();
    await send(dashboard.url);
    const failed = await send(dashboard.url, { model: 'llamacpp/unknown' });
    await rowOf(page, failed).getByText('404 refused').waitFor();
    expect(await shownIds(page)).toEqual([failed]);
    const queries = opened.answers.filter(({ path }) => path.startsWith('/admin/live/logs')).map(({ path }) => path);
    expect(queries.at(-1)).toContain('types=audit.failed%2Cusage&path=%2Fv1%2Fchat');
    expect(queries.join()).not.toContain(MASTER_KEY);
    await page.getByLabel('User path').fill('/a b');
    await page.getByText('The gateway refused the filter.').waitFor();
    await page.getByLabel('User path').fill('');
    await isLive(page);
    // The refusal is in the console.
    opened.expectFindings(({ text }) => text.includes('400'));
    expectClean(opened);
  });

  it('shows hostile content as text', async () => {
    const opened = await dashboard.open('/live');
    const { page } = opened;
    await isLive(page);
    const hostile = '<img src=x onerror=alert(1)>\u202Egnp.exe\u001b[31mred';
    const id = await send(dashboard.url, {
      ...{ stream: true, model: 'llamacpp/simulated-small' },
      messages: [{ role: 'user', content: `Reply with exactly: ${hostile}` }],
    });
    const cell = rowOf(page, id).locator('[data-column="answer"]');
    await expect.poll(() => cell.textContent()).toContain('<img src=x onerror=alert(1)>⟨U+202E⟩gnp.exe');
    for (const hidden of ['\u202e', '\u001b']) expect(await cell.textContent()).not.toContain(hidden);
    expect(await page.locator('main img').count()).toBe(0);
    expectClean(opened);
  });

  it('is accessible with rows, and fits a narrow window', async () => {
    const opened = await dashboard.open('/live', { context: { viewport: { width: 360, height: 740 } } });
    const { page } = opened;
    await isLive(page);
    const [id = ''] = await sendMany(dashboard.url, 3);
    await rowOf(page, id).locator('[data-column="state"]').click();
    expect(await overflowOf(page)).toBe(0);
    expect(await accessibilityViolations(page)).toEqual([]);
    expectClean(opened);
  });

  it('reads one stream for all tabs; another tab goes on when the reading one is closed', async () => {
    const opened = await dashboard.open('/live');
    const { page, context } = opened;
    await isLive(page);
    const before = await sendMany(dashboard.url, 2);
    const others = [await openTab(context, dashboard.url), await openTab(context, dashboard.url)];
    for (const tab of others) await expect.poll(() => shownIds(tab)).toEqual([...before].reverse());
    const readers = async () =>
      /gateway_live_log_clients (\d+)/.exec(await (await ask(dashboard.url, '/metrics')).text())?.[1];
    expect(await readers()).toBe('1');
    await page.close();
    const after = await sendMany(dashboard.url, 2);
    for (const tab of others) {
      await expect.poll(() => shownIds(tab)).toEqual([...before, ...after].reverse());
      await isLive(tab);
      expect(await tab.locator('tr[data-gap]').count()).toBe(0);
    }
    expect(await readers()).toBe('1');
    await others[0]?.close();
    await others[1]?.close();
    await expect.poll(readers).toBe('0');
    expectClean(opened);
  });
});

describeInChromium('the page Live with live logs switched off', () => {
  const dashboard = withDashboard({
    data: 'empty',
    env: { DASHBOARD_LIVE_LOGS_ENABLED: 'false', ANALYTICS_ENABLED: 'false' },
  });

  it('explains the setting', async () => {
    const opened = await dashboard.open('/live');
    await opened.page.getByText('Live logs are switched off.').waitFor();
    await opened.page.getByText('DASHBOARD_LIVE_LOGS_ENABLED=true').waitFor();
    expect(opened.answers.filter(({ path }) => path.startsWith('/admin/live'))).toEqual([]);
    expectClean(opened);
  });
});
