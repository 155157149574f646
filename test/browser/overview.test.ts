/** The Overview with the seeded history, and of a gateway without any. */
import type { Locator, Page } from 'playwright-core';
import { expect, it } from 'vitest';
import { ask } from '../e2e/gateway-process.ts';
import type { Answered } from '../support/answered.ts';
import { expectClean, settled } from './support/dashboard.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

declare class PerformanceObserver {
  constructor(report: (list: { getEntries(): { value: number; hadRecentInput: boolean }[] }) => void);
  observe(options: object): void;
}

const figure = (page: Page, title: string): Locator => page.locator('.key-figure').filter({ hasText: title });
const number = (text: string | null) => Number((text ?? '').replaceAll(/[^\d.]/g, ''));

describeInChromium('the Overview', () => {
  const dashboard = withDashboard({ data: 'shared' });

  async function read(path: string, key?: string): Promise<Answered> {
    const answer = await ask(dashboard.url, path, key === undefined ? {} : { key });
    expect(answer.status).toBe(200);
    return JSON.parse(await answer.text());
  }

  const yesterday = () => {
    const today = Math.floor(Date.now() / 86_400_000) * 86_400_000;
    return { from: new Date(today - 86_400_000).toISOString(), to: new Date(today).toISOString() };
  };

  it('shows the figures of the range, with the change to the time before', async () => {
    const opened = await dashboard.open('/?range=yesterday');
    const { page } = opened;
    const { summary, previous_summary: before } = await read(`/admin/overview?${new URLSearchParams(yesterday())}`);
    expect(summary.requests).toBeGreaterThan(100);
    const requests = await figure(page, 'Requests').first().textContent();
    expect(requests).toContain(`${summary.requests.toLocaleString('en-GB')} in total`);
    const change = (summary.requests - before.requests) / before.requests;
    expect(requests).toContain(change > 0 ? '▲' : '▼');
    const cache = await figure(page, 'Response cache').textContent();
    expect(cache).toContain(`${summary.cache_hits_exact.toLocaleString('en-GB')} exact`);
    // The analytics process has a low priority: while other tests keep the processors busy, it is behind.
    await page
      .getByText(/Figures are current|events? behind/)
      .first()
      .waitFor();
    expectClean(opened);
  });

  it('every part of a bar leads to the requests that it counts', async () => {
    const opened = await dashboard.open('/?range=yesterday');
    const { page } = opened;
    const chart = page.getByRole('figure', { name: 'Requests by status' });
    await chart.getByRole('button', { name: 'Table' }).click();
    const { buckets } = await read(`/admin/overview?${new URLSearchParams(yesterday())}`);
    const rows = chart.getByRole('row');
    expect(await rows.count()).toBe(buckets.length + 1);
    const place = buckets.findIndex((bucket: Answered) => bucket.status_4xx > 0);
    const link = rows
      .nth(place + 1)
      .getByRole('link')
      .filter({ hasText: /^[\d,]+$/ })
      .nth(1);
    expect(number(await link.textContent())).toBe(buckets[place].status_4xx);
    const href = new URL((await link.getAttribute('href')) ?? '', page.url()).searchParams;
    expect(Object.fromEntries(href)).toEqual({
      from: buckets[place].start,
      to: buckets[place + 1].start,
      status_class: '4xx',
    });
    const found = await read(`/admin/audit/log?${href}&limit=1`);
    expect(found.total).toBe(buckets[place].status_4xx);
    await chart.getByRole('button', { name: 'Table' }).click();
    const part = chart.locator(`a.chart-mark-link[href*="status_class=4xx"]`).first();
    await part.click({ force: true });
    await page.getByRole('heading', { level: 1, name: 'Audit' }).waitFor();
    expect(new URL(page.url()).searchParams.get('status_class')).toBe('4xx');
    await settled(page);
    expectClean(opened);
  });

  it('a chart is one stop of the Tab key; arrow keys read its values, Enter follows', async () => {
    const opened = await dashboard.open('/?range=yesterday');
    const { page } = opened;
    const chart = page.getByRole('figure', { name: 'Requests by status' });
    expect(await chart.locator('svg a[tabindex="0"]').count()).toBe(1);
    await chart.locator('svg a[tabindex="0"]').focus();
    await page.keyboard.press('Home');
    await page.keyboard.press('ArrowRight');
    const { buckets } = await read(`/admin/overview?${new URLSearchParams(yesterday())}`);
    const readout = await chart.locator('.chart-readout').textContent();
    expect(readout).toContain(`2xx ${buckets[1].status_2xx}`);
    expect(await page.locator(':focus').getAttribute('aria-label')).toContain(`2xx ${buckets[1].status_2xx}`);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: 'Audit' }).waitFor();
    expect(new URL(page.url()).searchParams.get('from')).toBe(buckets[1].start);
    await settled(page);
    expectClean(opened);
  });

  it('the calendar has a square for each day, larger for more requests, and leads to the day', async () => {
    const opened = await dashboard.open('/');
    const { page } = opened;
    const calendar = page.getByRole('figure', { name: /^Activity/ });
    const days = await read('/admin/usage/daily?days=371&cache_mode=all');
    const most = Math.max(...days.map(({ requests }: Answered) => requests));
    const busiest = days.filter(({ requests }: Answered) => requests === most);
    const square = calendar.getByRole('link', { name: `${most.toLocaleString('en-GB')} requests` }).first();
    expect(await square.locator('.calendar-square').getAttribute('style')).toContain('--heat-4');
    const href = new URL((await square.getAttribute('href')) ?? '', page.url()).searchParams;
    expect(busiest.map(({ date }: Answered) => `${date}T00:00:00.000Z`)).toContain(href.get('from'));
    await page.getByRole('combobox', { name: 'Measure of the calendar' }).selectOption('cost');
    await page.getByRole('figure', { name: 'Activity of the last year: cost' }).waitFor();
    expectClean(opened);
  });

  it('nothing moves while the page loads', async () => {
    const opened = await dashboard.open('/');
    const { page } = opened;
    const shift = await page.evaluate(
      () =>
        new Promise<number>((resolve) => {
          let sum = 0;
          new PerformanceObserver((list) => {
            for (const { value, hadRecentInput } of list.getEntries()) if (!hadRecentInput) sum += value;
          }).observe({ type: 'layout-shift', buffered: true });
          requestAnimationFrame(() => requestAnimationFrame(() => resolve(sum)));
        }),
    );
    expect(shift).toBeLessThan(0.05);
    expectClean(opened);
  });

  it('shows an administrator of a subtree only that subtree, and no providers', async () => {
    const { lead } = dashboard.facts.keys;
    const opened = await dashboard.open('/?range=7d', { key: lead.value });
    const { page } = opened;
    await page.getByText(`You see ${lead.path} and paths below it.`).waitFor();
    expect(await page.getByRole('heading', { name: 'Providers' }).count()).toBe(0);
    expect(opened.answers.filter(({ status }) => status >= 400)).toEqual([]);
    const paths = await page.getByRole('table', { name: 'User paths with the most requests' }).getByRole('link').all();
    expect(paths.length).toBeGreaterThan(1);
    for (const path of paths) expect(await path.textContent()).toMatch(/^\/team(\/|$)/);
    const keys = await page.getByRole('table', { name: 'Keys with the most requests' }).textContent();
    expect(keys).toContain(dashboard.facts.keys.research.name);
    expect(keys).not.toContain(dashboard.facts.keys.website.name);
    expectClean(opened);
  });
});

declare function requestAnimationFrame(run: () => void): void;

describeInChromium('the Overview of a new gateway', () => {
  const dashboard = withDashboard({ data: 'empty' });

  it('shows a request that works, and the figures once it was sent', async () => {
    const opened = await dashboard.open();
    const { page } = opened;
    await page.getByText('No requests yet.').waitFor();
    const command = page.locator('main pre').filter({ hasText: 'curl' });
    await expect.poll(() => command.textContent()).not.toContain('"MODEL"');
    const body = /-d '(.*)'/s.exec((await command.textContent()) ?? '')?.[1] ?? '';
    const answer = await ask(dashboard.url, '/v1/chat/completions', { json: JSON.parse(body) });
    expect(answer.status).toBe(200);
    await answer.text();
    await figure(page, 'Requests').first().getByText('1 in total').waitFor();
    expectClean(opened);
  });
});
