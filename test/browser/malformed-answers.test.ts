/** Answers that no gateway sends: from a proxy, a login page of a network, or another version of the gateway. */
import type { Route } from 'playwright-core';
import { expect, it } from 'vitest';
import { pairsOf, someOf } from '../support/seed.ts';
import { dashboardPages } from './support/page-list.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

const answers: readonly (readonly [string, Parameters<Route['fulfill']>[0]])[] = [
  ['null', { status: 200, contentType: 'application/json', body: 'null' }],
  [
    'members of another shape',
    { status: 200, contentType: 'application/json', body: '{"entries":null,"events":null}' },
  ],
  ['a cut answer', { status: 200, contentType: 'application/json', body: '{"entries":[{"id":"0' }],
  ['a login page', { status: 200, contentType: 'text/html', body: '<html>Please log in</html>' }],
  ['the error of a proxy', { status: 503, contentType: 'text/html', body: '<html>Bad gateway</html>' }],
];

/** Pages that read nothing of what is replaced here when they are opened: Live has a stream, SQL reads at a query. */
const readsNothing: ReadonlySet<string> = new Set(['live', 'sql']);
/** Besides the first one of each page; that of Settings reads `/admin/runtime`, which every page needs. */
const tabs: Readonly<Record<string, readonly string[]>> = {
  keys: ['?tab=keys'],
  budgets: ['?tab=limits', '?tab=settings'],
  models: ['?tab=virtual', '?tab=prices', '?tab=providers'],
  workflows: ['?tab=guardrails', '?tab=replay'],
  log: ['?tab=streams&stream=key-1', '?tab=projections', '?tab=gateways'],
  settings: ['?tab=labels'],
};
const shown = dashboardPages
  .filter(({ name }) => !readsNothing.has(name))
  .flatMap(({ name, address }) => {
    const first = name === 'settings' ? [] : [{ name, address }];
    const others = (tabs[name] ?? []).map((tab) => ({ name: name + tab, address: () => `/${name}${tab}` }));
    return [...first, ...others];
  });

describeInChromium('pages with malformed answers', () => {
  const dashboard = withDashboard({ data: 'shared' });

  const cases = pairsOf(shown, answers).map(([{ name, address }, [what, answer]]) => ({ name, address, what, answer }));

  it.each(someOf(cases, ({ name, what }) => [name, what]))(
    '$name shows an error in place of $what',
    async ({ address, answer }) => {
      const { page, findings } = await dashboard.open('/settings');
      await page.route(/\/admin\/(?!dashboard|static|access|runtime)/, (route) => route.fulfill(answer));
      await page.goto(`${dashboard.url}/admin/dashboard${address(dashboard.facts)}`);
      await page.locator('main').getByRole('alert').first().waitFor({ timeout: 5000 });
      expect(findings.filter(({ kind }) => kind === 'error')).toEqual([]);
    },
  );
});
