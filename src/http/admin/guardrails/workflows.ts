/** `/admin/workflows`: the features and guardrails of the requests of a scope. Versions are created, never changed. */
import { z } from 'zod';
import { Refusal, refusals } from '../../../commands/refusal.ts';
import {
  type RecordedVersion,
  readVersion,
  readVersions,
  type WorkflowChanges,
} from '../../../commands/workflows/changes.ts';
import type { WorkflowDirectory } from '../../../commands/workflows/directory.ts';
import { scopeKey, type WorkflowVersion } from '../../../commands/workflows/workflow.ts';
import {
  type CacheInput,
  type PayloadInput,
  type ScopeTargets,
  type WorkflowInput,
  workflowDraft,
} from '../../../commands/workflows/workflow-input.ts';
import type { EventLog } from '../../../events/log.ts';
import { queryOfParameters } from '../../api/parameters.ts';
import { emptyAnswer, globalAdmin, jsonAnswer, pathParameters, type Routes } from '../../api/route-schema.ts';
import { optionalUserPath } from '../../request-head.ts';
import { eventContextOf } from '../../server.ts';
import { ifMatch, sendETag } from '../conditional.ts';
import { asOfParameter } from '../parameters.ts';
import {
  newWorkflowRow,
  newWorkflowRowOf,
  workflowRow,
  workflowRowOf,
  workflowVersionRow,
  workflowVersionRowOf,
} from './workflow-rows.ts';

/** The body of `POST /admin/workflows`. */
const features = z.strictObject({
  cache: z.boolean(),
  audit: z.boolean(),
  usage: z.boolean(),
  budget: z.boolean().nullish().describe('default: true; without effect while `usage` is false'),
  guardrails: z.boolean(),
  failover: z.boolean().nullish().describe('default: true'),
  fallback: z.boolean().nullish().describe('former name of `failover`'),
});

const step = z.number().nullish().describe('default: 0; guardrails of one step run at the same time');

const payload = z.strictObject({
  schema_version: z.number().nullish().describe('1 or 2; default: 2, or 1 when there are only `guardrails`'),
  features,
  guardrails: z
    .array(z.strictObject({ ref: z.string(), step }))
    .nullish()
    .describe('guardrails of the prompt phase; the only ones in version 1'),
  steps: z
    .array(z.strictObject({ ref: z.string(), phase: z.string().nullish().describe('default: `prompt`'), step }))
    .nullish(),
  cache: z
    .strictObject({
      scope: z
        .string()
        .nullish()
        .describe('who shares answers: `user_path` (default), `key`, or `shared` for all requests of the workflow'),
      ttl_seconds: z.number().nullish().describe('default: RESPONSE_CACHE_TTL; at most RESPONSE_CACHE_MAX_TTL'),
      tool_calls: z.boolean().nullish().describe('keep answers that call tools too; default: false'),
    })
    .nullish()
    .describe('of version 2'),
  headers: z
    .strictObject({
      pass: z.array(z.string()).nullish().describe('headers of clients that are sent on'),
      set: z.record(z.string(), z.string()).nullish().describe('headers that are sent with these values'),
      remove: z.array(z.string()).nullish().describe('headers of clients that are not sent on'),
    })
    .nullish()
    .describe('of version 2: headers of requests to providers; none that holds credentials'),
});

export const workflowBody = z.strictObject({
  scope_provider_name: z.string().nullish().describe('a provider instance, or a provider type'),
  scope_provider: z.string().nullish().describe('former name of `scope_provider_name`'),
  scope_model: z.string().nullish(),
  scope_user_path: z.string().nullish(),
  name: z.string(),
  description: z.string().nullish(),
  workflow_payload: payload,
});

/** @throws Refusal 400 */
export function workflowInput(body: z.infer<typeof workflowBody>): WorkflowInput {
  return {
    provider: either(body.scope_provider_name, { value: body.scope_provider, param: 'scope_provider' }) || undefined,
    model: body.scope_model || undefined,
    userPath: optionalUserPath(body.scope_user_path, 'scope_user_path'),
    name: body.name,
    description: body.description ?? undefined,
    payload: payloadInput(body.workflow_payload),
  };
}

/** @throws Refusal 400 */
function payloadInput({
  schema_version,
  features,
  guardrails,
  steps,
  cache: settings,
  headers,
}: z.infer<typeof payload>): PayloadInput {
  const { cache, audit, usage, guardrails: checks, budget } = features;
  return {
    schemaVersion: schema_version ?? undefined,
    features: {
      cache,
      audit,
      usage,
      budget: budget ?? true,
      guardrails: checks,
      failover:
        either(features.failover, { value: features.fallback, param: 'workflow_payload.features.fallback' }) ?? true,
    },
    guardrails: guardrails?.map(({ ref, step }) => ({ ref, step: step ?? undefined })),
    steps: steps?.map(({ ref, phase, step }) => ({ ref, phase: phase ?? undefined, step: step ?? undefined })),
    cache: settings == null ? undefined : cacheInput(settings),
    headers:
      headers == null
        ? undefined
        : { pass: headers.pass ?? undefined, set: headers.set ?? undefined, remove: headers.remove ?? undefined },
  };
}

function cacheInput({ scope, ttl_seconds, tool_calls }: NonNullable<z.infer<typeof payload>['cache']>): CacheInput {
  return { scope: scope ?? undefined, ttlSeconds: ttl_seconds ?? undefined, toolCalls: tool_calls ?? undefined };
}

