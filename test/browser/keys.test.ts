/** The page Users and keys: its changes, checked through the API. */
import type { Page } from 'playwright-core';
import { expect, it } from 'vitest';
import { adminChanges } from './support/admin-changes.ts';
import { expectClean, settled, shownText } from './support/dashboard.ts';
import { until } from './support/until.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

const small = 'demo/simulated-small';

describeInChromium('the page Users and keys', () => {
  const dashboard = withDashboard({ data: 'shared changes' });
  const admin = adminChanges(dashboard);

  /** Opens a form of the key's page, and saves it. */
  async function edit(page: Page, button: string, fill: () => Promise<void>): Promise<void> {
    await page.getByRole('button', { name: button }).click();
    await fill();
    await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
  }

  it('creates a key, shows its secret once, and keeps it out of the address and of a reload', async () => {
    const opened = await dashboard.open('/keys?tab=keys');
    const { page } = opened;
    await page.getByRole('button', { name: 'Create a key' }).click();
    const dialog = page.getByRole('dialog', { name: 'Create a key' });
    await dialog.getByLabel('Name', { exact: true }).fill('From the dashboard');
    await dialog.getByLabel('User path', { exact: true }).fill('/team/new');
    await dialog.getByLabel('Add a label').fill('one');
    await dialog.getByLabel('Add a label').press('Enter');
    await dialog.getByLabel('Add a label').fill('two');
    await dialog.getByLabel('Add a model or a provider').fill(small);
    await dialog.getByRole('button', { name: 'Create the key' }).click();
    const secret = page.getByRole('region', { name: 'The secret of this key' });
    await expect.poll(() => shownText(secret)).toMatch(/it is not shown again/);
    const value = (await shownText(secret.getByRole('group', { name: 'Secret', exact: true }))).trim();
    expect(await admin.statusWith(value)).toBe(200);
    const id = new URL(page.url()).pathname.split('/').at(-1) ?? '';
    expect(await admin.read(`/admin/auth-keys/${id}`)).toMatchObject({
      ...{ name: 'From the dashboard', user_path: '/team/new', labels: ['one', 'two'], allowed_models: [small] },
    });
    expect(page.url()).not.toContain(value.slice(-12));
    await page.reload();
    await settled(page);
    expect(await shownText(page.locator('body'))).not.toContain(value.slice(-12));
    expectClean(opened);
  });

  it('shows the changes of a key, and of a policy, on its page', async () => {
    const key = await admin.newKey({ name: 'First name', user_path: '/team/changes' });
    await admin.change('PUT', `/admin/auth-keys/${key.id}/name`, { name: 'Second name' });
    await admin.change('PUT', '/admin/users', { user_path: '/team/changes', allowed_models: [small] });
    const opened = await dashboard.open(`/keys/${key.id}`);
    const { page } = opened;
    await page.getByText('Changes of this key').click();
    const changes = page.getByRole('list', { name: 'Changes' });
    await expect.poll(() => shownText(changes)).toMatch(/First name[\s\S]*Second name/);
    await opened.visit('/keys?path=/team/changes');
    await page.getByText('Changes of this policy').click();
    await expect.poll(() => shownText(changes)).toContain(small);
    expectClean(opened);
  });

  it('changes every property of a key', async () => {
    const key = await admin.newKey({ name: 'To change' });
    const opened = await dashboard.open(`/keys/${key.id}`);
    const { page } = opened;
    const dialog = page.getByRole('dialog');
    await edit(page, 'Edit the name', async () => {
      await dialog.getByLabel('Name').fill('Changed');
      await dialog.getByLabel('Description').fill('for tests');
    });
    await edit(page, 'Edit the labels', () => dialog.getByLabel('Add a label').fill('trial'));
    await edit(page, 'Edit the allowed models', () => dialog.getByLabel('Add a model or a provider').fill(small));
    await edit(page, 'Edit the expiry', async () => {
      await dialog.getByLabel('Expires', { exact: true }).selectOption('At a time');
      await dialog.getByLabel('Expires at').fill('2099-01-02T03:04:05');
    });
    await edit(page, 'Edit the dashboard access', () => dialog.getByLabel('The key may administer').check());
    await edit(page, 'Edit the user path header', () => dialog.getByLabel('A request header').uncheck());
    await page.getByRole('heading', { level: 1, name: 'Changed' }).waitFor();
    await settled(page);
    expect(await admin.read(`/admin/auth-keys/${key.id}`)).toMatchObject({
      ...{ name: 'Changed', description: 'for tests', labels: ['trial'], allowed_models: [small] },
      ...{ expires_at: '2099-01-02T03:04:05.000Z', dashboard_access: true, user_path_header: false },
    });
    expectClean(opened);
  });

  it('shows what the gateway refuses at the field', async () => {
    const key = await admin.newKey({ name: 'To refuse' });
    const opened = await dashboard.open(`/keys/${key.id}`);
    const { page } = opened;
    await page.getByRole('button', { name: 'Edit the allowed models' }).click();
    const dialog = page.getByRole('dialog');
    const field = dialog.getByLabel('Add a model or a provider');
    await field.fill('unknown-provider/model');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await expect.poll(() => field.getAttribute('aria-invalid')).toBe('true');
    await expect.poll(() => shownText(dialog)).toMatch(/unknown provider 'unknown-provider'/);
    expect((await admin.read(`/admin/auth-keys/${key.id}`)).allowed_models).toEqual([]);
    opened.expectFindings(({ kind, text }) => kind === 'console' && text.includes('400'));
    expectClean(opened);
  });

  it('rotates a secret with a grace period, and shows uses of an ended secret', async () => {
    const key = await admin.newKey({ name: 'To rotate' });
    const opened = await dashboard.open(`/keys/${key.id}`);
    const { page } = opened;
    const rotate = async (grace: string): Promise<string> => {
      await page.getByRole('button', { name: 'Rotate the secret' }).click();
      await page.getByRole('dialog').getByLabel('How long the current secret').selectOption(grace);
      await page.getByRole('dialog').getByRole('button', { name: 'Rotate the secret' }).click();
      await page.getByRole('dialog').waitFor({ state: 'detached' });
      const secret = page.getByRole('group', { name: 'Secret', exact: true });
      return (await shownText(secret)).trim();
    };
    const second = await rotate('1 hour');
    expect([await admin.statusWith(key.value), await admin.statusWith(second)]).toEqual([200, 200]);
    const previous = page.getByRole('region', { name: 'Previous secret' });
    await expect.poll(() => shownText(previous)).toMatch(/accepted until/);
    await page.getByRole('button', { name: 'I have stored it' }).click();
    expect(await page.getByRole('heading', { level: 1 }).evaluate((heading) => heading.matches(':focus'))).toBe(true);
    const third = await rotate('None: it ends at once');
    expect([key.value, second, third].length).toBe(new Set([key.value, second, third]).size);
    expect([await admin.statusWith(second), await admin.statusWith(third)]).toEqual([401, 200]);
    // Analytics has a low priority: beside other tests it is behind.
    await until('the page shows the refused request', async () => {
      await opened.visit(`/keys/${key.id}`);
      return /refused requests? with an ended secret/.test(await shownText(previous));
    });
    expectClean(opened);
  });

  it('deactivates and reactivates a key', async () => {
    const key = await admin.newKey({ name: 'Off and on' });
    const opened = await dashboard.open(`/keys/${key.id}`);
    const { page } = opened;
    await page.getByRole('button', { name: 'Deactivate' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Deactivate the key' }).click();
    await page.getByRole('region', { name: 'This key works nowhere' }).waitFor();
    expect(await admin.statusWith(key.value)).toBe(401);
    await page.getByRole('button', { name: 'Reactivate' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Reactivate the key' }).click();
    await page.getByRole('region', { name: 'This key works nowhere' }).waitFor({ state: 'detached' });
    await settled(page);
    expect(await admin.statusWith(key.value)).toBe(200);
    expectClean(opened);
  });

  it('finds keys by a pasted secret, which does not get into the address, and renames a label', async () => {
    const key = await admin.newKey({ name: 'To find', labels: ['old-label'] });
    const opened = await dashboard.open('/keys?tab=keys');
    const { page } = opened;
    const keys = page.getByRole('table', { name: 'Keys' });
    await page.getByRole('searchbox', { name: 'Search' }).fill(key.value);
    await keys.getByRole('link', { name: 'To find' }).waitFor();
    expect(new URL(page.url()).searchParams.get('q')).toBe(key.value.slice(-4));
    await page.getByText('The search uses only the last four characters').waitFor();

    await page.getByRole('button', { name: 'Rename a label' }).click();
    const dialog = page.getByRole('dialog', { name: 'Rename a label on all keys' });
    await dialog.getByLabel('Label', { exact: true }).selectOption('old-label');
    await dialog.getByLabel('New name').fill('new-label');
    await dialog.getByRole('button', { name: 'Rename the label' }).click();
    await page.getByText('1 key has the label “new-label” instead of “old-label”.').waitFor();
    await page.getByRole('button', { name: 'Done' }).click();
    await settled(page);
    expect((await admin.read(`/admin/auth-keys/${key.id}`)).labels).toEqual(['new-label']);
    expectClean(opened);
  });

  it('sets, edits and removes the policy of a path, and shows the reason for each model', async () => {
    const opened = await dashboard.open('/keys');
    const { page } = opened;
    await page.getByRole('button', { name: 'Set the policy of another path' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('User path').fill('/policy/below');
    await dialog.getByLabel('Add a model or a provider').fill('demo/*');
    await dialog.getByRole('button', { name: 'Save the policy' }).click();
    await dialog.waitFor({ state: 'detached' });
    await admin.change('PUT', '/admin/users', { user_path: '/policy', allowed_models: [small] });
    await opened.visit('/keys?path=/policy/below&excluded=true');
    const models = page.getByRole('table', { name: 'Models of /policy/below' });
    await expect
      .poll(() => shownText(models.getByRole('row').filter({ hasText: small })))
      .toMatch(/yes\s+in the list of \/policy \(demo\/simulated-small\) and in its own list \(demo\/\)/);
    await expect
      .poll(() => shownText(models.getByRole('row').filter({ hasText: 'demo/simulated-large' })))
      .toMatch(/no\s+not in the list of \/policy/);

    await page.getByRole('button', { name: 'Remove the policy' }).click();
    await dialog.getByRole('button', { name: 'Remove the policy' }).click();
    await dialog.waitFor({ state: 'detached' });
    await settled(page);
    const { users } = await admin.read('/admin/users');
    expect(users.map(({ user_path }: { user_path: string }) => user_path)).not.toContain('/policy/below');
    // The path had no policy and no key before: reading its revision is 404.
    opened.expectFindings(({ kind, text }) => kind === 'console' && text.includes('404'));
    expectClean(opened);
  });

  it('sets a policy again at a path whose policy was removed, without a conflict', async () => {
    await admin.change('PUT', '/admin/users', { user_path: '/again', allowed_models: [small] });
    await admin.change('DELETE', '/admin/users?user_path=/again');
    const opened = await dashboard.open('/keys');
    const { page } = opened;
    await page.getByRole('button', { name: 'Set the policy of another path' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('User path').fill('/again');
    await dialog.getByLabel('Add a model or a provider').fill('demo/');
    await dialog.getByRole('button', { name: 'Save the policy' }).click();
    await dialog.waitFor({ state: 'detached' });
    await settled(page);
    expect((await admin.read('/admin/users/%2Fagain')).allowed_models).toEqual(['demo/']);
    opened.expectFindings(({ kind, text }) => kind === 'console' && text.includes('404'));
    expectClean(opened);
  });

  it('shows keys, paths and explanations of a past time, and changes nothing there', async () => {
    const key = await admin.newKey({ name: 'Name then', user_path: '/then' });
    const { entries } = await admin.read(`/admin/history?subject=key:${key.id}`);
    const then = entries[0].position;
    await admin.change('PUT', `/admin/auth-keys/${key.id}/name`, { name: 'Name now' });
    await admin.change('PUT', '/admin/users', { user_path: '/then', allowed_models: ['demo/simulated-large'] });
    const opened = await dashboard.open(`/keys/${key.id}?as_of=${then}`);
    const { page } = opened;
    await page.getByRole('heading', { level: 1, name: 'Name then' }).waitFor();
    expect(
      await page
        .locator('main')
        .getByRole('button', { name: /Edit|Rotate|Deactivate/ })
        .count(),
    ).toBe(0);
    await opened.visit(`/keys?tab=keys&q=Name&as_of=${then}`);
    await page.getByRole('link', { name: 'Name then' }).waitFor();
    expect(await page.getByRole('button', { name: /Create|Rename/ }).count()).toBe(0);
    const question = `tab=explain&key=${key.id}&model=${small}`;
    await opened.visit(`/keys?${question}&as_of=${then}`);
    await page.getByText(`The key “Name then” at /then could use ${small}.`).waitFor();
    await page.getByRole('button', { name: 'Show the present' }).click();
    await page.getByText(`The key “Name now” at /then may not use ${small}.`).waitFor();
    await page.getByText('It is not in the list of /then: the master key set this at').waitFor();
    await settled(page);
    expectClean(opened);
  });
});
