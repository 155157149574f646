/** `/admin/guardrails` and its types, and the guardrails that steps of workflows can name. */
import { z } from 'zod';
import type { GuardrailChanges } from '../../commands/guardrails/changes.ts';
import type { GuardrailDirectory } from '../../commands/guardrails/directory.ts';
import type { GuardrailTypes } from '../../commands/guardrails/guardrail.ts';
import { refusals } from '../../commands/refusal.ts';
import { globalAdmin } from '../api/declare.ts';
import { queryOfParameters } from '../api/parameters.ts';
import { emptyAnswer, jsonAnswer, pathParameters, type Routes } from '../api/route-schema.ts';
import { eventContextOf } from '../server.ts';
import { ifMatch, sendETag } from './conditional.ts';
import { guardrailBody, guardrailInput, guardrailRemovalBody } from './guardrails-body.ts';
import {
  guardrailRow,
  guardrailRowOf,
  guardrailRows,
  guardrailTypeRow,
  guardrailTypeRows,
  workflowGuardrailRow,
  workflowGuardrailRows,
} from './guardrails-rows.ts';
import { asOfParameter } from './parameters.ts';

export interface GuardrailRoutesOptions {
  readonly directory: GuardrailDirectory;
  readonly types: GuardrailTypes;
  readonly changes: GuardrailChanges;
  /** The guardrails at a moment; those in force without one. @throws Refusal 400 */
  at(asOf: string | undefined): Promise<GuardrailDirectory>;
}

const change = { ifMatch: '/guardrails/:name' } as const;

const listTypes = globalAdmin('listGuardrailTypes', 'List the guardrail types', {
  description: 'With the fields of their settings, their defaults and their phases.',
  response: { 200: jsonAnswer('All of them', z.array(guardrailTypeRow)) },
  errors: [503],
});

const listGuardrails = globalAdmin('listGuardrails', 'List the guardrails', {
  querystring: queryOfParameters({ as_of: asOfParameter }),
  response: { 200: jsonAnswer('All of them, by name', z.array(guardrailRow)) },
  errors: [503],
});

const getGuardrail = globalAdmin('getGuardrail', 'Get one guardrail', {
  etag: true,
  params: pathParameters({ name: 'Its name; a guardrail named `types` or `replay` is only in the list' }),
  querystring: queryOfParameters({ as_of: asOfParameter }),
  response: { 200: jsonAnswer('The guardrail', guardrailRow) },
  errors: [404, 503],
});

const saveGuardrail = globalAdmin('saveGuardrail', 'Create or replace a guardrail', {
  ...change,
  description:
    'Replaces the whole definition: omitted members get their defaults. The secret `********` keeps the stored one. ' +
    'Workflows that name the guardrail use the new definition from the next request on.',
  body: guardrailBody,
  example: { name: 'no-secrets', type: 'string_replace', config: { rules: 'secret => ***' } },
  response: { 200: jsonAnswer('The saved guardrail', guardrailRow) },
  errors: [503],
});

const removeGuardrail = globalAdmin('deleteGuardrail', 'Delete a guardrail', {
  ...change,
  description: 'Refused with 400 `guardrail_in_use` while an active workflow names it.',
  body: guardrailRemovalBody,
  example: { name: 'no-secrets' },
  response: { 204: emptyAnswer('The guardrail is deleted') },
  errors: [404, 503],
});

const listForSteps = globalAdmin('listWorkflowGuardrails', 'List the guardrails for steps of workflows', {
  response: { 200: jsonAnswer('Those that can run, by name', z.array(workflowGuardrailRow)) },
  errors: [503],
});

export function registerGuardrails(admin: Routes, options: GuardrailRoutesOptions): void {
  const { directory, types, changes, at } = options;

  admin.get('/guardrails/types', listTypes, async () => guardrailTypeRows(types));

  admin.get('/guardrails', listGuardrails, async (request) => guardrailRows(await at(request.query.as_of), types));

  admin.get('/guardrails/:name', getGuardrail, async (request, reply) => {
    const { name } = request.params;
    const then = await at(request.query.as_of);
    const guardrail = then.get(name);
    if (guardrail === undefined) throw refusals.notFound('guardrail', name);
    const row = guardrailRowOf(guardrail, then, types);
    if (row.revision !== undefined) sendETag(reply, row.revision);
    return row;
  });

  admin.put('/guardrails', saveGuardrail, async (request, reply) => {
    const input = guardrailInput(request.body);
    const by = { context: eventContextOf(request), ifRevision: ifMatch(request) };
    const { guardrail, revision } = await changes.save(input, by);
    if (guardrail === undefined) throw refusals.notFound('guardrail', input.name);
    sendETag(reply, revision);
    return guardrailRowOf(guardrail, directory, types);
  });

  admin.delete('/guardrails', removeGuardrail, async (request, reply) => {
    await changes.remove(request.body.name, { context: eventContextOf(request), ifRevision: ifMatch(request) });
    return reply.status(204).send();
  });

  admin.get('/workflows/guardrails', listForSteps, async () => workflowGuardrailRows(directory));
}
