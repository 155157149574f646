/** Two administrators change the same object: the second one sees both versions, and nothing is overwritten silently. */
import type { Locator } from 'playwright-core';
import { describe, expect, it } from 'vitest';
import { accessibilityViolations } from './support/accessibility.ts';
import { adminChanges } from './support/admin-changes.ts';
import { expectClean, type OpenPage, settled, shownText } from './support/dashboard.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

describeInChromium('concurrent changes', () => {
  const dashboard = withDashboard({ data: 'shared changes' });
  const admin = adminChanges(dashboard);

  /** The same page in two browsers. */
  async function twice(path: string): Promise<[OpenPage, OpenPage]> {
    return [await dashboard.open(path), await dashboard.open(path)];
  }

  /** Opens a form and fills it without saving. */
  async function begin({ page }: OpenPage, button: string, field: string, text: string): Promise<Locator> {
    await page.getByRole('button', { name: button }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel(field).fill(text);
    return dialog;
  }

  /** The 409 of the conflict, which the browser itself reports on its console, and nothing else. */
  function expectOneConflict(opened: OpenPage): void {
    const conflicts = opened.answers.filter(({ status }) => status === 409);
    expect(conflicts).toHaveLength(1);
    opened.expectFindings(({ kind, text }) => kind === 'console' && text.includes('409'));
    expectClean(opened);
  }

  describe('of a key', () => {
    const nameOf = async (id: string): Promise<string> => (await admin.read(`/admin/auth-keys/${id}`)).name;

    /** The second browser's form after both have saved. */
    async function conflict() {
      const key = await admin.newKey({ name: 'Before' });
      const [first, second] = await twice(`/keys/${key.id}`);
      const ofFirst = await begin(first, 'Edit the name', 'Name', 'Of the first');
      const ofSecond = await begin(second, 'Edit the name', 'Name', 'Of the second');
      await ofFirst.getByRole('button', { name: 'Save' }).click();
      await ofFirst.waitFor({ state: 'detached' });
      await ofSecond.getByRole('button', { name: 'Save' }).click();
      await ofSecond.getByText('It was changed by another administrator').waitFor();
      return { key, first, second, dialog: ofSecond };
    }

    it('shows both versions, and saves nothing until one is chosen', async () => {
      const { key, second, dialog } = await conflict();
      await expect.poll(() => shownText(dialog)).toMatch(/Of the first[\s\S]*Of the second/);
      expect(await nameOf(key.id)).toBe('Of the first');
      await second.page.keyboard.press('Escape');
      await dialog.waitFor({ state: 'detached' });
      expect(await nameOf(key.id)).toBe('Of the first');
      expectOneConflict(second);
    });

    it('keeps the current version when that is chosen, and then shows it', async () => {
      const { key, first, second, dialog } = await conflict();
      await dialog.getByRole('button', { name: 'Keep the current version' }).click();
      await second.page.getByRole('heading', { level: 1, name: 'Of the first' }).waitFor();
      expect(await nameOf(key.id)).toBe('Of the first');
      expectOneConflict(second);
      expectClean(first);
    });

    it('saves the second version when that is chosen, based on the first', async () => {
      const { key, first, second, dialog } = await conflict();
      await dialog.getByRole('button', { name: 'Save mine over it' }).click();
      await second.page.getByRole('heading', { level: 1, name: 'Of the second' }).waitFor();
      expect(await nameOf(key.id)).toBe('Of the second');
      const { entries } = await admin.read(`/admin/history?subject=key:${key.id}`);
      const names = entries.map(({ after }: { after: { name: string } }) => after.name);
      expect(names).toEqual(['Of the second', 'Of the first', 'Before']);
      expectOneConflict(second);
      expectClean(first);
    });

    it('asks again when the key was changed a third time meanwhile', async () => {
      const { key, second, dialog } = await conflict();
      await dialog.getByRole('button', { name: 'Save mine over it' }).waitFor();
      await admin.change('PUT', `/admin/auth-keys/${key.id}/name`, { name: 'Of a third' });
      await dialog.getByRole('button', { name: 'Save mine over it' }).click();
      await expect.poll(() => shownText(dialog)).toMatch(/Of a third/);
      expect(await nameOf(key.id)).toBe('Of a third');
      await dialog.getByRole('button', { name: 'Save mine over it' }).click();
      await second.page.getByRole('heading', { level: 1, name: 'Of the second' }).waitFor();
      expect(await nameOf(key.id)).toBe('Of the second');
      expect(second.answers.filter(({ status }) => status === 409)).toHaveLength(2);
      second.expectFindings(({ kind, text }) => kind === 'console' && text.includes('409'));
      expectClean(second);
    });
  });

  describe('of the policy of a user path', () => {
    const small = 'demo/simulated-small';
    const large = 'demo/simulated-large';
    const listOf = async (path: string): Promise<string[]> =>
      (await admin.read(`/admin/users/${encodeURIComponent(path)}`)).allowed_models;

    async function conflict(path: string) {
      const label = 'Add a model or a provider';
      const [first, second] = await twice(`/keys?path=${path}`);
      const button = (await listOf(path)).length > 0 ? 'Edit the policy' : 'Set a policy';
      const ofFirst = await begin(first, button, label, small);
      const ofSecond = await begin(second, button, label, large);
      await ofFirst.getByRole('button', { name: 'Save the policy' }).click();
      await ofFirst.waitFor({ state: 'detached' });
      await ofSecond.getByRole('button', { name: 'Save the policy' }).click();
      await ofSecond.getByText('It was changed by another administrator').waitFor();
      await expect.poll(() => shownText(ofSecond)).toContain(small);
      await expect.poll(() => shownText(ofSecond)).toContain(large);
      return { second, dialog: ofSecond };
    }

    it('keeps the current version when that is chosen', async () => {
      await admin.change('PUT', '/admin/users', { user_path: '/keep', allowed_models: ['demo/simulated-embed'] });
      const { second, dialog } = await conflict('/keep');
      await dialog.getByRole('button', { name: 'Keep the current version' }).click();
      await dialog.waitFor({ state: 'detached' });
      await settled(second.page);
      expect(await listOf('/keep')).toEqual(['demo/simulated-embed', small]);
      expectOneConflict(second);
    });

    it('saves the second version when that is chosen', async () => {
      await admin.change('PUT', '/admin/users', { user_path: '/over', allowed_models: ['demo/simulated-embed'] });
      const { second, dialog } = await conflict('/over');
      await dialog.getByRole('button', { name: 'Save mine over it' }).click();
      await dialog.waitFor({ state: 'detached' });
      await settled(second.page);
      expect(await listOf('/over')).toEqual(['demo/simulated-embed', large]);
      expectOneConflict(second);
    });

    it('is also noticed for the first policy of a path', async () => {
      await admin.newKey({ name: 'Of a path without a policy', user_path: '/first' });
      const { second, dialog } = await conflict('/first');
      expect(await listOf('/first')).toEqual([small]);
      await dialog.getByRole('button', { name: 'Save mine over it' }).click();
      await dialog.waitFor({ state: 'detached' });
      await settled(second.page);
      expect(await listOf('/first')).toEqual([large]);
      expectOneConflict(second);
    });
  });

  describe('of an action that asks first', () => {
    /** Opens the dialog of an action in one browser, lets another administrator change the object, and confirms. */
    async function confirmed(path: string, button: string, confirm: string, meanwhile: () => Promise<unknown>) {
      const opened = await dashboard.open(path);
      await opened.page.getByRole('button', { name: button }).first().click();
      const dialog = opened.page.getByRole('dialog');
      await dialog.getByRole('button', { name: confirm, exact: true }).waitFor();
      await meanwhile();
      await dialog.getByRole('button', { name: confirm, exact: true }).click();
      return { opened, dialog };
    }
    const budget = (user_path: string, amount: number) =>
      admin.change('PUT', '/admin/budgets', { user_path, budget_key: { period: 'daily' }, amount });
    const amountsOf = async (path: string): Promise<number[]> => {
      const { budgets } = await admin.read('/admin/budgets');
      const own = budgets.filter(({ subject }: { subject: string }) => subject === path);
      return own.map(({ amount }: { amount: number }) => amount);
    };

    it('reactivates a key only after both versions were shown', async () => {
      const key = await admin.newKey({ name: 'To reactivate' });
      await admin.change('POST', `/admin/auth-keys/${key.id}/deactivate`);
      const { opened, dialog } = await confirmed(`/keys/${key.id}`, 'Reactivate', 'Reactivate the key', () =>
        admin.change('PUT', `/admin/auth-keys/${key.id}/labels`, { labels: ['compromised'] }),
      );
      await expect.poll(() => shownText(dialog)).toContain('It was changed by another administrator');
      expect(await shownText(dialog)).toContain('compromised');
      const enabled = async () => (await admin.read(`/admin/auth-keys/${key.id}`)).enabled;
      expect(await enabled()).toBe(false);
      expect(await accessibilityViolations(opened.page)).toEqual([]);
      await dialog.getByRole('button', { name: 'Reactivate the key anyway' }).click();
      await dialog.waitFor({ state: 'detached' });
      expect(await enabled()).toBe(true);
      expectOneConflict(opened);
    });

    it('rotates a key only after both versions were shown', async () => {
      const key = await admin.newKey({ name: 'To rotate' });
      const { opened, dialog } = await confirmed(`/keys/${key.id}`, 'Rotate the secret', 'Rotate the secret', () =>
        admin.change('PUT', `/admin/auth-keys/${key.id}/name`, { name: 'Rotated elsewhere' }),
      );
      await expect.poll(() => shownText(dialog)).toMatch(/To rotate[\s\S]*Rotated elsewhere/);
      await dialog.getByRole('button', { name: 'Cancel' }).click();
      await dialog.waitFor({ state: 'detached' });
      await opened.page.getByRole('heading', { level: 1, name: 'Rotated elsewhere' }).waitFor();
      expect((await admin.read(`/admin/auth-keys/${key.id}`)).redacted_value).toBe(key.redacted_value);
      expectOneConflict(opened);
    });

    it('removes a budget only after its new amount was shown', async () => {
      await budget('/raised', 5);
      const { opened, dialog } = await confirmed(
        '/budgets',
        'Remove the daily budget of /raised',
        'Remove the budget',
        () => budget('/raised', 7500),
      );
      await expect.poll(() => shownText(dialog)).toContain('7500');
      expect(await amountsOf('/raised')).toEqual([7500]);
      await dialog.getByRole('button', { name: 'Remove the budget anyway' }).click();
      await dialog.waitFor({ state: 'detached' });
      expect(await amountsOf('/raised')).toEqual([]);
      expectOneConflict(opened);
    });

    it('says that the object was removed', async () => {
      await budget('/removed', 5);
      const { opened, dialog } = await confirmed(
        '/budgets',
        'Reset the daily budget of /removed',
        'Set the spending to 0',
        () => admin.change('DELETE', '/admin/budgets', { user_path: '/removed', budget_key: { period: 'daily' } }),
      );
      await expect.poll(() => shownText(dialog)).toMatch(/removed by another administrator|not found/i);
      opened.expectFindings(({ kind }) => kind === 'console');
    });

    it('creates a budget again where an earlier one was removed', async () => {
      await budget('/again', 5);
      await admin.change('DELETE', '/admin/budgets', { user_path: '/again', budget_key: { period: 'daily' } });
      const opened = await dashboard.open('/budgets');
      await opened.page.getByRole('button', { name: 'Create a budget' }).click();
      const dialog = opened.page.getByRole('dialog');
      await dialog.getByLabel('User path').fill('/again');
      await dialog.getByLabel('Limit in US dollars').fill('9');
      await dialog.getByRole('button', { name: 'Create the budget' }).click();
      await dialog.waitFor({ state: 'detached' });
      expect(await amountsOf('/again')).toEqual([9]);
      opened.expectFindings(({ kind, text }) => kind === 'console' && text.includes('409'));
    });
  });
});
