/** `/admin/runtime`: the settings that the dashboard shows, and the refresh of all state. */
import { z } from 'zod';
import { refusals } from '../../commands/refusal.ts';
import type { EventContext } from '../../events/event.ts';
import { emptyAnswer, globalAdmin, jsonAnswer, pathParameters, type Routes, scopedAdmin } from '../api/route-schema.ts';
import { timeText } from '../dates.ts';
import { eventContextOf } from '../server.ts';

/** Reads the gateway's state again: the providers' model lists, and everything folded from the log. */
const stepStatus = z.enum(['ok', 'partial', 'failed', 'skipped']);

const refreshStep = z.object({
  name: z.string(),
  status: stepStatus,
  message: z.string().optional(),
  error: z.string().optional(),
  duration_ms: z.int(),
});

const refreshReport = z.object({
  status: z.enum(['ok', 'partial', 'failed']),
  started_at: z.iso.datetime(),
  finished_at: z.iso.datetime(),
  duration_ms: z.int(),
  model_count: z.int(),
  provider_count: z.int(),
  steps: z.array(refreshStep),
});

type RefreshReport = z.infer<typeof refreshReport>;

/** The outcome of a step that did not throw. */
export interface StepOutcome {
  readonly status: z.infer<typeof stepStatus>;
  readonly message?: string;
}

export interface RefreshPlan {
  /** In this order; a failed step does not stop the following ones. */
  readonly steps: readonly { readonly name: string; run(): Promise<StepOutcome> }[];
  /** Counts after the refresh. */
  counts(): { readonly models: number; readonly providers: number };
}

/** @returns a refresh function. Calls run one at a time; a call during a refresh waits for it and then runs its own. */
export function createRefresh(plan: RefreshPlan): () => Promise<RefreshReport> {
  let before: Promise<unknown> = Promise.resolve();
  return () => {
    const report = before.then(() => refresh(plan));
    before = report.catch(() => {});
    return report;
  };
}

async function refresh({ steps, counts }: RefreshPlan): Promise<RefreshReport> {
  const startedAt = new Date();
  const begun = performance.now();
  const reportedSteps: RefreshReport['steps'] = [];
  for (const { name, run } of steps) {
    const stepBegun = performance.now();
    const duration = () => Math.round(performance.now() - stepBegun);
    try {
      reportedSteps.push({ name, ...(await run()), duration_ms: duration() });
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      reportedSteps.push({ name, status: 'failed', error: message, duration_ms: duration() });
    }
  }
  const { models, providers } = counts();
  const hasFailed =
    reportedSteps.some(({ name, status }) => name === 'providers' && status === 'failed') && models === 0;
  const isWhole = reportedSteps.every(({ status }) => status === 'ok' || status === 'skipped');
  return {
    status: hasFailed ? 'failed' : isWhole ? 'ok' : 'partial',
    started_at: startedAt.toISOString(),
    finished_at: new Date().toISOString(),
    duration_ms: Math.round(performance.now() - begun),
    model_count: models,
    provider_count: providers,
    steps: reportedSteps,
  };
}

export interface RuntimeOptions {
  /** Settings by name: `on`, `off`, or their other value. */
  flags(): Readonly<Record<string, string | boolean | undefined>>;
  /** One at a time. */
  refresh(): Promise<RefreshReport>;
  /** Reads the configuration of the gateway again; `problems`: nothing has changed. */
  reload(cause: { readonly origin: 'request'; readonly context: EventContext }): Promise<ReloadOutcome>;
  /** Of the gateway. */
  readonly version: string;
  /** Version of the format of the log's segments. */
  readonly logFormat: number;
}

const getConfig = scopedAdmin('getRuntimeConfig', 'List which features are on', {
  exposeHeadRoute: false,
  response: { 200: jsonAnswer('`on`, `off` or another value, by setting', z.record(z.string(), z.string())) },
});