/** The value under its name or its former name. @throws Refusal 400 when both are there and differ */
function either<Value>(
  value: Value | null | undefined,
  former: { readonly value: Value | null | undefined; readonly param: string },
): Value | undefined {
  const other = former.value ?? undefined;
  if (value == null) return other;
  if (other === undefined || other === value) return value;
  throw refusals.invalidRequest(
    `'${former.param}' is a former name, and differs from the value under the new one.`,
    former.param,
  );
}

interface WorkflowRoutesOptions {
  readonly log: Pick<EventLog, 'readStream'>;
  readonly directory: WorkflowDirectory;
  readonly changes: WorkflowChanges;
  readonly targets: ScopeTargets;
  /** The workflows at a moment; those in force without one. @throws Refusal 400 */
  at(asOf: string | undefined): Promise<WorkflowDirectory>;
}

const listWorkflows = globalAdmin('listWorkflows', 'List the active workflows', {
  querystring: queryOfParameters({ as_of: asOfParameter }),
  response: { 200: jsonAnswer('The active version of each scope, the global one first', z.array(workflowRow)) },
});

const getWorkflow = globalAdmin('getWorkflow', 'Get one version of a workflow', {
  etag: true,
  description: 'The `ETag` is the revision of the active version of its scope, or `none`.',
  params: pathParameters({ id: 'Id of the version, active or not' }),
  response: { 200: jsonAnswer('The version, compiled with the guardrails in force', workflowRow) },
  errors: [404],
});

/** A scope with more versions lists the newest. */
const MAX_VERSIONS = 100;

const listVersions = globalAdmin('listWorkflowVersions', 'List the versions of the scope of a workflow', {
  params: pathParameters({ id: 'Id of one of the versions' }),
  response: { 200: jsonAnswer(`The newest ${MAX_VERSIONS}, the newest first`, z.array(workflowVersionRow)) },
  errors: [404],
});

const createWorkflow = globalAdmin('createWorkflow', 'Create a version of a workflow', {
  ifMatch: '/workflows/:id',
  description:
    'The new version replaces the active one of its scope. `If-Match` has the `revision` of that one, or `none` when ' +
    'the scope has no active version. Version 1 of the payload is accepted too.',
  body: workflowBody,
  example: {
    scope_user_path: '/team',
    name: 'team',
    workflow_payload: {
      schema_version: 2,
      features: { cache: true, audit: false, usage: true, guardrails: false },
      steps: [],
    },
  },
  response: { 201: jsonAnswer('The new version', newWorkflowRow) },
});

const deactivateWorkflow = globalAdmin('deactivateWorkflow', 'Deactivate a workflow', {
  description: 'Not the global one: a new global workflow replaces it.',
  params: pathParameters({ id: 'Id of the active version' }),
  response: { 204: emptyAnswer('The scope has no workflow of its own any more') },
  errors: [404],
});

export function registerWorkflows(admin: Routes, options: WorkflowRoutesOptions): void {
  const { directory, changes, targets, at } = options;

  admin.get('/workflows', listWorkflows, async (request) => {
    const then = await at(request.query.as_of);
    const compiled = [...then.active].sort((one, other) => (one.selected.scope < other.selected.scope ? -1 : 1));
    return compiled.flatMap((one) => {
      const stored = then.storedAs(one.selected.scope);
      return stored === undefined ? [] : [workflowRowOf(one, stored)];
    });
  });

  admin.get('/workflows/:id', getWorkflow, async (request, reply) => {
    const { workflow, createdAt } = await recorded(request.params.id);
    const active = directory.storedAs(scopeKey(workflow.scope));
    sendETag(reply, active === undefined ? 'noStream' : String(active.revision));
    return workflowRowOf(directory.compile(workflow), { createdAt, revision: revisionOf(workflow) });
  });

  admin.get('/workflows/:id/versions', listVersions, async (request) => {
    const place = directory.placeOf(request.params.id);
    if (place === undefined) throw refusals.notFound('workflow', request.params.id);
    const versions = await readVersions(place.key, { log: options.log, limit: MAX_VERSIONS });
    return versions.map((one) => workflowVersionRowOf(one, revisionOf(one.workflow)));
  });

  admin.post('/workflows', createWorkflow, async (request, reply) => {
    const draft = workflowDraft(workflowInput(request.body), targets);
    if (draft instanceof Refusal) throw draft;
    const { id } = await changes.create(draft, eventContextOf(request), { ifRevision: ifMatch(request) });
    reply.status(201);
    const version = await recorded(id);
    const { workflow } = version;
    return newWorkflowRowOf(version, revisionOf(workflow), directory.compile(workflow));
  });

  admin.post('/workflows/:id/deactivate', deactivateWorkflow, async (request, reply) => {
    await changes.deactivate(request.params.id, eventContextOf(request));
    return reply.status(204).send();
  });

  /** @throws Refusal 404 */
  async function recorded(id: string): Promise<RecordedVersion> {
    const place = directory.placeOf(id);
    const found = place === undefined ? undefined : await readVersion(place, options.log);
    if (found === undefined) throw refusals.notFound('workflow', id);
    return found;
  }

  /** Undefined for a version that is not active. */
  function revisionOf({ id, scope }: WorkflowVersion): number | undefined {
    const active = directory.storedAs(scopeKey(scope));
    return active?.workflow.id === id ? active.revision : undefined;
  }
}
