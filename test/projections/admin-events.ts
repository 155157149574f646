/** Random histories of administrators' changes, with requests between them. */
import fc from 'fast-check';
import {
  keyAllowedCidrsChanged,
  keyAllowedModelsChanged,
  keyCreated,
  keyDashboardAccessChanged,
  keyDeactivated,
  keyExpiryChanged,
  keyLabelsChanged,
  keyReactivated,
  keyRenamed,
  keyRotated,
  taggingChanged,
  userPolicyRemoved,
  userPolicySet,
} from '../../src/events/catalogue/access.ts';
import {
  budgetRemoved,
  budgetReset,
  budgetSet,
  budgetSettingsChanged,
  priceOverrideRemoved,
  priceOverrideSet,
  rateLimitRemoved,
  rateLimitReset,
  rateLimitSet,
} from '../../src/events/catalogue/budget.ts';
import { guardrailRemoved, guardrailSaved } from '../../src/events/catalogue/guardrail.ts';
import {
  providerCircuitChanged,
  providerConfigured,
  providerCredentialRemoved,
  providerCredentialSaved,
  providerRemoved,
} from '../../src/events/catalogue/provider.ts';
import {
  virtualModelRemoved,
  virtualModelSaved,
  workflowCreated,
  workflowDeactivated,
} from '../../src/events/catalogue/workflow.ts';
import {
  type EventContext,
  type NewEvent,
  type RecordedEvent,
  type StreamName,
  streamName,
} from '../../src/events/event.ts';
import type { EventLog } from '../../src/events/log.ts';
import { defaultAnchors } from '../../src/projections/budgets.ts';

export const admin: EventContext = { actor: 'master', requestId: 'req-1' };

export interface Written {
  readonly stream: StreamName;
  readonly event: NewEvent;
}

export const SECRET_HASH = 'c0ffee'.repeat(10);
export const SEALED = 'v1.key.sealed-secret';

const ids = fc.constantFrom('1', '2', '3');
const paths = fc.constantFrom('/', '/a', '/a/b', '/b');
const networks = fc.subarray(['10.0.0.0/8', '192.0.2.0/24', '2001:db8::/32']);
const models = fc.subarray(['/', 'local/', 'local/m', 'other/m', 'm']);
const labels = fc.subarray(['x', 'y', 'z']);

export const keyMade = (id: string, more: { userPath?: string; allowedModels?: string[] } = {}): Written => ({
  stream: streamName('key', id),
  event: keyCreated.create(
    {
      id,
      name: `key ${id}`,
      labels: [],
      allowedModels: more.allowedModels ?? [],
      dashboardAccess: false,
      secretHash: `${SECRET_HASH}${id}`,
      lastCharacters: 'wxyz',
      ...(more.userPath === undefined ? {} : { userPath: more.userPath }),
    },
    admin,
  ),
});

export const policySet = (userPath: string, allowedModels: string[], context = admin): Written => ({
  stream: streamName('user', userPath),
  event: userPolicySet.create({ userPath, allowedModels }, context),
});

export const policyRemoved = (userPath: string): Written => ({
  stream: streamName('user', userPath),
  event: userPolicyRemoved.create({ userPath }, admin),
});

export const credentialSaved = (name: string, enabled = true): Written => ({
  stream: streamName('credential', name),
  event: providerCredentialSaved.create(
    { name, type: 'openai', enabled, apiKeys: [SEALED, SEALED], sealedBaseUrl: SEALED, models: [], options: {} },
    admin,
  ),
});

const onKey = (event: fc.Arbitrary<NewEvent>) =>
  fc.tuple(ids, event).map(([id, one]): Written => ({ stream: streamName('key', id), event: one }));

const budget = fc
  .record({ subject: paths, periodSeconds: fc.constantFrom(3600, 86400) })
  .map((of) => ({ scope: 'user_path' as const, ...of }));
const onBudget = (of: { subject: string }, event: NewEvent): Written => ({
  stream: streamName('budget', of.subject),
  event,
});

const limit = fc
  .record({ subject: paths, periodSeconds: fc.constantFrom(0, 60) })
  .map((of) => ({ scope: 'user_path' as const, ...of }));
const onLimit = (of: { subject: string }, event: NewEvent): Written => ({
  stream: streamName('rate-limit', `user_path:${of.subject}`),
  event,
});

