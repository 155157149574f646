/** Values and states as a person reads them: nothing is cut, the direction of a text is its own, the place is in sight. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { ask, MASTER_KEY } from '../e2e/gateway-process.ts';
import type { Answered } from '../support/answered.ts';
import { expectClean, logIn, openDashboard, serveDashboard, settled, shownText } from './support/dashboard.ts';
import { freePort } from './support/free-port.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

const models = ['qwen2.5-coder-32b-instruct', 'qwen2.5-coder-32b-base'];
const arabic = 'مرحبا بالعالم';

declare const document: {
  querySelector(selector: string): DomElement | null;
  querySelectorAll(selector: string): Iterable<DomElement>;
};
declare function getComputedStyle(element: DomElement): {
  readonly direction: string;
  readonly backgroundColor: string;
};
interface DomElement {
  readonly scrollWidth: number;
  readonly clientWidth: number;
  readonly scrollHeight: number;
  readonly clientHeight: number;
  readonly textContent: string;
  querySelector(selector: string): DomElement | null;
  getBoundingClientRect(): { readonly left: number; readonly right: number };
}

/** Texts of cells that are not shown completely. */
const cutCells = (page: Page, selector: string): Promise<string[]> =>
  page.evaluate(
    (of) =>
      [...document.querySelectorAll(of)]
        .filter((cell) => cell.scrollWidth > cell.clientWidth + 1 || cell.scrollHeight > cell.clientHeight + 2)
        .map(({ textContent }) => textContent),
    selector,
  );

