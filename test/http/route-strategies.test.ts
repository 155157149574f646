/** Virtual models whose target a route strategy selects: their administration, and where their requests go. */
import { beforeAll, describe, expect, it } from 'vitest';
import { startTestGateway } from '../support/gateway.ts';
import { saved, withProviders } from '../support/several-providers.ts';
import { errorOf, eventsOfExchange, exchangeOf, json, user } from '../support/with-gateway.ts';

const { gateway, provider, counted } = withProviders(
  { cheap: { models: ['small'] }, dear: { models: ['large'] }, free: { models: ['unpriced'] } },
  {
    env: {
      PLUGINS_ENABLED: 'true',
      CIRCUIT_BREAKER_FAILURE_THRESHOLD: '1000',
      VIRTUAL_MODELS: JSON.stringify([
        {
          source: 'declared',
          targets: [{ model: 'large' }, { model: 'small' }],
          strategy: 'plugin:cheapest_healthy',
          strategy_config: { max_error_rate: 0.5 },
        },
        { source: 'not-loaded', targets: [{ model: 'large' }, { model: 'small' }], strategy: 'plugin:elsewhere' },
      ]),
    },
  },
);

const targets = [
  { provider: 'llamacpp-free', model: 'unpriced' },
  { provider: 'llamacpp-dear', model: 'large' },
  { provider: 'llamacpp-cheap', model: 'small' },
];
const put = (body: object) => gateway.fetch('/admin/virtual-models', { method: 'PUT', json: body });
const row = async (source: string) => json(await gateway.fetch(`/admin/virtual-models/${source}`));

async function answerOf(model: string, headers: Record<string, string> = {}) {
  const answer = await gateway.post('/v1/chat/completions', { model, messages: user('Hello.') }, { headers });
  await answer.clone().text();
  return answer;
}

async function selectionsOf(answer: Response) {
  const events = await eventsOfExchange(gateway, exchangeOf(answer));
  return events.find(({ type }) => type === 'model.resolved')?.data.selections;
}

async function metric(text: string): Promise<string | undefined> {
  const metrics = await (await gateway.fetch('/metrics')).text();
  return metrics.split('\n').find((line) => line.startsWith(text));
}

beforeAll(async () => {
  for (const [selector, price] of [
    ['llamacpp-cheap/small', 1],
    ['llamacpp-dear/large', 5],
  ]) {
    const answer = await gateway.fetch('/admin/model-pricing-overrides', {
      method: 'PUT',
      json: { selector, pricing: { input_per_mtok: price, output_per_mtok: price } },
    });
    expect(answer.status).toBe(200);
  }
});

describe('PUT /admin/virtual-models with a route strategy', () => {
  it.each<[string, object]>([
    ['plugin and its name', { strategy: 'plugin', strategy_plugin: 'cheapest_healthy' }],
    ['plugin:<name>', { strategy: 'plugin:cheapest_healthy' }],
    ['its name alone', { strategy: 'cheapest_healthy' }],
    ['strategy_plugin alone', { strategy_plugin: 'cheapest_healthy' }],
  ])('accepts %s, and returns it in one form', async (_what, members) => {
    const answer = await put({ source: 'forms', targets, ...members, strategy_config: { prefer: 'fastest' } });
    expect(answer.status).toBe(200);
    const stored = {
      ...{ strategy: 'plugin', strategy_plugin: 'cheapest_healthy', strategy_config: { prefer: 'fastest' } },
    };
    expect(await json(answer)).toMatchObject(stored);
    expect(await row('forms')).toMatchObject(stored);
    expect(await row('forms')).not.toHaveProperty('strategy_problem');
  });

  it.each<[string, object, string]>([
    ['an unknown one', { strategy: 'plugin', strategy_plugin: 'luck' }, 'strategy_plugin'],
    ['an unknown one in the short form', { strategy: 'plugin:luck' }, 'strategy'],
    ['no name', { strategy: 'plugin' }, 'strategy_plugin'],
    ['no name in the short form', { strategy: 'plugin:' }, 'strategy'],
    ['two names', { strategy: 'plugin:cheapest_healthy', strategy_plugin: 'luck' }, 'strategy_plugin'],
    ['another strategy', { strategy: 'cost', strategy_plugin: 'cheapest_healthy' }, 'strategy_plugin'],
    ['settings without a strategy', { strategy_config: {} }, 'strategy_config'],
    ['settings of another strategy', { strategy: 'cost', strategy_config: {} }, 'strategy_config'],
    ['settings that are no object', { strategy: 'cheapest_healthy', strategy_config: [] }, 'strategy_config'],
    ['an unknown setting', { strategy: 'cheapest_healthy', strategy_config: { colour: 1 } }, 'strategy_config.colour'],
    [
      'a rate above 1',
      { strategy: 'cheapest_healthy', strategy_config: { max_error_rate: 2 } },
      'strategy_config.max_error_rate',
    ],
    [
      'settings that are too large',
      { strategy: 'cheapest_healthy', strategy_config: { prefer: 'x'.repeat(20_000) } },
      'strategy_config',
    ],
  ])('refuses %s', async (_what, members, param) => {
    expect(await errorOf(await put({ source: 'refused', targets, ...members }), 400)).toMatchObject({ param });
    expect((await gateway.fetch('/admin/virtual-models/refused')).status).toBe(404);
  });

  it('refuses a strategy for an access policy', async () => {
    const refused = await errorOf(await put({ source: 'llamacpp-free/', strategy_plugin: 'cheapest_healthy' }), 400);
    expect(refused.param).toBe('strategy_plugin');
  });
});

