/** Changes whose answers are lost on the way: the gateway has done them, or not, and the page finds out which. */
import type { Locator, Page, Route } from 'playwright-core';
import { expect, it } from 'vitest';
import { adminChanges } from './support/admin-changes.ts';
import { expectClean, type OpenPage, shownText } from './support/dashboard.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

/** What becomes of the answer. The request reaches the gateway in all cases. */
const losses: Readonly<Record<string, (route: Route, text: string) => Promise<void>>> = {
  'is cut off': (route) => route.abort('connectionreset'),
  'is that of a proxy whose time is over': (route) => route.fulfill({ status: 504, body: '<h1>504</h1>' }),
  'ends in the middle': (route, text) =>
    route.fulfill({ status: 200, contentType: 'application/json', body: text.slice(0, text.length / 2) }),
};

/** The next change on the path is done, and its answer is lost. */
async function loseNext(page: Page, path: string, lose: (route: Route, text: string) => Promise<void>): Promise<void> {
  await onNextChange(page, path, async (route) => {
    const answer = await route.fetch();
    await lose(route, await answer.text());
  });
}

/** The next change on the path does not reach the gateway. */
async function dropNext(page: Page, path: string): Promise<void> {
  await onNextChange(page, path, (route) => route.abort('connectionreset'));
}

async function onNextChange(page: Page, path: string, handle: (route: Route) => Promise<void>): Promise<void> {
  let isOver = false;
  await page.route(
    (url) => url.pathname === path,
    (route) => {
      if (isOver || route.request().method() === 'GET') return route.continue();
      isOver = true;
      return handle(route);
    },
  );
}

/** The browser itself reports lost answers, and refused ones, on its console. */
function expectOnlyFailures(opened: OpenPage): void {
  opened.expectFindings(({ kind, text }) => kind === 'console' && /Failed to load resource/.test(text));
  expectClean(opened);
}

