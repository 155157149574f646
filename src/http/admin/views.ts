/** `/admin/views`: the read models of this process, and what administrators decide about them. */
import { z } from 'zod';
import {
  type ChangeableView,
  type ChangeableViews,
  requestRebuild,
  skipEvent,
} from '../../commands/views/change-views.ts';
import { type Position, parsePosition } from '../../events/event.ts';
import type { EventLog } from '../../events/log.ts';
import type { ProjectionRunner, ProjectionStatus } from '../../projections/runner.ts';
import { type RebuildRequest, rebuildRequests, type Skipped, skippedEvents } from '../../projections/snapshot-basis.ts';
import { globalAdmin, jsonAnswer, pathParameters, type Routes } from '../api/route-schema.ts';
import { timeText } from '../dates.ts';
import { eventContextOf } from '../server.ts';

/** The read model in the analytics process, which tries again by itself after an error. */
export interface AnalyticsFacts {
  /** Every event up to this position is stored, where it is known. */
  readonly position: Position | undefined;
  readonly error: string | undefined;
  readonly health: 'ok' | 'behind' | 'down' | 'off';
  readonly lagEvents: number | undefined;
  readonly lagMs: number | undefined;
}

export interface ViewsOptions {
  readonly log: EventLog;
  readonly projections: Pick<ProjectionRunner, 'status' | 'whenContinued'>;
  /** What each read model is about, by its name. */
  readonly about: Readonly<Record<string, string>>;
  /** Undefined while it is off. */
  analytics(): AnalyticsFacts | undefined;
}

const ANALYTICS_VIEW = 'analytics';

/** How long a request waits until a read model that was stopped has continued. */
const CONTINUE_MS = 5_000;

const position = z.string();
const name = pathParameters({ name: 'Name of the read model' });
const reason = z.string().trim().min(1).max(1024).describe('Recorded with the change');

const viewRow = z.object({
  name: z.string(),
  about: z.string().nullable(),
  state: z.enum(['catching_up', 'live', 'stopped', 'unknown']),
  position: position.nullable().describe('Every event up to here is in it; null when not known'),
  lag_events: z.int().nullable().describe('Events of the log behind that position'),
  lag_seconds: z.number().nullable().describe('Age of the state: 0 at the end of the log'),
  error: z.string().nullable().describe('Why it has stopped'),
  stopped_at: z
    .object({ position, type: z.string(), stream: z.string() })
    .nullable()
    .describe('The event that it could not apply'),
  started_from: z.string().nullable().describe('The snapshot or the beginning of the log, and why'),
  saved_position: position.nullable().describe('Of its newest snapshot; null without one'),
  can_rebuild: z.boolean(),
  rebuild_requested: z
    .object({ at: z.iso.datetime(), by: z.string() })
    .nullable()
    .describe('The next start of a gateway builds it from the log'),
  skipped: z.array(z.object({ position, type: z.string(), reason: z.string(), by: z.string(), at: z.iso.datetime() })),
});

type ViewRow = z.infer<typeof viewRow>;

const listViews = globalAdmin('listViews', 'List the read models with their lag', {
  description: 'As the process that answers has them. The last one is analytics, unless it is off.',
  response: { 200: jsonAnswer('The read models', z.object({ head: position, views: z.array(viewRow) })) },
});

const skipped = z.object({
  name: z.string(),
  position,
  in_force: z.boolean().describe('Whether the read model has continued behind the event'),
  message: z.string(),
});

const postSkip = globalAdmin('skipEventOfView', 'Let a stopped read model continue without the event it cannot apply', {
  description:
    'The skip is recorded with its author and reason, and is permanent. The event stays in the log. `200`: the read ' +
    'model of this process has continued; those of other processes continue when they read the record. `202`: it is ' +
    'recorded, and in force later, as the message says.',
  params: name,
  body: z.strictObject({ position: z.string().regex(/^\d{16}$/), reason }),
  example: { position: '0000000000012345', reason: 'written by a broken build' },
  response: { 200: jsonAnswer('In force', skipped), 202: jsonAnswer('Recorded', skipped) },
  errors: [404, 409],
});

const rebuild = z.object({ name: z.string(), position: position.describe('Of the record'), message: z.string() });

const postRebuild = globalAdmin('rebuildView', 'Build a read model from the log at the next start', {
  description:
    'Recorded with its author. Until its next start each gateway continues with what it has; then it does not use the ' +
    'snapshot, and reads the log from its beginning.',
  params: name,
  body: z.strictObject({ reason: reason.optional() }),
  example: { reason: 'spending differs from the provider’s invoice' },
  response: { 202: jsonAnswer('Recorded; in force at the next start', rebuild) },
  errors: [404, 409],
});

