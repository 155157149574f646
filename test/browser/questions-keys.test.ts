/**
 * Questions of administrators about users and keys, each from the Overview or a request to its answer, with the number
 * of clicks. The figures are those of docs/dashboard.md: a change of them changes the document, too.
 */
import { expect, it } from 'vitest';
import { adminChanges } from './support/admin-changes.ts';
import { expectClean, settled, shownText } from './support/dashboard.ts';
import { countSteps } from './support/steps.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

describeInChromium('questions about users and keys', () => {
  const dashboard = withDashboard({ data: 'shared changes' });
  const admin = adminChanges(dashboard);

  it('who gave /team/alpha this model and when: 3 clicks', async () => {
    const ana = await admin.newKey({ name: 'Ana (operations)', dashboard_access: true });
    await admin.change('PUT', '/admin/users', { user_path: '/team', allowed_models: ['demo/'] });
    const policy = { user_path: '/team/alpha', allowed_models: ['demo/simulated-small'] };
    await admin.change('PUT', '/admin/users', policy, ana.value);
    const opened = await dashboard.open();
    const { page } = opened;
    const steps = countSteps(page);
    await steps.click(page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Users and keys' }));
    await steps.click(page.getByRole('table', { name: 'User paths' }).getByRole('link', { name: '/alpha' }));
    await steps.click(
      page.getByRole('table', { name: 'Models of /team/alpha' }).getByRole('link', { name: 'demo/simulated-small' }),
    );
    const answer = page.getByRole('region', { name: 'Answer' });
    await expect.poll(() => shownText(answer)).toMatch(/A caller at \/team\/alpha may use demo\/simulated-small\./);
    await expect
      .poll(() => shownText(answer))
      .toMatch(/in the list of \/team\/alpha: the key “Ana \(operations\)” set this at/);
    expect(steps).toMatchObject({ clicks: 3, keys: 0, texts: 0 });

    const query = 'user_path=/team/alpha&model=demo/simulated-small';
    const { steps: checks } = await admin.read(`/admin/explain?${query}`);
    const { event } = checks.find(({ subject }: { subject: string }) => subject === '/team/alpha');
    expect(event.actor).toBe(`key:${ana.id}`);
    await answer.locator(`time[datetime="${event.at}"]`).waitFor();
    expectClean(opened);
  });

  it('deactivate a leaked key by its last characters, and see that it works nowhere: 5 clicks', async () => {
    const leaked = await admin.newKey({ name: 'Leaked in a repository', user_path: '/team/alpha' });
    expect(await admin.statusWith(leaked.value)).toBe(200);
    const opened = await dashboard.open();
    const { page } = opened;
    const steps = countSteps(page);
    await steps.click(page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Users and keys' }));
    await steps.click(page.getByRole('tab', { name: 'Keys' }));
    await steps.fill(page.getByRole('searchbox', { name: 'Search' }), leaked.value.slice(-4));
    await steps.click(page.getByRole('table', { name: 'Keys' }).getByRole('link', { name: 'Leaked in a repository' }));
    await steps.click(page.getByRole('button', { name: 'Deactivate' }));
    await steps.click(page.getByRole('dialog').getByRole('button', { name: 'Deactivate the key' }));
    const ended = page.getByRole('region', { name: 'This key works nowhere' });
    await expect.poll(() => shownText(ended)).toMatch(/It was deactivated by the master key at/);
    await expect.poll(() => shownText(ended)).toMatch(/Verified\s+One gateway uses this log/);
    expect(steps).toMatchObject({ clicks: 5, keys: 0, texts: 1 });

    expect(await admin.statusWith(leaked.value)).toBe(401);
    const { active } = await admin.read(`/admin/auth-keys/${leaked.id}`);
    expect(active).toBe(false);
    expectClean(opened);
  });

  it('deactivate the key of a request, and see that it works nowhere: the id, 3 clicks', async () => {
    const { mobile } = dashboard.facts.keys;
    const opened = await dashboard.open();
    const { page } = opened;
    const { entries } = await admin.read(`/admin/audit/log?auth_key_id=${mobile.id}&days=30&limit=1`);
    const steps = countSteps(page);
    await steps.press('Control+k');
    await steps.fill(page.getByRole('dialog').getByRole('combobox'), entries[0].id);
    await page.getByRole('group', { name: 'Requests with this id' }).getByRole('option').waitFor();
    await steps.press('Enter');
    await steps.click(page.getByRole('link', { name: 'Open the key' }));
    await steps.click(page.getByRole('button', { name: 'Deactivate' }));
    await steps.click(page.getByRole('dialog').getByRole('button', { name: 'Deactivate the key' }));
    await page.getByRole('region', { name: 'This key works nowhere' }).waitFor();
    await settled(page);
    expect(steps).toMatchObject({ clicks: 3, keys: 2, texts: 1 });
    expect(await admin.statusWith(mobile.value)).toBe(401);
    expectClean(opened);
  });
});
