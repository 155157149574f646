/** The page of one request: why it was refused, what its provider received, its stream, its record. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { ask } from '../e2e/gateway-process.ts';
import { exchangeOf, json, user } from '../support/with-gateway.ts';
import { expectClean, settled } from './support/dashboard.ts';
import { seededProviders } from './support/history/build-history.ts';
import { countSteps } from './support/steps.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

const tab = (page: Page, name: string) => page.getByRole('tab', { name, exact: true });
const steps = (page: Page) => page.getByRole('group', { name: 'Timeline' }).locator('tbody tr');
const reason = (page: Page) => page.getByRole('region', { name: 'Why this request was not answered' });

describeInChromium('the exchange page with the seeded history', () => {
  let seeded: Awaited<ReturnType<typeof seededProviders>> | undefined;
  afterAll(() => seeded?.close());
  const dashboard = withDashboard(async () => {
    seeded = await seededProviders();
    return { env: seeded.env };
  });

  it.each([
    ['blocked', 'guardrail', 'The guardrail no-code-names blocked the request', 'guardrail_blocked'],
    ['access', 'access rule', 'An access rule does not allow', 'model_access_denied'],
    ['budget', 'budget', 'A budget is used up.', 'budget_exceeded'],
    ['rateLimit', 'rate limit', 'A rate limit is reached.', 'rate_limit_exceeded'],
  ] as const)('shows at once why a request was refused: %s', async (shown, decidedBy, decision, code) => {
    const opened = await dashboard.open(`/exchange/${dashboard.facts.shown[shown]}`);
    const { page } = opened;
    await reason(page).waitFor();
    const text = await reason(page).textContent();
    expect(text).toContain(`decided by: ${decidedBy}`);
    expect(text).toContain(decision);
    expect(text).toContain(code);
    expect(text).toContain('The client received:');
    expect(await reason(page).isVisible()).toBe(true);
    expectClean(opened);
  });

  it('lists the rules behind a refusal on request', async () => {
    const opened = await dashboard.open(`/exchange/${dashboard.facts.shown.access}`);
    const { page } = opened;
    await page.getByRole('button', { name: 'Rules that apply to this model and caller' }).click();
    const rules = page.getByRole('table', { name: 'Rules in force now' });
    await rules.waitFor();
    expect(await rules.textContent()).toContain('no');
    expect(await rules.textContent()).toContain('/team/platform');
    expectClean(opened);
  });

  it('draws each attempt of a failover, and opens its event', async () => {
    const opened = await dashboard.open(`/exchange/${dashboard.facts.shown.failover}`);
    const { page } = opened;
    const texts = await steps(page).allTextContents();
    expect(texts.filter((text) => /^Attempt \d/.test(text))).toHaveLength(2);
    await steps(page)
      .getByRole('link', { name: /^Attempt 1/ })
      .click();
    await settled(page);
    expect(new URL(page.url()).searchParams.get('tab')).toBe('events');
    const open = page.getByRole('listitem').filter({ has: page.locator('[aria-expanded=true]') });
    expect(await open.textContent()).toContain('attempt.started');
    expect(await open.textContent()).toContain('Position');
    const address = page.url();
    await page.reload();
    await settled(page);
    expect(page.url()).toBe(address);
    expect(await open.textContent()).toContain('attempt.started');
    expectClean(opened);
  });

  it('shows what guardrails changed before the provider got the request', async () => {
    const opened = await dashboard.open(`/exchange/${dashboard.facts.shown.anonymised}`);
    const { page } = opened;
    await tab(page, 'Diff').click();
    await settled(page);
    await page.getByLabel('Compare').selectOption({ label: 'Before and after the guardrails' });
    await settled(page);
    const panel = page.getByRole('tabpanel').first();
    expect(await panel.textContent()).toContain('Changed by personal-data');
    expect(await panel.textContent()).toMatch(/<[A-Z_]+_\d+>/);
    expect(new URL(page.url()).searchParams.get('compare')).toBe('guardrails-1');
    expectClean(opened);
  });

  it('replays a recorded stream at its own pace', async () => {
    const opened = await dashboard.open(`/exchange/${dashboard.facts.shown.stream}?tab=replay`);
    const { page } = opened;
    const position = page.getByRole('slider');
    await position.waitFor();
    const end = Number(await position.inputValue());
    expect(end).toBeGreaterThan(0);
    await page.getByRole('button', { name: 'Play' }).click();
    await expect.poll(async () => Number(await position.inputValue())).toBeLessThan(end);
    await page.getByRole('button', { name: 'Pause' }).click();
    await position.press('Home');
    await expect.poll(() => position.inputValue()).toBe('0');
    expectClean(opened);
  });

  it('has price, source and date of the cost', async () => {
    const opened = await dashboard.open(`/exchange/${dashboard.facts.shown.stream}?tab=cost`);
    const { page } = opened;
    const cost = page.getByRole('table', { name: 'Cost' });
    expect(await cost.textContent()).toMatch(/Source of the price(override|snapshot|config|provider)/);
    expect(await cost.textContent()).toContain('Recorded');
    expect(await page.getByRole('table', { name: 'Tokens' }).textContent()).toMatch(/Input[\d,]+/);
    expectClean(opened);
  });

  it('links a cached answer to the request that a provider answered', async () => {
    const opened = await dashboard.open(`/exchange/${dashboard.facts.shown.cacheHit}`);
    const { page } = opened;
    const hit = steps(page).filter({ hasText: 'Cache hit' });
    await hit.getByRole('link').last().click();
    await settled(page);
    expect((await steps(page).allTextContents()).some((text) => text.startsWith('Attempt 1'))).toBe(true);
    expectClean(opened);
  });

  it('shows an administrator of a subtree nothing outside of it', async () => {
    const opened = await dashboard.open(`/exchange/${dashboard.facts.shown.tuesday}`, {
      key: dashboard.facts.keys.lead.value,
    });
    const { page } = opened;
    await page.getByRole('alert').waitFor();
    expect(await page.getByRole('alert').textContent()).toContain('Not found.');
    expect(await page.getByRole('tab').count()).toBe(0);
    await opened.visit(`/exchange/${dashboard.facts.shown.access}`);
    await reason(page).waitFor();
  });
});

const provider = createSimulatedProvider();
let providerUrl = '';

describeInChromium('the exchange page with running requests', () => {
  beforeAll(async () => {
    providerUrl = await provider.listen();
  });
  afterAll(() => provider.close());
  const dashboard = withDashboard(async () => ({ data: 'empty', env: { LLAMACPP_BASE_URL: providerUrl } }));
  const model = 'llamacpp/simulated-small';
  const path = '/v1/chat/completions';

  it('shows what exactly the provider received, in three clicks', async () => {
    const messages = [{ role: 'user', content: 'Hello <b>you</b> \u202e!' }];
    const answer = await ask(dashboard.url, path, { json: { model, messages } });
    await answer.text();
    const got = provider.requests.at(-1)?.bytes.toString() ?? '';
    const opened = await dashboard.open(`/exchange/${exchangeOf(answer)}`);
    const { page } = opened;
    const counted = countSteps(page);
    await counted.click(tab(page, 'Request'));
    await settled(page);
    // Opening the list and choosing in it.
    await counted.select(page.getByLabel('Show', { exact: true }), '1');
    await settled(page);
    expect(counted.clicks).toBe(3);
    const record = await json(await ask(dashboard.url, `/admin/audit/provider-request?log_id=${exchangeOf(answer)}`));
    expect(record.body).toBe(got);
    const panel = page.getByRole('region', { name: 'What llamacpp received' });
    expect(await panel.textContent()).toContain(record.sha256);
    expect(await panel.textContent()).toContain('/v1/chat/completions');
    await panel.getByRole('button', { name: 'Raw' }).click();
    expect(await panel.textContent()).toContain('"model":"simulated-small"');
    await tab(page, 'Diff').click();
    await settled(page);
    expect(await page.getByRole('tabpanel').first().textContent()).toContain('1 change');
    expect(await page.locator('main b').count()).toBe(0);
    expectClean(opened);
  });

  it('follows a request until it has ended', async () => {
    provider.control.next({ holdAfterChunks: 3 }, { path });
    const answer = await ask(dashboard.url, path, { json: { model, messages: user('Hello!'), stream: true } });
    const opened = await dashboard.open(`/exchange/${exchangeOf(answer)}`);
    const { page } = opened;
    await page.getByText('in progress').first().waitFor();
    expect((await steps(page).allTextContents()).some((text) => text.includes('running'))).toBe(true);
    provider.control.release();
    await answer.text();
    await page.getByText('200 completed').waitFor({ timeout: 20_000 });
    expect((await steps(page).allTextContents()).some((text) => text.includes('running'))).toBe(false);
    expectClean(opened);
  });

  it('names a request that does not exist', async () => {
    const opened = await dashboard.open('/exchange/no-such-request');
    expect(await opened.page.getByRole('alert').textContent()).toContain('no-such-request');
  });
});