describeInChromium('values and states', () => {
  const provider = createSimulatedProvider({ models });
  let env: Record<string, string> = {};
  const dashboard = withDashboard(async () => {
    env = { PORT: await freePort(), LLAMACPP_BASE_URL: await provider.listen(), LOGGING_REFUSALS_PER_MINUTE: '2' };
    return { data: 'empty', env };
  });
  afterAll(() => provider.close());

  /** @returns the id of its exchange */
  async function send(model: string): Promise<string> {
    const headers = { 'x-session-id': 'a-session', 'user-agent': 'Acme Assistant/2.1' };
    const messages = [{ role: 'user', content: arabic }];
    const json = { model: `llamacpp/${model}`, messages };
    const answer = await ask(dashboard.url, '/v1/chat/completions', { headers, json });
    expect(answer.status).toBe(200);
    await answer.text();
    return answer.headers.get('x-exchange-id') ?? '';
  }

  const sent: string[] = [];
  beforeAll(async () => {
    for (const model of models) sent.push(await send(model));
    const budget = { user_path: '/a', budget_key: { period: 'monthly' }, amount: 0.000000123 };
    expect((await ask(dashboard.url, '/admin/budgets', { method: 'PUT', json: budget })).status).toBe(200);
  });

  it('shows models that begin alike so that they can be told apart, in Live and in Audit', async () => {
    const opened = await dashboard.open('/live');
    const { page } = opened;
    await page.locator('.live-status[data-connection="live"]').waitFor();
    for (const model of models) await page.locator(`tr[data-exchange="${await send(model)}"]`).waitFor();
    expect(await cutCells(page, '.live-table td[data-column="model"] .cell')).toEqual([]);
    // The list reads what analytics has processed.
    await expect
      .poll(async () => {
        const { entries } = (await (await ask(dashboard.url, '/admin/audit/log')).json()) as Answered;
        return entries.map((entry: Answered) => entry.requested_model);
      })
      .toContain(`llamacpp/${models[1]}`);
    await opened.visit('/audit');
    await page
      .getByRole('table')
      .getByText(models[1] ?? '')
      .first()
      .waitFor();
    expect(await cutCells(page, '.data-table td:not(:last-child) .cell')).toEqual([]);
    expectClean(opened);
  });

  it('shows dates and small amounts of budgets completely', async () => {
    const opened = await dashboard.open('/budgets');
    const { page } = opened;
    await page.getByText('0.000000123').first().waitFor();
    expect(await cutCells(page, '.data-table .cell')).toEqual([]);
    expectClean(opened);
  });

  it('lists tokens, cost, duration and the client of a session', async () => {
    await expect
      .poll(async () => {
        const { sessions } = (await (await ask(dashboard.url, '/admin/audit/sessions')).json()) as Answered;
        return sessions[0]?.request_count;
      })
      .toBeGreaterThanOrEqual(2);
    const opened = await dashboard.open('/sessions');
    const { page } = opened;
    const titles = await page.getByRole('table', { name: 'Sessions' }).getByRole('columnheader').allTextContents();
    const cells = await page.getByRole('table', { name: 'Sessions' }).getByRole('cell').allTextContents();
    const shown = Object.fromEntries(titles.map((title, place) => [title, cells[place]]));
    expect(shown).toMatchObject({ Client: 'Acme Assistant/2.1', Cost: 'unknown' });
    expect(shown['Tokens']).toMatch(/^\d+$/);
    expect(shown['Duration']).toMatch(/\d (ms|s)$/);
    expectClean(opened);
  });

  it('aligns a recorded text by its own direction', async () => {
    const opened = await dashboard.open(`/exchange/${sent[0]}?tab=conversation`);
    const { page } = opened;
    await page.locator('.safe-text', { hasText: arabic }).first().waitFor();
    const directions = await page.evaluate(
      (text) =>
        [...document.querySelectorAll('.safe-text')]
          .filter(({ textContent }) => textContent.includes(text))
          .map((element) => getComputedStyle(element).direction),
      arabic,
    );
    expect(directions.length).toBeGreaterThan(0);
    expect(new Set(directions)).toEqual(new Set(['rtl']));
    expectClean(opened);
  });

  it('has the name of the current page in sight in a narrow window', async () => {
    const opened = await dashboard.open('/settings', { context: { viewport: { width: 390, height: 844 } } });
    const { page } = opened;
    for (const path of ['/settings', '/workflows', '/']) {
      await opened.visit(path);
      const place = await page.evaluate(() => {
        const link = document.querySelector('nav [aria-current="page"]')?.getBoundingClientRect();
        return { left: link?.left ?? -1, right: link?.right ?? -1 };
      });
      expect(place.left).toBeGreaterThanOrEqual(0);
      expect(place.right).toBeLessThanOrEqual(390);
    }
    expectClean(opened);
  });

  it('darkens the whole window behind a dialog, the space of the scroll bar included', async () => {
    const opened = await dashboard.open('/keys?tab=keys');
    const { page } = opened;
    const background = () =>
      page.evaluate(() => getComputedStyle(document.querySelector('html') as DomElement).backgroundColor);
    const before = await background();
    await page.getByRole('button', { name: 'Create a key' }).click();
    await page.getByRole('dialog').waitFor();
    expect(await background()).not.toBe(before);
    expectClean(opened);
  });

  it('says that analytics is one event behind', async () => {
    const opened = await dashboard.open('/settings');
    const { page } = opened;
    await page.route('**/admin/overview?*', async (route) => {
      const answer = await route.fetch();
      const overview = (await answer.json()) as Answered;
      const analytics = { state: 'behind', lag_events: 1, lag_seconds: 2 };
      await route.fulfill({ response: answer, json: { ...overview, analytics } });
    });
    await opened.visit('/');
    await page.getByText('1 event behind').waitFor();
    expectClean(opened);
  });

  it('says of a key that was accepted before that it has ended', async () => {
    const create = await ask(dashboard.url, '/admin/auth-keys', { json: { name: 'lead' } });
    const { id, value } = (await create.json()) as Answered;
    const access = { method: 'PUT', json: { dashboard_access: true } };
    expect((await ask(dashboard.url, `/admin/auth-keys/${id}/dashboard-access`, access)).status).toBe(200);
    const opened = await dashboard.open('/settings', { key: value });
    const { page } = opened;
    await ask(dashboard.url, `/admin/auth-keys/${id}/deactivate`, { method: 'POST' });
    await page.getByRole('link', { name: 'Audit' }).click();
    const problem = page.getByRole('alert');
    await problem.waitFor();
    expect(await shownText(problem)).toMatch(/was accepted before: it has been deactivated or rotated, or has expired/);
    await logIn(page, MASTER_KEY);
    opened.expectFindings(({ text }) => /401/.test(text));
    expectClean(opened);
  });

  it('loads a page that was first opened while the gateway was down when it answers again', async () => {
    for (let n = 0; n < 7; n++) {
      await ask(dashboard.url, '/v1/chat/completions', { json: { model: 'nothing/at-all', messages: [] } });
    }
    // Files of the pages that other tests have opened are cached in their contexts.
    const opened = await openDashboard(dashboard.browser, dashboard.url, '/settings');
    const { page } = opened;
    await dashboard.gateway.stop();
    await page.getByRole('link', { name: 'Budgets' }).click();
    await page.getByText('The gateway does not answer.').first().waitFor();
    const again = await serveDashboard({ dataDir: dashboard.dataDir, env });
    try {
      await page.getByRole('heading', { level: 1, name: 'Budgets and limits' }).waitFor();
      opened.expectFindings(() => true);

      // The stop has recorded the refused requests that were counted together.
      const entry = await vi.waitFor(
        async () => {
          const { entries } = (await (await ask(again.url, '/admin/audit/log?limit=50')).json()) as Answered;
          const found = entries.find(({ requests }: Answered) => requests > 1);
          if (found === undefined) throw new Error('analytics does not have it yet');
          return found;
        },
        { timeout: 20_000, interval: 200 },
      );
      const other = await dashboard.open('/audit');
      const time = other.page.getByRole('table').getByRole('cell', { name: `×${entry.requests}` });
      await time.waitFor();
      expect(await cutCells(other.page, '.data-table td:first-child .cell')).toEqual([]);
      await other.visit(`/exchange/${entry.id}`);
      await other.page.getByRole('heading', { name: `${entry.requests} refused requests, counted together` }).waitFor();
      await settled(other.page);
      other.expectFindings(({ text }) => text.includes('404'));
      expectClean(other);
    } finally {
      await again.stop();
    }
  });
});
