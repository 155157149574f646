/** The page "Workflows and guardrails" with the seeded history. */
import type { Page } from 'playwright-core';
import { expect, it } from 'vitest';
import { ask } from '../e2e/gateway-process.ts';
import type { Answered } from '../support/answered.ts';
import { accessibilityViolations } from './support/accessibility.ts';
import { expectClean, overflowOf, settled, shownText } from './support/dashboard.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

describeInChromium('the page Workflows and guardrails', () => {
  const dashboard = withDashboard({ data: 'shared changes' });

  async function read(path: string): Promise<Answered> {
    const answer = await ask(dashboard.url, path);
    expect(answer.status, path).toBe(200);
    return answer.json();
  }
  const activeAt = async (path: string): Promise<Answered> =>
    (await read('/admin/workflows')).find(({ scope }: Answered) => scope.scope_user_path === path);
  const guardrail = async (name: string): Promise<Answered> =>
    (await read('/admin/guardrails')).find((one: Answered) => one.name === name);
  const create = async (path: string, steps: object[], name = 'other'): Promise<Answered> => {
    const features = { cache: true, audit: true, usage: true, guardrails: true };
    const json = { scope_user_path: path, name, workflow_payload: { features, steps } };
    const answer = await ask(dashboard.url, '/admin/workflows', { json });
    expect(answer.status).toBe(201);
    return answer.json();
  };
  const stepsOf = ({ workflow_payload: { steps } }: Answered) =>
    steps.map(({ ref, phase }: Answered) => `${phase} ${ref}`);
  const submit = (page: Page, name: string) => page.getByRole('dialog').getByRole('button', { name }).click();
  const closed = (page: Page) => page.getByRole('dialog').waitFor({ state: 'detached' });

  it('creates a version with guardrails in another order, and shows its differences', async () => {
    const opened = await dashboard.open('/workflows');
    const { page } = opened;
    await page.getByRole('link', { name: '/customers/support' }).click();
    await page.getByRole('button', { name: 'New version from this' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name').fill('support with house style');
    await dialog.getByLabel(/^Response cache/).uncheck();
    await dialog.getByLabel('Guardrail for Request (prompt)').selectOption('house-style');
    await dialog.getByRole('button', { name: 'Add to Request (prompt)' }).click();
    await dialog.getByRole('button', { name: 'Move house-style up (prompt)' }).click();
    await dialog.getByLabel('Guardrail for Streamed answer (stream)').selectOption('no-code-names');
    await dialog.getByRole('button', { name: 'Add to Streamed answer (stream)' }).click();
    await submit(page, 'Create the version');
    await closed(page);
    const created = await activeAt('/customers/support');
    expect(created).toMatchObject({ version: 2, name: 'support with house style' });
    expect(created.workflow_payload.features.cache).toBe(false);
    expect(stepsOf(created)).toEqual(['prompt house-style', 'prompt personal-data', 'stream no-code-names']);
    await page.waitForURL((url) => url.searchParams.get('workflow') === created.id);
    await settled(page);
    await expect.poll(() => shownText(page.locator('main'))).toMatch(/workflow_payload\.features\.cache/);
    await page.getByRole('button', { name: 'Side by side' }).click();
    await page.getByRole('group', { name: 'Version 1 beside Version 2' }).waitFor();
    expectClean(opened);
  });

  it('does not replace a version that another administrator created meanwhile', async () => {
    await create('/conflict', [{ ref: 'personal-data' }], 'first');
    const opened = await dashboard.open('/workflows');
    const { page } = opened;
    await page.getByRole('link', { name: '/conflict' }).click();
    await page.getByRole('button', { name: 'New version from this' }).click();
    await page.getByRole('dialog').getByLabel('Name').fill('mine');
    const theirs = await create('/conflict', [{ ref: 'no-code-names' }], 'theirs');
    await submit(page, 'Create the version');
    await expect.poll(() => shownText(page.getByRole('dialog'))).toMatch(/changed by another administrator/);
    await expect.poll(() => shownText(page.getByRole('dialog'))).toMatch(/theirs/);
    expect((await activeAt('/conflict')).id).toBe(theirs.id);
    await submit(page, 'Save mine over it');
    await closed(page);
    expect(await activeAt('/conflict')).toMatchObject({ name: 'mine', version: 3 });
    opened.expectFindings(({ text }) => /409/.test(text));
    expectClean(opened);
  });

  it('deactivates a workflow after naming the one that applies then', async () => {
    await create('/above', [{ ref: 'personal-data' }], 'above');
    await create('/above/below', []);
    const opened = await dashboard.open('/workflows');
    const { page } = opened;
    await page.getByRole('link', { name: '/above/below' }).click();
    await page.getByRole('button', { name: 'Deactivate' }).click();
    const dialog = page.getByRole('dialog');
    const said = await shownText(dialog);
    expect(said).toMatch(/follow the workflow of \/above \(above, version 1\)/);
    expect(said).toMatch(/personal-data/);
    await submit(page, 'Deactivate the workflow');
    await closed(page);
    expect(await activeAt('/above/below')).toBeUndefined();
    await page.getByRole('link', { name: '/above', exact: true }).waitFor();
    await expect.poll(() => page.getByRole('link', { name: '/above/below' }).count()).toBe(0);
    expectClean(opened);
  });

  it('creates, changes and deletes a guardrail; one that is used stays', async () => {
    const opened = await dashboard.open('/workflows?tab=guardrails');
    const { page } = opened;
    await page.getByRole('button', { name: 'New guardrail' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name').fill('words');
    await dialog.getByLabel('Type').selectOption('string_replace');
    await dialog.getByLabel(/^Rules/).fill('desk => table');
    await submit(page, 'Save the guardrail');
    await closed(page);
    expect(await guardrail('words')).toMatchObject({ type: 'string_replace', config: { rules: 'desk => table' } });
    await page.getByRole('button', { name: 'Change', exact: true }).click();
    await dialog.getByLabel(/^Rules/).fill('desk => bureau');
    await dialog.getByLabel('If it fails').selectOption('open');
    await submit(page, 'Save the guardrail');
    await closed(page);
    expect(await guardrail('words')).toMatchObject({ config: { rules: 'desk => bureau' }, fail_mode: 'open' });
    await create('/uses-words', [{ ref: 'words' }]);
    await page.reload();
    await page.getByRole('button', { name: 'Delete' }).click();
    expect(await shownText(dialog)).toMatch(/An active workflow uses "words".*\n*.*\/uses-words/);
    await submit(page, 'Delete the guardrail');
    await expect.poll(() => shownText(dialog)).toMatch(/guardrail_in_use/);
    await page.keyboard.press('Escape');
    await create('/uses-words', []);
    await page.getByRole('button', { name: 'Delete' }).click();
    await submit(page, 'Delete the guardrail');
    await closed(page);
    expect(await guardrail('words')).toBeUndefined();
    opened.expectFindings(({ text }) => /400/.test(text));
    expectClean(opened);
  });

  it('tests one text and shows what the guardrail changed and found', async () => {
    const opened = await dashboard.open('/workflows?tab=test&guardrail=personal-data');
    const { page } = opened;
    await page.getByLabel('Text', { exact: true }).fill('Write to jane@example.com today.');
    await page.getByRole('button', { name: 'Test', exact: true }).click();
    const panel = page.getByRole('tabpanel');
    await expect.poll(() => shownText(panel)).toMatch(/1 × EMAIL/);
    await expect.poll(() => shownText(panel)).toMatch(/<EMAIL_1>/);
    expect(await shownText(panel)).toMatch(/allowed/);
    await page.getByLabel('Guardrail', { exact: true }).selectOption('saved:no-code-names');
    await page.getByLabel('Text', { exact: true }).fill('The plan of Project Falcon');
    await page.getByRole('button', { name: 'Test', exact: true }).click();
    await expect.poll(() => shownText(panel)).toMatch(/blocked/);
    expectClean(opened);
  });

  it('shows the workflows and guardrails of a past time without buttons that change them', async () => {
    await create('/new-today', []);
    const before = `${dashboard.facts.yesterday.date}T05:00:00Z`;
    const opened = await dashboard.open(`/workflows?as_of=${before}`);
    const { page } = opened;
    await page.getByRole('link', { name: '/customers/support' }).waitFor();
    expect(await page.getByRole('link', { name: '/new-today' }).count()).toBe(0);
    expect(await page.getByRole('link', { name: '/customers/web' }).count()).toBe(0);
    expect(await page.getByRole('button', { name: 'New workflow' }).count()).toBe(0);
    await page.getByRole('tab', { name: 'Guardrails' }).click();
    await page.getByRole('link', { name: 'no-code-names' }).waitFor();
    expect(await page.getByRole('link', { name: 'house-style' }).count()).toBe(0);
    expectClean(opened);
  });

  it('has details, dialogs and results without violations of WCAG 2.2 AA in a window of 360 pixels', async () => {
    const found: string[] = [];
    const check = async (what: string) => {
      found.push(...(await accessibilityViolations(page)).map((text) => `${what}: ${text}`));
      const pixels = await overflowOf(page);
      if (pixels > 0) found.push(`${what}: ${pixels} pixels too wide`);
    };
    await create('/narrow', [{ ref: 'personal-data' }, { ref: 'no-code-names', step: 1 }]);
    const { id } = await create('/narrow', [{ ref: 'personal-data' }, { ref: 'no-code-names', step: 1 }], 'second');
    const narrow = { viewport: { width: 360, height: 740 } };
    const opened = await dashboard.open(`/workflows?workflow=${id}`, { context: narrow });
    const { page } = opened;
    await check('workflow');
    for (const name of ['New version from this', 'Deactivate']) {
      await page.getByRole('button', { name }).click();
      await page.getByRole('dialog').waitFor();
      await check(name);
      await page.keyboard.press('Escape');
    }
    await opened.visit('/workflows?tab=guardrails&guardrail=personal-data');
    await check('guardrail');
    for (const name of ['Change', 'Delete']) {
      await page.getByRole('button', { name, exact: true }).click();
      await page.getByRole('dialog').waitFor();
      await check(name);
      await page.keyboard.press('Escape');
    }
    await opened.visit('/workflows?tab=test&guardrail=personal-data');
    await page.getByLabel('Text', { exact: true }).fill('Write to jane@example.com today.');
    await page.getByRole('button', { name: 'Test', exact: true }).click();
    await page.getByText('<EMAIL_1>').first().waitFor();
    await check('test');
    await opened.visit('/workflows?tab=replay&range=yesterday');
    const run = page.getByRole('button', { name: 'Run the draft' });
    expect(await run.isDisabled()).toBe(true);
    await page.getByLabel('Draft guardrail').selectOption('type:pii');
    await check('draft');
    await run.click();
    await page
      .getByRole('heading', { name: 'What the draft would have done', exact: true })
      .waitFor({ timeout: 30_000 });
    await check('report');
    expect(found).toEqual([]);
    expectClean(opened);
  });

  it('replays a changed guardrail, and cancels a run', async () => {
    const opened = await dashboard.open('/workflows?tab=guardrails&guardrail=no-code-names');
    const { page } = opened;
    await page.getByRole('button', { name: 'Replay a change' }).click();
    await page.getByLabel('Runs in the workflow of').selectOption({ label: '/team/platform' });
    await page.getByLabel(/^Rules/).fill('Project Falcon\nSummarise');
    await page.getByRole('button', { name: 'Run the draft' }).click();
    await page.getByRole('heading', { name: 'Run of a draft' }).waitFor();
    const cancel = page.getByRole('button', { name: 'Cancel the run' });
    await cancel.click({ timeout: 4000 }).catch(() => undefined);
    const id = new URL(page.url()).searchParams.get('run');
    await expect.poll(() => shownText(page.getByRole('tabpanel'))).toMatch(/cancelled|completed/);
    expect((await read(`/admin/guardrails/replay/${id}`)).status).toMatch(/cancelled|completed/);
    await page.getByRole('link', { name: 'Draft and all runs' }).click();
    await page.getByRole('table').getByRole('link').first().waitFor();
    expect(await page.getByLabel(/^Rules/).inputValue()).toBe('Project Falcon\nSummarise');
    expectClean(opened);
  });
});
