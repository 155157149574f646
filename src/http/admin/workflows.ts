/** `/admin/workflows`: the features and guardrails of the requests of a scope. Versions are created, never changed. */
import { z } from 'zod';
import { Refusal, refusals } from '../../commands/refusal.ts';
import { type RecordedVersion, readVersion, type WorkflowChanges } from '../../commands/workflows/changes.ts';
import type { WorkflowDirectory } from '../../commands/workflows/directory.ts';
import { type ScopeTargets, workflowDraft } from '../../commands/workflows/workflow-input.ts';
import type { EventLog } from '../../events/log.ts';
import { globalAdmin } from '../api/declare.ts';
import { queryOfParameters } from '../api/parameters.ts';
import { emptyAnswer, jsonAnswer, pathParameters, type Routes } from '../api/route-schema.ts';
import { eventContextOf } from '../server.ts';
import { asOfParameter } from './parameters.ts';
import { workflowBody, workflowInput } from './workflows-body.ts';
import { workflowRow, workflowRowOf, workflowVersionRow, workflowVersionRowOf } from './workflows-rows.ts';

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
  params: pathParameters({ id: 'Id of the version, active or not' }),
  response: { 200: jsonAnswer('The version, compiled with the guardrails in force', workflowRow) },
  errors: [404],
});

const createWorkflow = globalAdmin('createWorkflow', 'Create a version of a workflow', {
  description: 'The new version replaces the active one of its scope. Version 1 of the payload is accepted too.',
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
  response: { 201: jsonAnswer('The new version', workflowVersionRow) },
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
    return compiled.map((one) => workflowRowOf(one, then.storedAs(one.selected.scope)?.createdAt ?? 0, true));
  });

  admin.get('/workflows/:id', getWorkflow, async (request) => {
    const { workflow, createdAt } = await recorded(request.params.id);
    return workflowRowOf(directory.compile(workflow), createdAt, isActive(workflow.id));
  });

  admin.post('/workflows', createWorkflow, async (request, reply) => {
    const draft = workflowDraft(workflowInput(request.body), targets);
    if (draft instanceof Refusal) throw draft;
    const { id } = await changes.create(draft, eventContextOf(request));
    reply.status(201);
    return workflowVersionRowOf(await recorded(id), isActive(id));
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

  function isActive(id: string): boolean {
    return directory.activeById(id) !== undefined;
  }
}
