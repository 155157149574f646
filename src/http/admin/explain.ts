/** `GET /admin/explain`: whether a key or a user path may use a model, and the event that decided it. */
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { UserLists } from '../../commands/access/authorizer.ts';
import { keyNotFound, keyStream } from '../../commands/keys/key.ts';
import type { Target } from '../../commands/model-request/routing-types.ts';
import { refusals } from '../../commands/refusal.ts';
import { type UserPolicies, userStream } from '../../commands/users/user-policy.ts';
import { virtualModelStream } from '../../commands/virtual-models/decider.ts';
import type { VirtualModelDirectory } from '../../commands/virtual-models/directory.ts';
import { type ExplainedStep, type ExplainedTarget, explain } from '../../commands/virtual-models/explain.ts';
import type { VirtualModel } from '../../commands/virtual-models/virtual-model.ts';
import { explainWorkflow, type WorkflowDirectory } from '../../commands/workflows/directory.ts';
import type { Position, RecordedEvent, StreamName, UserPath } from '../../events/event.ts';
import type { EventLog } from '../../events/log.ts';
import type { KeyRecord, KeysState } from '../../projections/keys.ts';
import { queryOfParameters, textParameter } from '../api/parameters.ts';
import { jsonAnswer, type Routes, scopedAdmin } from '../api/route-schema.ts';
import { timeText } from '../dates.ts';
import { optionalUserPath } from '../request-head.ts';
import { isWithin, pathInScope, pathsVisibleTo, scopeOf } from './admin-scope.ts';
import type { Moment } from './as-of.ts';
import { explainedWorkflow, explainedWorkflowOf } from './guardrails/workflow-rows.ts';
import { asOfParameter } from './parameters.ts';

/** The policies in force at a moment. */
export interface PoliciesAt {
  readonly keys: Pick<KeysState, 'byId'>;
  readonly lists: UserLists;
  readonly virtualModels: Pick<VirtualModelDirectory, 'policies' | 'redirects' | 'inForce'>;
}

export interface ExplainOptions {
  readonly log: EventLog;
  readonly now: PoliciesAt;
  /** The policies at the request's `as_of`; undefined without one. @throws Refusal 400 */
  asOf(asOf: string | undefined): Promise<(PoliciesAt & { readonly moment: Moment }) | undefined>;
  /** The workflows at the request's `as_of`; those in force without one. @throws Refusal 400 */
  workflowsAt(asOf: string | undefined): Promise<WorkflowDirectory>;
  /** Of user paths, in force. */
  readonly policies: UserPolicies;
  resolve(model: string, provider: string | undefined): Target | undefined;
}

const source = z.object({
  position: z.string(),
  revision: z.string(),
  at: z.iso.datetime(),
  actor: z.string(),
  type: z.string(),
});

const step = z.object({
  check: z.enum(['key is accepted', 'virtual model', 'model policy', 'key', 'user path']),
  subject: z.string(),
  target: z.string().optional().describe('The member of `resolved` that the step concerns. Absent: all of them'),
  allowed: z.boolean(),
  list: z.array(z.string()).optional().describe('The list that was checked'),
  reason: z.string().optional(),
  source: z.enum(['event', 'config', 'default']),
  event: source.nullable().describe('The event that set the deciding policy'),
});

const explanationSchema = z.object({
  allowed: z.boolean(),
  model: z.string(),
  user_path: z.string().nullable(),
  key: z.string().nullable(),
  as_of: z.object({ position: z.string(), at: z.iso.datetime() }).nullable(),
  resolved: z.array(z.object({ selector: z.string(), through: z.array(z.string()), allowed: z.boolean() })),
  steps: z.array(step),
  workflow: explainedWorkflow.describe('The workflow of a request that calls the first allowed member of `resolved`'),
});

const explainAccess = scopedAdmin('adminExplain', 'Explain whether a model may be used, and which event decides it', {
  description:
    'Decided by the authorizer of model requests, with the policies that administrators had set at `as_of`. The ' +
    'available models and the configuration are always the current ones.',
  querystring: queryOfParameters({
    model: textParameter('As in a model request; required'),
    provider: textParameter('Name or type of a provider, as the `provider` member of a model request'),
    key: textParameter('Id or name of a managed key; the path of a key that is bound to one replaces `user_path`'),
    user_path: textParameter("A user path. Default: the root of the caller's scope"),
    as_of: asOfParameter,
  }),
  response: { 200: jsonAnswer('The decision, with every check', explanationSchema) },
  errors: [404],
});

