/** The page Models and providers: its actions, checked through the API. */
import type { Page } from 'playwright-core';
import { afterAll, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { ask } from '../e2e/gateway-process.ts';
import type { Answered } from '../support/answered.ts';
import { json } from '../support/with-gateway.ts';
import { expectClean, settled, shownText } from './support/dashboard.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

describeInChromium('the page Models and providers', () => {
  const local = createSimulatedProvider({ models: ['qwen3-32b', 'nomic-embed-text'] });
  const cloud = createSimulatedProvider({ models: ['gpt-5-mini'] });
  const added = createSimulatedProvider({ models: ['added-model'], apiKey: 'sk-added-first' });
  afterAll(() => Promise.all([local.close(), cloud.close(), added.close()]));
  const dashboard = withDashboard(async () => ({
    data: 'empty',
    env: {
      LLAMACPP_BASE_URL: await local.listen(),
      OPENAI_BASE_URL: await cloud.listen(),
      OPENAI_API_KEY: 'sk-declared',
      ALLOW_PRIVATE_PROVIDERS: 'true',
      GUARDRAILS_ENABLED: 'true',
    },
  }));

  const read = async (path: string): Promise<Answered> => json(await ask(dashboard.url, path));
  const put = (path: string, json: object) => ask(dashboard.url, path, { method: 'PUT', json });
  const dialogOf = (page: Page) => page.getByRole('dialog');
  const virtualModel = (source: string) => read(`/admin/virtual-models/${encodeURIComponent(source)}`);

  async function submit(page: Page, name: string): Promise<void> {
    await dialogOf(page).getByRole('button', { name, exact: true }).click();
    await dialogOf(page).waitFor({ state: 'detached' });
    await settled(page);
  }

  it('lists the models with filters in the address, and leads to the usage of one', async () => {
    const opened = await dashboard.open('/models');
    const { page } = opened;
    const table = page.getByRole('table', { name: 'Models' });
    expect(await table.locator('tbody tr[aria-rowindex]').count()).toBe(3);
    await page.getByLabel('Category').selectOption('embedding');
    await expect.poll(() => table.locator('tbody tr[aria-rowindex]').count()).toBe(1);
    expect(await shownText(table)).toContain('nomic-embed-text');
    await page.getByLabel('Category').selectOption('all');
    await page.getByLabel('Search').fill('GPT-5');
    await expect.poll(() => page.getByRole('status').filter({ hasText: '1 of 3 models' }).count()).toBe(1);
    expect(new URL(page.url()).searchParams.get('q')).toBe('GPT-5');
    await page.reload();
    await settled(page);
    await expect.poll(() => shownText(table)).toMatch(/gpt-5-mini[\s\S]*\$0\.25[\s\S]*list price \d{4}-/);
    expect(await shownText(table)).not.toContain('qwen3-32b');
    await page.getByRole('link', { name: 'Usage of openai/gpt-5-mini' }).click();
    await page.getByRole('heading', { level: 1, name: 'Usage' }).waitFor();
    expect(Object.fromEntries(new URL(page.url()).searchParams)).toEqual({ provider: 'openai', model: 'gpt-5-mini' });
    await settled(page);
    expectClean(opened);
  });

  it('creates, edits and removes a virtual model', async () => {
    const opened = await dashboard.open('/models?tab=virtual');
    const { page } = opened;
    await page.getByRole('button', { name: 'New virtual model' }).click();
    const dialog = dialogOf(page);
    await dialog.getByLabel('Name').fill('fast');
    await dialog.getByRole('combobox', { name: 'Target 1' }).fill('llamacpp/qwen3-32b');
    await dialog.getByRole('button', { name: 'Add a target' }).click();
    await dialog.getByRole('combobox', { name: 'Target 2' }).fill('openai/gpt-5-mini');
    await dialog.getByLabel('Strategy').selectOption('round_robin');
    await dialog.getByLabel('Weight 2').fill('3');
    await dialog.getByRole('button', { name: 'Move target 2 up' }).click();
    await dialog.getByLabel(/^User paths/).fill('/team\n/other');
    await submit(page, 'Create the virtual model');
    expect(await virtualModel('fast')).toMatchObject({
      ...{ strategy: 'round_robin', user_paths: ['/team', '/other'], enabled: true, failover: true },
      targets: [
        { provider: 'openai', model: 'gpt-5-mini', weight: 3 },
        { provider: 'llamacpp', model: 'qwen3-32b' },
      ],
    });
    const row = page.getByRole('row').filter({ hasText: 'fast' });
    await expect.poll(() => shownText(row)).toMatch(/openai\/gpt-5-mini\s+weight 3[\s\S]*Healthy/);

    await page.getByRole('button', { name: 'Edit fast' }).click();
    expect(new URL(page.url()).searchParams.get('edit')).toBe('fast');
    await dialog.getByRole('button', { name: 'Remove target 1' }).click();
    await dialog.getByLabel('Strategy').selectOption('plugin:cheapest_healthy');
    await dialog.getByLabel('Prefer').selectOption('fastest');
    await dialog.getByText('Which failures').click();
    await dialog.getByLabel('Statuses of the target').fill('429, often');
    await dialog.getByLabel(/^Phrases in errors/).fill('no such *\nquota');
    await dialog.getByRole('button', { name: 'Save', exact: true }).click();
    await expect.poll(() => dialog.getByLabel('Statuses of the target').getAttribute('aria-invalid')).toBe('true');
    await dialog.getByLabel('Statuses of the target').fill('429, 503');
    await submit(page, 'Save');
    expect(await virtualModel('fast')).toMatchObject({
      targets: [{ provider: 'llamacpp', model: 'qwen3-32b' }],
      ...{ strategy: 'plugin', strategy_plugin: 'cheapest_healthy', strategy_config: { prefer: 'fastest' } },
      failover: { enabled: true, statuses: [429, 503], phrases: ['no such *', 'quota'] },
    });

    await page.getByRole('button', { name: 'Remove fast' }).click();
    await expect.poll(() => shownText(dialog)).toContain('/team, /other');
    await submit(page, 'Remove the virtual model');
    expect((await ask(dashboard.url, '/admin/virtual-models/fast')).status).toBe(404);
    opened.expectFindings(({ kind, text }) => kind === 'console' && text.includes('400'));
    expectClean(opened);
  });

  it('shows at its field what the gateway refuses', async () => {
    const opened = await dashboard.open('/models?tab=virtual&add=virtual');
    const { page } = opened;
    const dialog = dialogOf(page);
    await dialog.getByLabel('Name').fill('bad/');
    await dialog.getByRole('combobox', { name: 'Target 1' }).fill('llamacpp/qwen3-32b');
    await dialog.getByRole('button', { name: 'Create the virtual model' }).click();
    await expect.poll(() => dialog.getByLabel('Name').getAttribute('aria-invalid')).toBe('true');
    expect(await shownText(dialog)).toContain("'source'");
    opened.expectFindings(({ text }) => text.includes('400'));
    expectClean(opened);
  });

  it('shows both versions when two administrators edit one virtual model, and overwrites only on request', async () => {
    const targets = [{ provider: 'llamacpp', model: 'qwen3-32b' }];
    expect((await put('/admin/virtual-models', { source: 'shared', targets, description: 'begin' })).status).toBe(200);
    const opened = await dashboard.open('/models?tab=virtual&edit=shared');
    const { page } = opened;
    const dialog = dialogOf(page);
    await dialog.getByLabel('Description').fill('mine');
    expect((await put('/admin/virtual-models', { source: 'shared', targets, description: 'theirs' })).status).toBe(200);
    await dialog.getByRole('button', { name: 'Save', exact: true }).click();
    await dialog.getByText('It was changed by another administrator').waitFor();
    await expect.poll(() => shownText(dialog)).toMatch(/theirs[\s\S]*mine/);
    expect((await virtualModel('shared')).description).toBe('theirs');
    await submit(page, 'Save mine over it');
    expect((await virtualModel('shared')).description).toBe('mine');

    await page.getByRole('button', { name: 'Edit shared' }).click();
    await dialog.getByLabel('Description').fill('mine again');
    expect((await put('/admin/virtual-models', { source: 'shared', targets, description: 'last' })).status).toBe(200);
    await dialog.getByRole('button', { name: 'Save', exact: true }).click();
    await submit(page, 'Keep the current version');
    expect((await virtualModel('shared')).description).toBe('last');
    opened.expectFindings(({ text }) => text.includes('409'));
    expectClean(opened);
  });

  it('creates an access policy, which the list of models shows', async () => {
    const opened = await dashboard.open('/models?tab=virtual');
    const { page } = opened;
    await page.getByRole('button', { name: 'New access policy' }).click();
    await dialogOf(page).getByRole('combobox', { name: 'Models' }).fill('openai/gpt-5-mini');
    await dialogOf(page)
      .getByLabel(/^User paths/)
      .fill('/team/alpha');
    await submit(page, 'Create the access policy');
    expect(await virtualModel('openai/gpt-5-mini')).toMatchObject({ kind: 'policy', user_paths: ['/team/alpha'] });
    await page.getByRole('tab', { name: 'Models', exact: true }).click();
    await settled(page);
    const row = page.getByRole('row').filter({ hasText: 'gpt-5-mini' });
    await expect.poll(() => shownText(row)).toContain('/team/alpha');
    expectClean(opened);
  });

  it('shows virtual models and prices as they were, without a way to change them', async () => {
    const targets = [{ provider: 'llamacpp', model: 'qwen3-32b' }];
    await put('/admin/virtual-models', { source: 'former', targets });
    await put('/admin/model-pricing-overrides', { selector: 'former-model', pricing: { input_per_mtok: 7 } });
    const { updated_at } = await virtualModel('former');
    const moment = new Date(Date.parse(updated_at) + 1000).toISOString();
    await expect.poll(() => Date.now() > Date.parse(moment)).toBe(true);
    for (const [path, json] of [
      ['/admin/virtual-models', { source: 'former' }],
      ['/admin/model-pricing-overrides', { selector: 'former-model' }],
    ] as const) {
      expect((await ask(dashboard.url, path, { method: 'DELETE', json })).status).toBe(204);
    }
    const opened = await dashboard.open('/models?tab=virtual');
    const { page } = opened;
    expect(await page.getByRole('tabpanel').textContent()).not.toContain('former');
    await opened.visit(`/models?tab=virtual&as_of=${moment}`);
    expect(await shownText(page.getByRole('table', { name: 'Virtual models' }))).toContain('former');
    expect(await page.getByRole('tabpanel').getByRole('button').count()).toBe(0);
    await page.getByRole('tab', { name: 'Prices' }).click();
    await settled(page);
    expect(await shownText(page.getByRole('table'))).toMatch(/former-model\s+\$7/);
    expect(new URL(page.url()).searchParams.get('as_of')).toBe(moment);
    expect(await page.getByRole('tabpanel').getByRole('button').count()).toBe(0);
    expectClean(opened);
  });

  it('sets a price, recalculates past costs with it, and removes it', async () => {
    const request = { model: 'llamacpp/qwen3-32b', messages: [{ role: 'user', content: 'Hi' }] };
    expect((await ask(dashboard.url, '/v1/chat/completions', { json: request })).status).toBe(200);
    const opened = await dashboard.open('/models?tab=prices');
    const { page } = opened;
    const dialog = dialogOf(page);
    await page.getByRole('button', { name: 'Set the price of llamacpp/qwen3-32b' }).click();
    await dialog.getByLabel(/^Input, USD/).fill('0.5');
    await dialog.getByLabel(/^Output, USD/).fill('2');
    await submit(page, 'Save the price');
    const stored = await read('/admin/model-pricing-overrides/llamacpp%2Fqwen3-32b');
    expect(stored.pricing).toEqual({ input_per_mtok: 0.5, output_per_mtok: 2 });
    const inForce = page.getByRole('table', { name: 'Prices in force' });
    await expect.poll(() => shownText(inForce)).toMatch(/qwen3-32b\s+\$0\.5\s+\$2[\s\S]*set for llamacpp\/qwen3-32b/);

    await page.getByRole('button', { name: 'Recalculate past costs' }).click();
    await dialog.getByLabel('Requests of').selectOption('7');
    await dialog.getByLabel('Model').fill('llamacpp/qwen3-32b');
    expect(await shownText(dialog)).toMatch(/from \d{4}-\d\d-\d\d to \d{4}-\d\d-\d\d .*of llamacpp\/qwen3-32b/);
    await dialog.getByRole('button', { name: 'Recalculate the costs' }).click();
    await dialog.getByText('1 of 1 recorded costs changed.').waitFor();
    await dialog.getByRole('button', { name: 'Close' }).last().click();

    await page.getByRole('button', { name: 'Remove the price of llamacpp/qwen3-32b' }).click();
    expect(await shownText(dialog)).toContain('1 listed model uses this price now.');
    await submit(page, 'Remove the price');
    expect(await read('/admin/model-pricing-overrides')).toEqual([]);
    expectClean(opened);
  });

  it('adds a provider, replaces its credential without showing it, and removes it', async () => {
    const address = await added.listen();
    const opened = await dashboard.open('/models?tab=providers');
    const { page } = opened;
    const dialog = dialogOf(page);
    await page.getByRole('button', { name: 'Add a provider' }).click();
    expect(await dialog.getByLabel('Name').inputValue()).toBe('openai-2');
    await dialog.getByLabel('Key 1').fill('sk-wrong');
    await dialog.getByText('More settings').click();
    await dialog.getByLabel('Base URL').fill('not an address');
    await dialog.getByRole('button', { name: 'Add the provider' }).click();
    await expect.poll(() => dialog.getByLabel('Base URL').getAttribute('aria-invalid')).toBe('true');
    opened.expectFindings(({ text }) => text.includes('400'));
    await dialog.getByLabel('Base URL').fill(address);
    await submit(page, 'Add the provider');
    const card = page.getByRole('list', { name: 'Providers' }).getByRole('listitem').filter({ hasText: 'openai-2' });
    await expect.poll(() => shownText(card)).toContain('Unhealthy');

    await page.getByRole('button', { name: 'Edit openai-2' }).click();
    expect(await shownText(dialog)).toContain('Stored encrypted. It cannot be shown.');
    await dialog.getByRole('button', { name: 'Replace Key 1' }).click();
    expect(await dialog.getByLabel('Key 1', { exact: true }).inputValue()).toBe('');
    await dialog.getByLabel('Key 1', { exact: true }).fill('sk-added-first');
    await submit(page, 'Save');
    await expect.poll(() => shownText(card)).toContain('Healthy');
    expect(await page.content()).not.toContain('sk-added-first');
    expect(page.url()).not.toContain('sk-');
    expect((await read('/admin/provider-credentials/openai-2')).api_keys).toEqual(['********']);

    await page.getByRole('button', { name: 'Edit openai-2' }).click();
    await dialog.getByLabel('Requests are sent to it').uncheck();
    await submit(page, 'Save');
    await expect.poll(() => shownText(card)).toContain('Off');
    await page.getByRole('button', { name: 'Edit openai-2' }).click();
    await dialog.getByLabel('Requests are sent to it').check();
    await submit(page, 'Save');
    await expect.poll(() => shownText(card)).toContain('Healthy');

    const targets = [{ provider: 'openai-2', model: 'added-model' }];
    await put('/admin/virtual-models', { source: 'only-added', targets });
    await page.getByRole('button', { name: 'Remove openai-2' }).click();
    await expect.poll(() => shownText(dialog)).toMatch(/1 model is no longer available: openai-2\/added-model/);
    expect(await shownText(dialog)).toMatch(/without any target left: only-added/);
    await submit(page, 'Remove the provider');
    expect((await ask(dashboard.url, '/admin/provider-credentials/openai-2')).status).toBe(404);
    await expect.poll(() => card.count()).toBe(0);
    expectClean(opened);
  });

  it('reads the model lists again', async () => {
    const opened = await dashboard.open('/models?tab=providers');
    const { page } = opened;
    await page.getByRole('button', { name: 'Read the model lists again' }).click();
    await page.getByText('3 models of 2 providers.').waitFor();
    expectClean(opened);
  });

  it('shows the models alone to the administrator of a subtree', async () => {
    const made = await ask(dashboard.url, '/admin/auth-keys', {
      json: { name: 'lead of a team', user_path: '/team', dashboard_access: true },
    });
    const { value } = await json(made);
    const opened = await dashboard.open('/models?tab=providers', { key: value });
    const { page } = opened;
    expect(await shownText(page.locator('main'))).toContain('belong to the whole gateway');
    const table = page.getByRole('table', { name: 'Models' });
    expect(await table.locator('tbody tr[aria-rowindex]').count()).toBe(3);
    expect(await page.getByRole('tab').count()).toBe(0);
    expect(opened.answers.filter(({ status }) => status === 403)).toEqual([]);
    expectClean(opened);
  });
});
