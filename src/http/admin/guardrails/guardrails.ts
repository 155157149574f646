/** `/admin/guardrails` and its types, and the guardrails that steps of workflows can name. */
import { z } from 'zod';
import type { GuardrailChanges } from '../../../commands/guardrails/changes.ts';
import type { GuardrailDirectory } from '../../../commands/guardrails/directory.ts';
import {
  type Guardrail,
  type GuardrailInput,
  type GuardrailTypes,
  isPrepared,
  type PreparedGuardrail,
  SECRET_MASK,
  secretFields,
  type UsableType,
} from '../../../commands/guardrails/guardrail.ts';
import { queryOfParameters } from '../../api/parameters.ts';
import { emptyAnswer, globalAdmin, jsonAnswer, pathParameters, type Routes } from '../../api/route-schema.ts';
import { optionalUserPath } from '../../request-head.ts';
import { sendETag } from '../conditional.ts';
import { asOfParameter } from '../parameters.ts';
import { changeIn, savedMembers, sendObject } from '../resource.ts';

/** Guardrails and their types as the admin API returns them. */
const phases = z.array(z.enum(['prompt', 'response', 'stream'])).readonly();

const field = z.object({
  key: z.string(),
  label: z.string(),
  input: z.enum(['text', 'textarea', 'number', 'select', 'checkboxes', 'secret', 'model']),
  required: z.boolean(),
  help: z.string().optional(),
  placeholder: z.string().optional(),
  options: z
    .array(z.object({ value: z.string(), label: z.string() }))
    .readonly()
    .optional(),
  scope: z.enum(['', 'route']).describe('empty: of the instance'),
});

/** A row of `GET /admin/guardrails/types`. */
export const guardrailTypeRow = z.object({
  type: z.string(),
  label: z.string(),
  description: z.string(),
  defaults: z.record(z.string(), z.unknown()),
  fields: z.array(field).readonly(),
  phases,
  source: z.string().describe('`builtin`, or the module or folder of a plugin'),
  mutates: z.boolean(),
  guardrail: z.boolean(),
});

/** A row of `GET /admin/guardrails`, and the answer of `PUT`. */
export const guardrailRow = z.object({
  name: z.string(),
  type: z.string(),
  description: z.string().optional(),
  user_path: z.string().optional(),
  config: z.record(z.string(), z.unknown()).describe('a secret that is set is `********`'),
  fail_mode: z.enum(['closed', 'open']),
  timeout_ms: z.number().int(),
  phases,
  summary: z.string().optional(),
  guardrail: z.boolean(),
  managed: z.boolean().describe('declared in the configuration, where alone it can be changed'),
  problem: z.string().optional().describe('why it cannot run'),
  created_at: z.string().optional(),
  updated_at: z.string().optional(),
  revision: z.string().optional(),
});

/** A row of `GET /admin/workflows/guardrails`. */
export const workflowGuardrailRow = z.object({
  name: z.string(),
  type: z.string(),
  phases,
  summary: z.string().optional(),
});

/** In the order in which the types are declared. */
export function guardrailTypeRows(types: GuardrailTypes): z.infer<typeof guardrailTypeRow>[] {
  return [...types.values()].map(
    ({ type, label, description, defaults, fields, phases, mutating, source, isGuardrail }) => ({
      type,
      label,
      description,
      defaults,
      fields,
      phases,
      source: source ?? 'builtin',
      mutates: mutating,
      guardrail: isGuardrail ?? true,
    }),
  );
}

/** Sorted by name. */
export function guardrailRows(directory: GuardrailDirectory, types: GuardrailTypes): z.infer<typeof guardrailRow>[] {
  return directory.inForce.keys.flatMap((name) => guardrailRowOf(directory.inForce.get(name), directory, types) ?? []);
}

function guardrailRowOf(
  guardrail: Guardrail | undefined,
  directory: GuardrailDirectory,
  types: GuardrailTypes,
): z.infer<typeof guardrailRow> | undefined {
  if (guardrail === undefined) return undefined;
  const { name, type, description, userPath, failMode, timeoutMs } = guardrail;
  const prepared = directory.prepare(guardrail);
  return {
    name,
    type,
    description,
    user_path: userPath,
    config: maskedConfig(guardrail, types.get(type)),
    fail_mode: failMode,
    timeout_ms: timeoutMs,
    guardrail: types.get(type)?.isGuardrail ?? true,
    managed: directory.inForce.isDeclared(name),
    ...(isPrepared(prepared)
      ? { phases: usablePhases(prepared), summary: prepared.config.summary }
      : { phases: types.get(type)?.phases ?? [], problem: prepared.problem }),
    ...savedMembers(directory.inForce.savedAs(name)),
  };
}

/** Those that cannot run are left out. */
export function workflowGuardrailRows(directory: GuardrailDirectory): z.infer<typeof workflowGuardrailRow>[] {
  return directory.inForce.keys.flatMap((name) => {
    const prepared = directory.prepared(name);
    if (!isPrepared(prepared)) return [];
    const { type, config } = prepared;
    return [{ name, type: type.type, phases: usablePhases(prepared), summary: config.summary }];
  });
}

/** The phases of the type that this configuration can run in. */
function usablePhases({ type, config }: PreparedGuardrail) {
  return type.phases.filter((phase) => config.phaseProblem(phase) === undefined);
}

/** The configuration with the mask in place of each secret that is set. */
function maskedConfig({ config, secrets }: Guardrail, type: UsableType | undefined): Readonly<Record<string, unknown>> {
  // Of an unknown type, any setting may be a secret.
  const fields = type === undefined ? Object.keys(config) : secretFields(type);
  const set = [...fields.filter((key) => (config[key] ?? '') !== ''), ...Object.keys(secrets ?? {})];
  return { ...config, ...Object.fromEntries(set.map((key) => [key, SECRET_MASK])) };
}

/** The bodies of `PUT` and `DELETE /admin/guardrails`. */
export const guardrailBody = z.strictObject({
  name: z.string(),
  type: z.string(),
  description: z.string().nullish(),
  user_path: z.string().nullish().describe("of the guardrail's own calls; default: the path of the caller"),
  config: z.record(z.string(), z.unknown()).nullish().describe('the settings of the type'),
  fail_mode: z.string().nullish().describe('`closed` or `open`; default: `closed`'),
  timeout_ms: z.number().nullish().describe('default: 0, no time limit'),
});

const guardrailRemovalBody = z.strictObject({ name: z.string() });

/** @throws Refusal 400 */
export function guardrailInput(body: z.infer<typeof guardrailBody>): GuardrailInput {
  return {
    name: body.name,
    type: body.type,
    description: body.description ?? undefined,
    userPath: optionalUserPath(body.user_path, 'user_path'),
    config: body.config ?? undefined,
    failMode: body.fail_mode ?? undefined,
    timeoutMs: body.timeout_ms ?? undefined,
  };
}

interface GuardrailRoutesOptions {
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
    return sendObject(reply, guardrailRowOf(then.inForce.get(name), then, types), 'guardrail', name);
  });

  admin.put('/guardrails', saveGuardrail, async (request, reply) => {
    const input = guardrailInput(request.body);
    const { state, revision } = await changes.save(input, changeIn(request));
    sendETag(reply, revision);
    return guardrailRowOf(state, directory, types);
  });

  admin.delete('/guardrails', removeGuardrail, async (request, reply) => {
    await changes.remove(request.body.name, changeIn(request));
    return reply.status(204).send();
  });

  admin.get('/workflows/guardrails', listForSteps, async () => workflowGuardrailRows(directory));
}