export function registerExplain(admin: Routes, options: ExplainOptions): void {
  const { log, resolve } = options;

  admin.get('/explain', explainAccess, async (request) => {
    const { model, provider, as_of, ...query } = request.query;
    if (model === undefined) throw refusals.missingParameter('model');
    const policies = await options.asOf(as_of);
    const { keys, lists, virtualModels } = policies ?? options.now;
    const key = keyIn(request, query.key, keys);
    const userPath = pathIn(request, query.user_path, key);
    // As in the lists of models, a virtual model for other user paths alone is not distinguishable from a missing one.
    const isVisible = ({ userPaths }: VirtualModel) =>
      userPaths.length === 0 || pathsVisibleTo(scopeOf(request), userPaths).length > 0;
    const explanation = explain(
      { model, provider, userPath, key, now: policies?.moment.at ?? Date.now() },
      { users: lists, models: virtualModels.policies, redirects: virtualModels.redirects, resolve, isVisible },
    );
    if (explanation === undefined) throw refusals.modelNotFound(model);
    const { allowed, resolved, steps } = explanation;
    const until = policies?.moment.position;
    const visibleSteps = steps.map((step) => visibleTo(scopeOf(request), step));
    return {
      allowed,
      model,
      user_path: userPath ?? null,
      key: key?.id ?? null,
      as_of: policies === undefined ? null : { position: policies.moment.position, at: timeText(policies.moment.at) },
      resolved,
      workflow: workflowFor(scopeOf(request), userPath, resolved, await options.workflowsAt(as_of)),
      steps: await Promise.all(visibleSteps.map((step) => sourced(step, virtualModels, until))),
    };
  });

  /** The step with the source of the policy that decided it. */
  async function sourced(step: ExplainedStep, models: PoliciesAt['virtualModels'], until: Position | undefined) {
    const setBy = setter(step, options.policies, models);
    if (typeof setBy === 'string') return { ...step, source: setBy, event: null };
    const event = await newestOf(setBy, until, log);
    return { ...step, source: 'event', event: event === undefined ? null : eventView(event) };
  }
}

/** An administrator of a subtree sees the matching workflow, and of the others those of paths in the subtree. */
function workflowFor(
  scope: UserPath | undefined,
  userPath: UserPath | undefined,
  resolved: readonly ExplainedTarget[],
  directory: WorkflowDirectory,
) {
  const { selector } = resolved.find(({ allowed }) => allowed) ?? resolved[0] ?? {};
  const slash = selector?.indexOf('/') ?? -1;
  const question = { userPath, provider: selector?.slice(0, slash), model: selector?.slice(slash + 1) };
  const visible = [...directory.active].filter(({ workflow }) =>
    isWithin(scope, workflow.scope.userPath as UserPath | undefined),
  );
  const select: WorkflowDirectory['select'] = (...of) => directory.select(...of);
  return explainedWorkflowOf(explainWorkflow(question, { select, active: visible }));
}

/** Removes the user paths outside the subtree from a virtual model's list, for an administrator of a subtree. */
function visibleTo(scope: UserPath | undefined, step: ExplainedStep): ExplainedStep {
  if (step.check !== 'virtual model' || step.list === undefined) return step;
  return { ...step, list: pathsVisibleTo(scope, step.list) };
}

/** At most this many ids are listed when several keys share a name. */
const MAX_NAMED = 10;

/**
 * The key in the query, by its id or its name.
 * @throws Refusal 404 for an unknown key, and for one outside the caller's scope; 400 when several keys share the name
 */
function keyIn(
  request: FastifyRequest,
  given: string | undefined,
  { byId }: Pick<KeysState, 'byId'>,
): KeyRecord | undefined {
  if (given === undefined) return undefined;
  const scope = scopeOf(request);
  const known = byId.get(given);
  if (known !== undefined && isWithin(scope, known.userPath)) return known;
  const [named, ...others] = [...byId.values()].filter(
    ({ name, userPath }) => name === given && isWithin(scope, userPath),
  );
  if (named === undefined) throw keyNotFound(given);
  if (others.length === 0) return named;
  const ids = [named, ...others].map(({ id }) => id);
  const listed = ids.length > MAX_NAMED ? `${ids.slice(0, MAX_NAMED).join(', ')}, …` : ids.join(', ');
  throw refusals.invalidRequest(`${ids.length} keys are named '${given}': ${listed}. Send the id of one.`, 'key');
}

/** The path to explain: a key's own path wins over the one in the query. @throws Refusal */
function pathIn(request: FastifyRequest, given: string | undefined, key: KeyRecord | undefined): UserPath | undefined {
  const path = pathInScope(scopeOf(request), optionalUserPath(given, 'user_path'));
  return key?.userPath ?? path;
}

/** The events that decide whether a key is accepted. */
const keyStateTypes = ['key.created', 'key.deactivated', 'key.reactivated', 'key.expiry_changed'];

/** The event types of one stream that may have set a policy. */
interface Setter {
  readonly stream: StreamName;
  readonly types: readonly string[];
}

function setter(
  { check, subject }: ExplainedStep,
  policies: UserPolicies,
  models: PoliciesAt['virtualModels'],
): Setter | 'config' | 'default' {
  switch (check) {
    case 'key is accepted':
      return { stream: keyStream(subject), types: keyStateTypes };
    case 'key':
      return { stream: keyStream(subject), types: ['key.created', 'key.allowed_models_changed'] };
    case 'user path': {
      const path = subject as UserPath;
      return policies.isDeclared(path) ? 'config' : { stream: userStream(path), types: ['user.policy_set'] };
    }
    case 'model policy':
    case 'virtual model':
      if (check === 'model policy' && subject === 'default') return 'default';
      return models.inForce.isDeclared(subject)
        ? 'config'
        : { stream: virtualModelStream(subject), types: ['virtual_model.saved'] };
  }
}

async function newestOf(
  { stream, types }: Setter,
  until: Position | undefined,
  log: EventLog,
): Promise<RecordedEvent | undefined> {
  for await (const event of log.readStream(stream, { direction: 'backwards' })) {
    if ((until === undefined || event.position <= until) && types.includes(event.type)) return event;
  }
  return undefined;
}

function eventView({ position, revision, at, context, type }: RecordedEvent) {
  return { position, revision: String(revision), at: timeText(at), actor: context.actor, type };
}