const versions = z.object({
  gateway: z.string(),
  node: z.string(),
  log_format: z.int().describe('Of the segments that it writes'),
  started_at: z.iso.datetime().describe('When the process that answers was started'),
});

const getVersions = globalAdmin('getVersions', 'Get the versions of the gateway, of Node.js and of the log', {
  response: { 200: jsonAnswer('Of the process that answers', versions) },
});

const listSettings = globalAdmin('listRuntimeSettings', 'List the settings that can be changed at run time', {
  exposeHeadRoute: false,
  response: { 200: jsonAnswer('Always empty', z.object({ settings: z.array(z.unknown()) })) },
});

const setSetting = globalAdmin('setRuntimeSetting', 'Change a setting at run time', {
  description: 'No setting can be changed at run time: 404 `runtime_setting_not_found`.',
  params: pathParameters({ key: 'Name of the setting' }),
  body: z.strictObject({ value: z.string() }),
  example: { value: 'on' },
  response: { 200: emptyAnswer('Not used') },
  errors: [404],
});

const refreshRuntime = globalAdmin('refreshRuntime', 'Read the model list of every provider again', {
  description: 'One refresh at a time: a call during another refresh waits for it first.',
  response: { 200: jsonAnswer('The outcome of each step', refreshReport) },
});

const changedSetting = z.object({
  setting: z.string(),
  before: z.string().optional().describe('Absent: it was not set, or is a secret'),
  after: z.string().optional(),
  secret: z.literal(true).optional(),
});

const reloaded = z.object({
  changed: z.array(changedSetting),
  needs_restart: z.array(z.string()).describe('Settings that differ and change at the next start'),
});

type ReloadOutcome =
  | { readonly changed: readonly z.infer<typeof changedSetting>[]; readonly needsRestart: readonly string[] }
  | { readonly problems: readonly string[]; readonly temporary?: boolean };

const reloadRuntime = globalAdmin('reloadRuntime', 'Read the settings again', {
  description:
    'Reads `chancery.yaml`, `.env` and the files of secrets. Other gateways on the log read theirs afterwards. When a ' +
    'setting is invalid, nothing changes: 409 `configuration_invalid` with its place.',
  response: { 200: jsonAnswer('What has changed', reloaded) },
  errors: [409],
});

export function registerRuntime(admin: Routes, options: RuntimeOptions): void {
  const { flags, refresh, reload, version, logFormat } = options;
  const config = () => {
    const shown = Object.entries(flags()).filter(([, value]) => value !== undefined && value !== '');
    return Object.fromEntries(shown.map(([name, value]) => [name, typeof value === 'boolean' ? onOff(value) : value]));
  };
  admin.get('/runtime/config', getConfig, config);
  // Older clients of this prefix expect the dashboard's configuration at this address.
  if (admin.prefix === '/admin/api/v1') {
    admin.get('/dashboard/config', getConfig, (_request, reply) => {
      reply.header('link', '</admin/runtime/config>; rel="successor-version"');
      return config();
    });
  }

  admin.get('/runtime/versions', getVersions, () => ({
    gateway: version,
    node: process.version,
    log_format: logFormat,
    started_at: timeText(performance.timeOrigin),
  }));

  // No setting can be changed at run time; the routes answer so in the format that clients expect.
  admin.get('/runtime/settings', listSettings, () => ({ settings: [] }));
  admin.put('/runtime/settings/:key', setSetting, (request) => {
    throw refusals.notFound('runtime setting', request.params.key, 'runtime_setting_not_found');
  });

  admin.post('/runtime/refresh', refreshRuntime, () => refresh());

  admin.post('/runtime/reload', reloadRuntime, async (request) => {
    const outcome = await reload({ origin: 'request', context: eventContextOf(request) });
    if ('problems' in outcome) throw refusals.notReloaded(outcome.problems, outcome.temporary === true);
    return { changed: [...outcome.changed], needs_restart: [...outcome.needsRestart] };
  });
}

function onOff(value: boolean): string {
  return value ? 'on' : 'off';
}