const virtualModel = fc
  .record({
    source: fc.constantFrom('fast', 'local/', '/'),
    enabled: fc.boolean(),
    userPaths: fc.subarray(['/a', '/b']),
  })
  .map(({ source, ...more }): Written => {
    const targets = source === 'fast' ? [{ provider: 'local', model: 'm' }] : [];
    const common = { strategy: 'failover' as const, sessionAffinity: false, failover: { enabled: true } };
    return {
      stream: streamName('virtual-model', source),
      event: virtualModelSaved.create({ source, targets, ...common, ...more }, admin),
    };
  });

const workflowScopes = fc.constantFrom(
  ['global', {}] as const,
  ['path:/a', { userPath: '/a' }] as const,
  ['provider:local', { provider: 'local' }] as const,
);
const features = { cache: true, audit: true, usage: true, budget: true, guardrails: true, failover: true };

const workflow = fc
  .record({ of: workflowScopes, id: fc.uuid(), version: fc.integer({ min: 1, max: 9 }), audit: fc.boolean() })
  .map(({ of: [key, scope], id, version, audit }): Written => {
    const steps = [{ ref: 'mask', phase: 'prompt' as const, step: 0 }];
    const payload = { schemaVersion: 2 as const, features: { ...features, audit }, steps };
    const data = { id, scope, version, name: key, payload, payloadSha256: 'f'.repeat(64) };
    return { stream: streamName('workflow', key), event: workflowCreated.create(data, admin) };
  });

/** Versions with one id, and deactivations of it. */
const deactivated = fc.tuple(workflowScopes, fc.constantFrom('known', 'unknown')).map(([[key, scope], id]) => {
  const stream = streamName('workflow', key);
  const payload = { schemaVersion: 1 as const, features, guardrails: [] };
  const data = { id: 'known', scope, version: 1, name: key, payload, payloadSha256: 'e'.repeat(64) };
  return id === 'known'
    ? { stream, event: workflowCreated.create(data, admin) }
    : { stream, event: workflowDeactivated.create({ id: 'known' }, admin) };
});

const guardrail = fc
  .record({ name: fc.constantFrom('mask', 'judge'), timeoutMs: fc.nat(9), failMode: fc.constantFrom('open', 'closed') })
  .map(({ name, timeoutMs, failMode }): Written => {
    const data = { name, type: 'pii', config: { entities: ['EMAIL'] }, secrets: { key: SEALED }, failMode, timeoutMs };
    return { stream: streamName('guardrail', name), event: guardrailSaved.create(data, admin) };
  });

/** Changes of limits, virtual models, workflows, guardrails and prices. */
const others: readonly fc.Arbitrary<Written>[] = [
  fc
    .tuple(budget, fc.constantFrom('1000000000', '2500000000'))
    .map(([of, amount]) => onBudget(of, budgetSet.create({ ...of, amount, source: 'manual' }, admin))),
  budget.map((of) => onBudget(of, budgetReset.create(of, admin))),
  budget.map((of) => onBudget(of, budgetRemoved.create(of, admin))),
  fc.integer({ min: 0, max: 23 }).map((dailyResetHour) => ({
    stream: streamName('settings', 'budgets'),
    event: budgetSettingsChanged.create({ ...defaultAnchors, dailyResetHour }, admin),
  })),
  fc
    .tuple(limit, fc.integer({ min: 1, max: 9 }))
    .map(([of, maxRequests]) =>
      onLimit(of, rateLimitSet.create({ ...of, maxRequests, maxTokens: null, source: 'manual' }, admin)),
    ),
  limit.map((of) => onLimit(of, rateLimitReset.create(of, admin))),
  limit.map((of) => onLimit(of, rateLimitRemoved.create(of, admin))),
  workflow,
  deactivated,
  guardrail,
  fc.constantFrom('mask', 'judge').map((name) => ({
    stream: streamName('guardrail', name),
    event: guardrailRemoved.create({ name }, admin),
  })),
  virtualModel,
  fc.constantFrom('fast', 'local/', '/').map((source) => ({
    stream: streamName('virtual-model', source),
    event: virtualModelRemoved.create({ source }, admin),
  })),
  fc.tuple(fc.constantFrom('/', 'local/', 'm'), fc.constantFrom(0, 1.5)).map(([selector, input_per_mtok]) => ({
    stream: streamName('price', selector),
    event: priceOverrideSet.create({ selector, pricing: { input_per_mtok } }, admin),
  })),
  fc.constantFrom('/', 'local/', 'm').map((selector) => ({
    stream: streamName('price', selector),
    event: priceOverrideRemoved.create({ selector }, admin),
  })),
];

