/** Names and descriptions that attack the reader, in everything that administrators name. */
import { beforeAll, expect, it } from 'vitest';
import { ask } from '../e2e/gateway-process.ts';
import { pairsOf, someOf } from '../support/seed.ts';
import type { OpenPage } from './support/dashboard.ts';
import { ansi, bidi, everything, expectHarmless, handler, script } from './support/hostile-text.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

declare const document: { readonly documentElement: { readonly scrollWidth: number; readonly clientWidth: number } };

const model = 'demo/simulated-small';
const features = { cache: false, audit: true, usage: true, budget: true, guardrails: false, failover: true };
const unbroken = 'W'.repeat(1500);

describeInChromium('hostile names', () => {
  const dashboard = withDashboard({
    data: 'empty',
    env: { GUARDRAILS_ENABLED: 'true', PLUGINS_ENABLED: 'true', RESPONSE_CACHE_ENABLED: 'true' },
  });
  let keyId = '';
  const accepted: string[] = [];

  /** A name that a route refuses cannot be displayed. */
  async function name(method: string, path: string, json: object): Promise<Response> {
    const answer = await ask(dashboard.url, path, { method, json });
    expect(answer.status, path).toBeLessThan(500);
    if (answer.ok) accepted.push(`${method} ${path}`);
    return answer;
  }

  beforeAll(async () => {
    const created = await name('POST', '/admin/auth-keys', {
      ...{ name: `${script} ${bidi}`, description: everything.slice(0, 900), user_path: '/team' },
      labels: [handler.slice(0, 120), unbroken.slice(0, 120)],
    });
    keyId = JSON.parse(await created.text()).id;
    await name('POST', '/admin/auth-keys', { name: unbroken.slice(0, 200), description: unbroken.slice(0, 900) });
    for (const text of [script, handler, bidi, ansi, unbroken.slice(0, 200), '__proto__', 'constructor']) {
      const path = `/team/${text.replaceAll('/', '')}`;
      await name('POST', '/admin/auth-keys', { name: 'below', user_path: path });
      await name('PUT', '/admin/users', {
        ...{ user_path: `/team/u${accepted.length}`, description: text, allowed_models: [] },
      });
      await name('PUT', '/admin/budgets', { user_path: path, budget_key: { period: 'daily' }, amount: 1 });
      await name('PUT', '/admin/budgets', {
        ...{ scope: 'label', subject: text, budget_key: { period: 'daily' }, amount: 1 },
      });
      await name('PUT', '/admin/rate-limits', {
        ...{ scope: 'model', subject: text, limit_key: { period: 'minute' }, max_requests: 1 },
      });
      await name('PUT', '/admin/virtual-models', { source: text, target_model: model, description: text });
      await name('PUT', '/admin/virtual-models', { source: `${text}/`, kind: 'policy', description: text });
      await name('PUT', '/admin/model-pricing-overrides', { selector: text, pricing: { input_per_mtok: 1 } });
      await name('PUT', '/admin/provider-credentials', {
        ...{ name: text, type: 'openai', api_keys: ['sk-hostile'], base_url: `https://${text}.example/v1` },
      });
      await name('PUT', '/admin/guardrails', {
        ...{ name: text, type: 'string_replace', description: text },
        config: { rules: `${text.replaceAll('\n', ' ')} => ${text.replaceAll('\n', ' ')}` },
      });
      await name('POST', '/admin/workflows', {
        ...{ name: text, description: text, scope_user_path: `/team/w${accepted.length}` },
        workflow_payload: { schema_version: 2, features, steps: [] },
      });
    }
    await name('POST', '/admin/views/keys/rebuild', { reason: everything });
    await name('POST', '/admin/cache/purge', { user_path: '/team', model: script });
    await ask(dashboard.url, '/v1/chat/completions', { json: { model: script, messages: [] } });
  }, 60_000);

  const addresses = [
    ...['/', '/live', '/audit', '/sessions', '/usage'],
    ...['/keys', '/keys?path=/team', '/keys?tab=keys', '/keys?tab=explain', '/keys/itself'],
    ...['/budgets', '/budgets?tab=limits', '/budgets?tab=settings'],
    ...['/models', '/models?tab=virtual', '/models?tab=prices', '/models?tab=providers'],
    ...['/workflows', '/workflows?tab=guardrails', '/workflows?tab=test', '/workflows?tab=replay'],
    ...['/plugins', '/cache', '/history', '/history?actor=key:%3Cscript%3E', '/sql'],
    ...['/log', '/log?tab=projections', '/log?tab=gateways', '/settings', '/settings?tab=labels'],
  ];

  async function isTooWide({ page }: OpenPage): Promise<boolean> {
    return page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth);
  }

  it('were accepted where the test needs them', () => {
    expect([...new Set(accepted)].sort()).toEqual([
      ...[
        'POST /admin/auth-keys',
        'POST /admin/cache/purge',
        'POST /admin/views/keys/rebuild',
        'POST /admin/workflows',
      ],
      ...['PUT /admin/budgets', 'PUT /admin/guardrails', 'PUT /admin/model-pricing-overrides'],
      ...['PUT /admin/provider-credentials', 'PUT /admin/rate-limits', 'PUT /admin/users', 'PUT /admin/virtual-models'],
    ]);
  });

  it.each(someOf(pairsOf(addresses, [1440, 360]), ([address, width]) => [address, width]))(
    'run nothing, load nothing and do not break %s at %i px',
    async (address, width) => {
      const path = address.replace('/itself', `/${keyId}`);
      const opened = await dashboard.open(path, { context: { viewport: { width, height: 900 } } });
      expect(await isTooWide(opened)).toBe(false);
      await expectHarmless(opened, dashboard.url);
    },
  );
});
