/** Plugins that select the target of a virtual model. */
import { afterAll, describe, expect, it } from 'vitest';
import { pluginFolder, source } from '../plugins/plugin-files.ts';
import { withProviders } from '../support/several-providers.ts';
import { eventsOfExchange, exchangeOf, json, user } from '../support/with-gateway.ts';

const { folder, remove } = pluginFolder({
  'p.ts': source(
    `route({ targets, labels }, { config }) {
       if (config.wanted === 'throw') throw new Error('no');
       if (config.wanted === 'loop') for (;;);
       return { index: targets.findIndex(({ model }) => model === config.wanted), reason: 'wanted' };
     }`,
    { name: 'wanted', facts: 'routeConfig: z.object({ wanted: z.string().min(1) }),' },
  ),
});
afterAll(remove);

const { gateway } = withProviders(
  { cheap: { models: ['small'] }, dear: { models: ['large'] } },
  { env: { PLUGINS_ENABLED: 'true', PLUGINS_DIR: folder } },
);

const targets = [{ model: 'large' }, { model: 'small' }];
const put = (source: string, wanted: unknown) =>
  gateway.fetch('/admin/virtual-models', {
    method: 'PUT',
    json: { source, targets, strategy: 'plugin:wanted', strategy_config: { wanted } },
  });

async function selectionOf(source: string) {
  const answer = await gateway.post('/v1/chat/completions', { model: source, messages: user('Hello.') });
  expect(answer.status, await answer.clone().text()).toBe(200);
  const events = await eventsOfExchange(gateway, exchangeOf(answer));
  return events.find(({ type }) => type === 'model.resolved')?.data;
}

describe('a virtual model with the strategy of a plugin', () => {
  it('calls the target that the plugin selects', async () => {
    expect((await put('picked', 'small')).status).toBe(200);
    for (let at = 0; at < 3; at++) {
      expect(await selectionOf('picked')).toMatchObject({ model: 'small', selections: [{ reason: 'wanted' }] });
    }
  });

  it('is refused with an invalid configuration', async () => {
    expect((await put('invalid', '')).status).toBe(400);
  });

  it.each([['throw'], ['loop']])('is balanced when the plugin fails: %s', async (wanted) => {
    await put(wanted, wanted);
    expect(await selectionOf(wanted)).toMatchObject({ model: expect.stringMatching(/large|small/) });
  });

  it('is listed with its fields', async () => {
    const rows: { name: string }[] = await json(await gateway.fetch('/admin/plugins'));
    expect(rows.find(({ name }) => name === 'wanted')).toMatchObject({
      ...{ kinds: ['route'], guardrail: false, fields: [] },
      route_fields: [{ key: 'wanted', input: 'text', required: true, scope: 'route' }],
    });
  });
});
