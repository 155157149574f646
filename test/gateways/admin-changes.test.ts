/**
 * A change of an administrator is confirmed when every gateway has applied it: every route of the admin API that changes
 * something, from the table of routes.
 */
import { describe, expect, it } from 'vitest';
import { configurationCategories } from '../../src/commands/gateways/fenced-log.ts';
import { categoryOf, type RecordedEvent } from '../../src/events/event.ts';
import { adminRoutes } from '../http/route-access/admin-routes.ts';
import type { Row } from '../http/route-access/row.ts';
import type { World } from '../http/route-access/stored-objects.ts';
import { someOf } from '../support/seed.ts';
import { type OneOfSeveral, withSeveral } from './several.ts';

const several = withSeveral({
  delays: [0, 10, 25],
  env: { PLUGINS_ENABLED: 'true', RESPONSE_CACHE_ENABLED: 'true' },
});

/** Requests of the table that change nothing that other gateways must apply, with the reason. */
const withoutChange: Readonly<Record<string, string>> = {
  'POST /admin/guardrails/test': 'a check of a text',
  'POST /admin/guardrails/replay': 'a run over recorded requests, with a draft that is not in force',
  'DELETE /admin/guardrails/replay/:id': 'ends such a run',
  'POST /admin/views/:name/rebuild': 'each gateway reads the record at its next start',
  'POST /admin/runtime/reload': 'the settings are as they were',
  'POST /admin/runtime/refresh': 'this gateway reads lists of models again: they are observed by each gateway',
  'POST /admin/usage/recalculate-pricing': 'costs of earlier requests, of which there are none',
  'PUT /admin/auth-keys/labels/rename': 'no key has the label',
  'PUT /admin/auth-keys/:id/allowed-models': 'it has that value already',
  'PUT /admin/auth-keys/:id/dashboard-access': 'it has that value already',
  'PUT /admin/auth-keys/:id/expiry': 'it has that value already',
  'POST /admin/auth-keys/:id/reactivate': 'the key is active',
  'PUT /admin/tagging/settings': 'there are no rules',
  'POST /admin/mcp-servers/:slug/reconnect': 'each gateway has its own connections',
  'PUT /admin/budgets/settings': 'it has that value already',
};

const changing = adminRoutes.filter(isChange);

function isChange({ route, answers, about }: Row): boolean {
  if (about?.endsWith('another tenant') === true) return false;
  const status = answers.at(-1) ?? 0;
  return !route.startsWith('GET ') && status >= 200 && status < 300;
}

/** Lists and settings that each gateway reads from its own state, which must be equal. */
const readable = adminRoutes.filter(
  ({ route, path }) =>
    route.startsWith('GET ') &&
    path === undefined &&
    !route.includes(':') &&
    !/live|gateways|providers\/status|throughput|overview|replay|admin\/log$|views$|versions/.test(route),
);

/** Members that change with the time of the read. */
const OF_THE_MOMENT = /"(server_time|period_ratio|window_start|window_end)":[^,}]*/g;

const world = (gateway: OneOfSeveral): World => ({ gateway, keyAt: new Map() });

interface GatewaysAnswer {
  readonly head: string;
  readonly gateways: readonly { readonly id: string; readonly self: boolean; readonly applied_position: string }[];
}

async function gatewaysAt(one: OneOfSeveral): Promise<GatewaysAnswer> {
  return (await one.fetch('/admin/gateways')).json() as Promise<GatewaysAnswer>;
}

async function readAt(one: OneOfSeveral): Promise<Record<string, string>> {
  const read = async ({ route }: Row) => {
    const path = route.replace('GET ', '');
    const answer = await one.fetch(path);
    const text = `${answer.status} ${answer.headers.get('etag')} ${await answer.text()}`;
    return [path, text.replaceAll(OF_THE_MOMENT, '')] as const;
  };
  return Object.fromEntries(await Promise.all(readable.map(read)));
}

interface Change {
  readonly route: string;
  readonly requestId: string;
  readonly gateways: GatewaysAnswer;
}

/** Method and kind of the object: `PUT /admin/budgets`. */
const kindOf = (route: string) => /^\w+ \/admin\/[\w-]+/.exec(route)?.[0];

const changes: Change[] = [];
const isConfiguration: ReadonlySet<string> = new Set(configurationCategories);

describe('a change through one gateway', () => {
  let turn = 0;
  it('is one of many', () => expect(changing.length).toBeGreaterThan(40));

  it.each(
    someOf(changing, ({ route }) => [kindOf(route)]).map(
      (row) => [`${row.route}${row.about === undefined ? '' : ` (${row.about})`}`, row] as const,
    ),
  )('is found through the others: %s', async (_name, row) => {
    const { all } = several;
    const one = all[turn++ % all.length] as OneOfSeveral;
    const id = (await row.make?.(world(one))) ?? '';
    const [method = '', url = ''] = row.route.split(' ');
    const path = row.path?.(id) ?? url.replace(':id', id);
    const body = row.body?.(id);
    const answer = await one.fetch(path, { method, ...(body !== undefined && { json: body }) });
    const gateways = await gatewaysAt(one);
    changes.push({ route: row.route, requestId: answer.headers.get('x-request-id') ?? '', gateways });
    expect(answer.status, await answer.clone().text()).toBe(row.answers.at(-1));
    const [first, ...others] = await Promise.all(all.map(readAt));
    const differing = Object.keys(first ?? {}).filter((path) => others.some((other) => other[path] !== first?.[path]));
    expect(differing).toEqual([]);
  });

  it('was in force at the others when it was confirmed', async () => {
    const [one] = several.all;
    if (one === undefined) throw new Error('there is no gateway');
    const { head } = await gatewaysAt(one);
    let events: readonly RecordedEvent[] = [];
    await expect
      .poll(async () => {
        events = await one.events();
        return events.at(-1)?.position ?? '';
      })
      .toSatisfy((position: string) => position >= head);

    const seen = new Set<string>();
    for (const { route, requestId, gateways } of changes) {
      const caused = events.filter(({ context }) => context.requestId === requestId);
      const configuration = caused.filter(({ stream }) => isConfiguration.has(categoryOf(stream)));
      for (const { stream } of configuration) seen.add(categoryOf(stream));
      if (configuration.length === 0) expect(withoutChange).toHaveProperty([route]);
      const last = configuration.at(-1)?.position ?? '';
      expect(
        gateways.gateways.filter(({ self }) => !self).map(({ applied_position }) => applied_position >= last),
        route,
      ).toEqual([true, true]);
    }
    expect([...seen].toSorted()).toEqual(configurationCategories.filter((one) => one !== 'plugin'));
  });
});