/** Events that are no changes of administrators: pieces of answers, breakers that open. */
export const noise: fc.Arbitrary<Written> = fc.constantFrom(
  {
    stream: streamName('exchange', '1'),
    event: { type: 'chunk.received', schema: 1, data: { attempt: 1, index: 0 }, context: admin },
  },
  {
    stream: streamName('exchange', '1'),
    event: { type: 'guardrail.applied', schema: 1, data: {}, context: admin },
  },
  {
    stream: streamName('provider', 'local'),
    event: providerCircuitChanged.create({ state: 'open', failures: 3 }, { actor: 'system' }),
  },
);

export const change: fc.Arbitrary<Written> = fc.oneof(
  ...others,
  fc
    .record({ id: ids, userPath: fc.option(paths, { nil: undefined }), allowedModels: models })
    .map(({ id, ...more }) => keyMade(id, more)),
  onKey(labels.map((some) => keyLabelsChanged.create({ labels: some }, admin))),
  onKey(models.map((some) => keyAllowedModelsChanged.create({ allowedModels: some }, admin))),
  onKey(networks.map((some) => keyAllowedCidrsChanged.create({ allowedCidrs: some }, admin))),
  onKey(fc.boolean().map((dashboardAccess) => keyDashboardAccessChanged.create({ dashboardAccess }, admin))),
  onKey(fc.constant(keyDeactivated.create({}, admin))),
  onKey(fc.constant(keyReactivated.create({}, admin))),
  onKey(fc.option(fc.nat()).map((expiresAt) => keyExpiryChanged.create({ expiresAt }, admin))),
  onKey(
    fc
      .record({ name: fc.constantFrom('a', 'b'), description: fc.option(fc.constant('c')) })
      .map((of) => keyRenamed.create(of, admin)),
  ),
  fc.tuple(ids, fc.nat()).map(([id, previousValidUntil]) => ({
    stream: streamName('key', id),
    event: keyRotated.create(
      { secretHash: `${SECRET_HASH}${id}-${previousValidUntil}`, lastCharacters: 'next', previousValidUntil },
      admin,
    ),
  })),
  fc.tuple(paths, models).map(([path, some]) => policySet(path, some)),
  paths.map(policyRemoved),
  fc.boolean().map((enabled) => credentialSaved('one', enabled)),
  fc.constant({
    stream: streamName('credential', 'one'),
    event: providerCredentialRemoved.create({ name: 'one' }, admin),
  }),
  fc.constant({ stream: streamName('settings', 'tagging'), event: taggingChanged.create({ headers: [] }, admin) }),
  fc.constantFrom('http://a/v1', 'http://b/v1').map((baseUrl) => ({
    stream: streamName('provider', 'local'),
    event: providerConfigured.create(
      { name: 'local', type: 'llamacpp', baseUrl, hasApiKey: true, configuredModels: [] },
      { actor: 'system' },
    ),
  })),
  fc.constant({
    stream: streamName('provider', 'local'),
    event: providerRemoved.create({ name: 'local' }, { actor: 'system' }),
  }),
);

/** Changes, and every now and then a good many events between two of them. */
export const history: fc.Arbitrary<Written[]> = fc
  .array(fc.oneof({ weight: 6, arbitrary: change.map((one) => [one]) }, { weight: 1, arbitrary: stretch() }), {
    minLength: 1,
    maxLength: 30,
  })
  .map((parts) => parts.flat());

function stretch(): fc.Arbitrary<Written[]> {
  return fc.tuple(noise, fc.constantFrom(1, 3, 300)).map(([one, times]) => Array.from({ length: times }, () => one));
}

/** Appends them one by one, or all at once where that makes no difference. @returns the events then in the log */
export async function write(log: EventLog, written: readonly Written[]): Promise<RecordedEvent[]> {
  await Promise.all(
    written.map(({ stream, event }) => log.append([{ stream, events: [event], expectedRevision: 'any' }])),
  );
  const all: RecordedEvent[] = [];
  for await (const event of log.readAll()) all.push(event);
  return all;
}