describeInChromium('a change whose answer is lost', () => {
  const dashboard = withDashboard({ data: 'shared changes' });
  const admin = adminChanges(dashboard);

  async function openForm(path: string, button: string): Promise<{ opened: OpenPage; dialog: Locator }> {
    const opened = await dashboard.open(path);
    await opened.page.getByRole('button', { name: button }).click();
    return { opened, dialog: opened.page.getByRole('dialog') };
  }

  for (const [how, lose] of Object.entries(losses)) {
    it(`finds the key that was created when its answer ${how}`, async () => {
      const { opened, dialog } = await openForm('/keys?tab=keys', 'Create a key');
      const name = `Lost: ${how}`;
      await dialog.getByLabel('Name', { exact: true }).fill(name);
      await loseNext(opened.page, '/admin/auth-keys', lose);
      await dialog.getByRole('button', { name: 'Create the key' }).click();
      await expect.poll(() => shownText(dialog)).toMatch(/It was done\. Its secret has not arrived here/);
      expect(await dialog.getByRole('button', { name: /Create the key|Send it again/ }).count()).toBe(0);
      await dialog.getByRole('link', { name }).click();
      await opened.page.getByRole('heading', { level: 1, name }).waitFor();
      const made = (await admin.read('/admin/auth-keys')).filter((key: { name: string }) => key.name === name);
      expect(made).toHaveLength(1);
      expectOnlyFailures(opened);
    });
  }

  it('was not done: it can be sent again, and is then done once', async () => {
    const { opened, dialog } = await openForm('/keys?tab=keys', 'Create a key');
    await dialog.getByLabel('Name', { exact: true }).fill('Dropped');
    await dropNext(opened.page, '/admin/auth-keys');
    await dialog.getByRole('button', { name: 'Create the key' }).click();
    await expect.poll(() => shownText(dialog)).toContain('It was not done so far.');
    await dialog.getByRole('button', { name: 'Send it again' }).click();
    await opened.page.getByRole('region', { name: 'The secret of this key' }).waitFor();
    const made = (await admin.read('/admin/auth-keys')).filter((key: { name: string }) => key.name === 'Dropped');
    expect(made).toHaveLength(1);
    expectOnlyFailures(opened);
  });

  it('has rotated a key: the page says that the new secret was lost, and the next rotation succeeds', async () => {
    const key = await admin.newKey({ name: 'Rotated' });
    const { opened, dialog } = await openForm(`/keys/${key.id}`, 'Rotate the secret');
    await loseNext(opened.page, `/admin/auth-keys/${key.id}/rotate`, (route) => route.abort('connectionreset'));
    await dialog.getByRole('button', { name: 'Rotate the secret' }).click();
    await expect.poll(() => shownText(dialog)).toMatch(/It was done\. The new secret has not arrived here/);
    // The one of the head of the dialog has a label of its own.
    await dialog.getByText('Close', { exact: true }).click();
    await dialog.waitFor({ state: 'detached' });
    await expect.poll(() => shownText(opened.page.locator('main'))).toMatch(/previous/i);
    await opened.page.getByRole('button', { name: 'Rotate the secret' }).click();
    await dialog.getByRole('button', { name: 'Rotate the secret' }).click();
    const secret = opened.page.getByRole('group', { name: 'Secret', exact: true });
    await secret.waitFor();
    expect(await admin.statusWith((await shownText(secret)).trim())).toBe(200);
    expectOnlyFailures(opened);
  });

  it('has saved a name: the page says that it is in force', async () => {
    const key = await admin.newKey({ name: 'Before' });
    const { opened, dialog } = await openForm(`/keys/${key.id}`, 'Edit the name');
    await dialog.getByLabel('Name').fill('After');
    await loseNext(opened.page, `/admin/auth-keys/${key.id}/name`, (route) => route.abort('connectionreset'));
    await dialog.getByRole('button', { name: 'Save' }).click();
    await expect.poll(() => shownText(dialog)).toContain('It was done. What you have entered is in force.');
    await dialog.getByText('Close', { exact: true }).click();
    await opened.page.getByRole('heading', { level: 1, name: 'After' }).waitFor();
    expectOnlyFailures(opened);
  });

  it('has saved a name that another administrator changed since: both versions are shown', async () => {
    const key = await admin.newKey({ name: 'Before' });
    const { opened, dialog } = await openForm(`/keys/${key.id}`, 'Edit the name');
    await dialog.getByLabel('Name').fill('Mine');
    await loseNext(opened.page, `/admin/auth-keys/${key.id}/name`, async (route) => {
      await admin.change('PUT', `/admin/auth-keys/${key.id}/name`, { name: 'Of another one' });
      await route.abort('connectionreset');
    });
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.getByRole('button', { name: 'Compare both versions' }).click();
    await expect.poll(() => shownText(dialog)).toMatch(/Of another one[\s\S]*Mine/);
    expectOnlyFailures(opened);
  });

  it('asks to load the page again after a deactivation', async () => {
    const key = await admin.newKey({ name: 'To deactivate' });
    const { opened, dialog } = await openForm(`/keys/${key.id}`, 'Deactivate');
    await loseNext(opened.page, `/admin/auth-keys/${key.id}/deactivate`, (route) => route.abort('connectionreset'));
    await dialog.getByRole('button', { name: 'Deactivate the key' }).click();
    await expect.poll(() => shownText(dialog)).toContain('It may have been done.');
    await dialog.getByRole('button', { name: 'Load the page again' }).click();
    await opened.page.getByRole('button', { name: 'Reactivate' }).waitFor();
    expectOnlyFailures(opened);
  });

  it('keeps its dialog open until the outcome is known', async () => {
    const key = await admin.newKey({ name: 'Slow' });
    const { opened, dialog } = await openForm(`/keys/${key.id}`, 'Edit the name');
    await dialog.getByLabel('Name').fill('Slower');
    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    await loseNext(opened.page, `/admin/auth-keys/${key.id}/name`, async (route) => {
      await held;
      await route.fulfill({ status: 500, json: { error: { message: 'It failed.', code: 'internal_error' } } });
    });
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.getByText('Waiting for the answer').waitFor();
    await opened.page.keyboard.press('Escape');
    await opened.page.keyboard.press('Escape');
    release();
    await expect.poll(() => shownText(dialog)).toContain('It failed.');
    expectOnlyFailures(opened);
  });

  it('finds a removed virtual model, and keeps what was entered', async () => {
    const target = 'demo/simulated-small';
    await admin.change('PUT', '/admin/virtual-models', { source: 'removed-meanwhile', targets: [{ model: target }] });
    const opened = await dashboard.open('/models?tab=virtual');
    const row = opened.page.getByRole('row').filter({ hasText: 'removed-meanwhile' });
    await row.getByRole('button', { name: /Edit/ }).click();
    const dialog = opened.page.getByRole('dialog');
    await dialog.getByLabel('Description').fill('written by me');
    await admin.change('DELETE', '/admin/virtual-models', { source: 'removed-meanwhile' });
    await dialog.getByRole('button', { name: /^Save/ }).click();
    await expect.poll(() => shownText(dialog)).toContain('It was removed while you edited it.');
    await dialog.getByRole('button', { name: 'Back to the form' }).click();
    expect(await dialog.getByLabel('Description').inputValue()).toBe('written by me');
    expectOnlyFailures(opened);
  });
});
