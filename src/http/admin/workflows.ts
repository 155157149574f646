/** `/admin/workflows`: the features and guardrails of the requests of a scope. Versions are created, never changed. */
import { z } from 'zod';
import { Refusal, refusals } from '../../commands/refusal.ts';
import {
  type RecordedVersion,
  readVersion,
  readVersions,
  type WorkflowChanges,
} from '../../commands/workflows/changes.ts';
import type { WorkflowDirectory } from '../../commands/workflows/directory.ts';
import { scopeKey, type WorkflowVersion } from '../../commands/workflows/workflow.ts';
import { type ScopeTargets, workflowDraft } from '../../commands/workflows/workflow-input.ts';
import type { EventLog } from '../../events/log.ts';
import { globalAdmin } from '../api/declare.ts';
import { queryOfParameters } from '../api/parameters.ts';
import { emptyAnswer, jsonAnswer, pathParameters, type Routes } from '../api/route-schema.ts';
import { eventContextOf } from '../server.ts';
import { ifMatch, sendETag } from './conditional.ts';
import { asOfParameter } from './parameters.ts';
import { workflowBody, workflowInput } from './workflows-body.ts';
import {
  newWorkflowRow,
  newWorkflowRowOf,
  workflowRow,
  workflowRowOf,
  workflowVersionRow,
  workflowVersionRowOf,
} from './workflows-rows.ts';

export interface WorkflowRoutesOptions {
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
