/** The page Cache with the seeded history. */
import { afterAll, expect, it } from 'vitest';
import { ask, MASTER_KEY } from '../e2e/gateway-process.ts';
import type { Answered } from '../support/answered.ts';
import { expectClean, settled, shownText } from './support/dashboard.ts';
import { seededProviders } from './support/history/build-history.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

describeInChromium('the page Cache', () => {
  let close: (() => Promise<void>) | undefined;
  const dashboard = withDashboard(async () => {
    const { env, close: closeProviders } = await seededProviders();
    close = closeProviders;
    return { env };
  });
  afterAll(() => close?.());

  const read = async (path: string): Promise<Answered> => (await ask(dashboard.url, path)).json();

  it('shows hits and savings of the range', async () => {
    const opened = await dashboard.open('/cache?range=90d');
    const { page } = opened;
    const { summary } = await read('/admin/cache/overview?days=90');
    expect(summary.total_hits).toBeGreaterThan(0);
    const text = await shownText(page.locator('main'));
    expect(text).toContain(`${summary.exact_hits.toLocaleString('en-GB')} exact`);
    expect(text).toContain(summary.total_hits.toLocaleString('en-GB'));
    expect(text).toMatch(/SEMANTIC_CACHE_ENABLED is off/);
    expectClean(opened);
  });

  it('removes answers of a path after a confirmation, and says how many', async () => {
    const body = { model: 'openai/gpt-5-mini', messages: [{ role: 'user', content: 'Say which day it is.' }] };
    const send = () => ask(dashboard.url, '/v1/chat/completions', { json: body, key: MASTER_KEY });
    await (await send()).text();
    const again = await send();
    await again.text();
    expect(again.headers.get('x-cache')).toContain('HIT');
    const opened = await dashboard.open('/cache');
    const { page } = opened;
    await page.getByLabel('Provider', { exact: true }).fill('openai');
    await page.getByLabel('Model, by its id at the provider').fill('gpt-5-mini');
    await page.getByRole('button', { name: 'Remove these answers' }).click();
    const dialog = page.getByRole('dialog');
    expect(await shownText(dialog)).toContain(
      'All answers of the provider openai with the model gpt-5-mini are removed',
    );
    expect((await send()).headers.get('x-cache')).toContain('HIT');
    await dialog.getByRole('button', { name: 'Remove the answers' }).click();
    await expect.poll(() => shownText(page.getByRole('status').last())).toMatch(/answers? (was|were) removed/);
    const after = await send();
    await after.text();
    expect(after.headers.get('x-cache')).toBe('MISS');

    await page.getByRole('button', { name: 'Remove all answers' }).click();
    await dialog.getByRole('button', { name: 'Remove all answers' }).click();
    await dialog.waitFor({ state: 'detached' });
    expect((await send()).headers.get('x-cache')).toBe('MISS');
    expectClean(opened);
  });

  it('lets an administrator of a subtree remove answers of its paths only', async () => {
    const opened = await dashboard.open('/cache', { key: dashboard.facts.keys.lead.value });
    const { page } = opened;
    expect(await page.getByLabel('User path, with all below it').inputValue()).toBe('/team');
    expect(await page.getByRole('button', { name: 'Remove all answers' }).count()).toBe(0);
    await page.getByRole('button', { name: 'Remove these answers' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Remove the answers' }).click();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await settled(page);
    expectClean(opened);
  });
});

describeInChromium('the page Cache without a cache', () => {
  const dashboard = withDashboard({ data: 'shared empty' });

  it('names the setting that switches it on', async () => {
    const opened = await dashboard.open('/cache');
    expect(await shownText(opened.page.locator('main'))).toContain('RESPONSE_CACHE_ENABLED=true');
    expectClean(opened);
  });
});