describe('a route strategy', () => {
  it('is listed among the plugins and the strategies', async () => {
    const plugins = await json(await gateway.fetch('/admin/plugins'));
    const own = plugins.find(({ name }: { name: string }) => name === 'cheapest_healthy');
    expect(own).toMatchObject({ kinds: ['route'], guardrail: false, source: 'builtin', health: 'ok', error: '' });
    expect(own.route_fields.map(({ key }: { key: string }) => key)).toEqual(['prefer', 'max_error_rate']);
    const flags = await json(await gateway.fetch('/admin/runtime/config'));
    expect(flags.VIRTUAL_MODEL_STRATEGIES).toBe('round_robin,cost,failover,adaptive,plugin:cheapest_healthy');
  });

  it('selects the target of each request, by the prices of administrators', async () => {
    await saved(gateway, { source: 'v', targets, strategy: 'cheapest_healthy' });
    counted();
    const answers = [await answerOf('v'), await answerOf('v')];
    expect(answers.map(({ status }) => status)).toEqual([200, 200]);
    expect(counted()).toEqual({ cheap: 2, dear: 0, free: 0 });
    expect(await selectionsOf(answers[0] ?? Response.error())).toEqual([
      {
        ...{ virtualModel: 'v', strategy: 'cheapest_healthy', target: 'llamacpp-cheap/small', by: 'strategy' },
        reason: 'cheapest target with an error rate of at most 0.2',
      },
    ]);
    await answerOf('declared');
    expect(counted()).toEqual({ cheap: 1, dear: 0, free: 0 });
    expect(await row('declared')).toMatchObject({
      ...{ strategy: 'plugin', strategy_plugin: 'cheapest_healthy', strategy_config: { max_error_rate: 0.5 } },
      managed: true,
    });
  });

  it('that is not loaded is replaced by round robin, shown in the row, recorded and counted', async () => {
    expect((await row('not-loaded')).strategy_problem).toBe("No route strategy named 'elsewhere' is loaded.");
    counted();
    const answers = [await answerOf('not-loaded'), await answerOf('not-loaded')];
    expect(counted()).toEqual({ cheap: 1, dear: 1, free: 0 });
    expect(await selectionsOf(answers[1] ?? Response.error())).toMatchObject([
      { virtualModel: 'not-loaded', strategy: 'elsewhere', by: 'fallback', reason: 'not_loaded' },
    ]);
    expect(await metric('gateway_route_strategy_fallbacks_total{')).toBe(
      'gateway_route_strategy_fallbacks_total{strategy="elsewhere",reason="not_loaded"} 2',
    );
  });
});

describe('cheapest_healthy with a failing provider', () => {
  it('answers every request, and moves to the next target after two failures', async () => {
    await saved(gateway, { source: 'failing', targets, strategy: 'cheapest_healthy' });
    provider.cheap.control.always({ status: 503 });
    counted();
    for (let request = 0; request < 10; request++) expect((await answerOf('failing')).status).toBe(200);
    // A failed call is followed by the first of the others in the declared order.
    expect(counted()).toEqual({ cheap: 2, dear: 8, free: 2 });
    expect(await selectionsOf(await answerOf('failing'))).toMatchObject([{ target: 'llamacpp-dear/large' }]);
  });

  it('moves a session to the next target after one failure', async () => {
    await saved(gateway, { source: 'sessions', targets: targets.slice(1), strategy: 'cheapest_healthy' });
    const session = { 'x-session-id': 'one' };
    const selected = async () => (await selectionsOf(await answerOf('sessions', session)))[0];
    const first = await selected();
    expect(first.by).toBe('strategy');
    expect(await selected()).toMatchObject({ by: 'session', target: first.target });
    const failing = first.target === 'llamacpp-cheap/small' ? provider.cheap : provider.dear;
    failing.control.always({ status: 503 });
    await selected();
    expect(await selected()).toMatchObject({ by: 'strategy' });
  });
});

describe('a virtual model with a route strategy', () => {
  it('has it after a restart', async () => {
    const first = await startTestGateway();
    const list = async (one: typeof first) => json(await one.fetch('/admin/virtual-models'));
    await saved(first, { source: 'kept', targets: [{ model: 'a' }, { model: 'b' }], strategy: 'cheapest_healthy' });
    const before = await list(first);
    expect(before).toMatchObject([{ source: 'kept', strategy: 'plugin', strategy_plugin: 'cheapest_healthy' }]);
    const { dataDir } = first;
    await first.gateway.stop('a restart');
    const second = await startTestGateway({ dataDir });
    const { resolved_model, provider_type, valid, ...kept } = before[0];
    expect((await list(second))[0]).toMatchObject(kept);
    await second.close();
    await first.simulated.close();
  });

  it('prevents the start when the configuration declares it with an invalid setting', async () => {
    const targets = [{ model: 'a' }, { model: 'b' }];
    const declared = [{ source: 'x', targets, strategy: 'cheapest_healthy', strategy_config: { prefer: 'best' } }];
    const starting = startTestGateway({ env: { VIRTUAL_MODELS: JSON.stringify(declared) } });
    await expect(starting).rejects.toThrow(/'x' cannot be as it is declared: .*'prefer'/);
  });
});