export function registerViews(admin: Routes, options: ViewsOptions): void {
  const { log, projections, about, analytics } = options;
  const views: ChangeableViews = {
    find: (view) => changeable(view, options),
    isSkipped: async (view, position) =>
      (await skippedEvents(log)).some((one) => one.view === view && one.position === position),
  };

  admin.get('/views', listViews, async () => {
    const [allSkipped, rebuilds] = await Promise.all([skippedEvents(log), rebuildRequests(log)]);
    const head = await log.head();
    const recorded = { head, allSkipped, rebuilds, about };
    const facts = analytics();
    const rows = projections.status().map((status) => rowOf(status, recorded));
    return { head, views: facts === undefined ? rows : [...rows, analyticsRow(facts, recorded)] };
  });

  admin.post('/views/:name/skip', postSkip, async (request, reply) => {
    const view = request.params.name;
    const at = request.body.position as Position;
    await skipEvent({ view, position: at, reason: request.body.reason }, views, log, eventContextOf(request));
    const message = await whyNotInForce(view, at, options);
    if (message !== undefined) return reply.status(202).send({ name: view, position: at, in_force: false, message });
    return { name: view, position: at, in_force: true, message: `It has continued without event ${at}.` };
  });

  admin.post('/views/:name/rebuild', postRebuild, async (request, reply) => {
    const view = request.params.name;
    const at = await requestRebuild(view, request.body.reason, views, log, eventContextOf(request));
    const message = 'Each gateway builds it from the log at its next start. Until then it continues with what it has.';
    return reply.status(202).send({ name: view, position: at, message });
  });
}

function changeable(view: string, { projections, analytics }: ViewsOptions): ChangeableView | undefined {
  if (view === ANALYTICS_VIEW) {
    const facts = analytics();
    if (facts === undefined) return undefined;
    const stoppedAt = stoppedAtOf(facts.error ?? null) ?? undefined;
    return { rebuild: 'elsewhere', stoppedAt };
  }
  const status = projections.status().find(({ name }) => name === view);
  return status && { rebuild: status.isSaved ? 'possible' : 'always', stoppedAt: status.stoppedAt };
}

/** Undefined when the read model of this process has continued behind the skipped event. */
async function whyNotInForce(view: string, at: Position, { projections }: ViewsOptions): Promise<string | undefined> {
  if (view === ANALYTICS_VIEW) return 'Recorded. Analytics continues when its process tries again, within a minute.';
  const status = projections.status().find((one) => one.name === view);
  if (status?.continues === false) return 'Recorded. It continues at the next start of the gateway.';
  const waited = new AbortController();
  const timeout = AbortSignal.timeout(CONTINUE_MS);
  const late = new Promise<'late'>((resolve) => {
    timeout.addEventListener('abort', () => resolve('late'), { signal: waited.signal });
  });
  const outcome = await Promise.race([projections.whenContinued(view, at), late]);
  waited.abort();
  return outcome === 'late' ? 'Recorded. It reads the log again from its last snapshot, and continues.' : undefined;
}

interface Recorded {
  readonly head: Position;
  readonly allSkipped: readonly Skipped[];
  readonly rebuilds: ReadonlyMap<string, RebuildRequest>;
  readonly about: ViewsOptions['about'];
}

const states = { 'catching-up': 'catching_up', live: 'live', stopped: 'stopped' } as const;

function rowOf(status: ProjectionStatus, { head, rebuilds, about, allSkipped }: Recorded): ViewRow {
  const { name, phase, position, checkpoint, lagMs, error = null, stoppedAt = null, startedFrom, isSaved } = status;
  const request = rebuilds.get(name);
  const isRequested = request !== undefined && request.position !== status.rebuiltFor;
  return {
    name,
    about: about[name] ?? null,
    state: states[phase],
    position: parsePosition(position) === 0 ? null : position,
    lag_events: Math.max(0, parsePosition(head) - parsePosition(position)),
    lag_seconds: lagMs / 1000,
    error,
    stopped_at: stoppedAt,
    started_from: startedFrom,
    saved_position: isSaved && parsePosition(checkpoint) > 0 ? checkpoint : null,
    can_rebuild: isSaved,
    rebuild_requested: isRequested ? { at: timeText(request.at), by: request.by } : null,
    skipped: skippedOf(name, allSkipped),
  };
}

function analyticsRow(facts: AnalyticsFacts, { allSkipped, about }: Recorded): ViewRow {
  const { health, position = null, lagEvents = null, lagMs, error = null } = facts;
  const isKnown = position !== null || health === 'down';
  return {
    name: ANALYTICS_VIEW,
    about: about[ANALYTICS_VIEW] ?? null,
    state: !isKnown ? 'unknown' : health === 'down' ? 'stopped' : health === 'behind' ? 'catching_up' : 'live',
    position,
    lag_events: lagEvents,
    lag_seconds: lagMs === undefined ? null : lagMs / 1000,
    error,
    stopped_at: stoppedAtOf(error),
    started_from: null,
    saved_position: null,
    can_rebuild: false,
    rebuild_requested: null,
    skipped: skippedOf(ANALYTICS_VIEW, allSkipped),
  };
}

/** The event that the message of `UnprocessableEvent` names. */
function stoppedAtOf(error: string | null): (ViewRow['stopped_at'] & { position: Position }) | null {
  const [, position, type, stream] = /event (\d{16}) \((\S+) of (\S+)\) cannot be processed/.exec(error ?? '') ?? [];
  return position === undefined || type === undefined || stream === undefined
    ? null
    : { position: position as Position, type, stream };
}

const skippedOf = (view: string, all: readonly Skipped[]): ViewRow['skipped'] =>
  all
    .filter((one) => one.view === view)
    .map(({ position, eventType, reason, by, at }) => ({ position, type: eventType, reason, by, at: timeText(at) }));
