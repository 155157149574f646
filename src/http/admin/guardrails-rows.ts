/** Guardrails and their types as the admin API returns them. */
import { z } from 'zod';
import type { GuardrailDirectory } from '../../commands/guardrails/directory.ts';
import {
  type Guardrail,
  type GuardrailTypes,
  isPrepared,
  type PreparedGuardrail,
  SECRET_MASK,
  secretFields,
  type UsableType,
} from '../../commands/guardrails/guardrail.ts';
import { timeText } from '../dates.ts';

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
  return directory.all.map((guardrail) => guardrailRowOf(guardrail, directory, types));
}

export function guardrailRowOf(
  guardrail: Guardrail,
  directory: GuardrailDirectory,
  types: GuardrailTypes,
): z.infer<typeof guardrailRow> {
  const { name, type, description, userPath, failMode, timeoutMs } = guardrail;
  const stored = directory.storedAs(name);
  const prepared = directory.prepare(guardrail);
  const times =
    stored === undefined
      ? {}
      : {
          created_at: timeText(stored.createdAt),
          updated_at: timeText(stored.updatedAt),
          revision: String(stored.revision),
        };
  return {
    name,
    type,
    ...(description === undefined ? {} : { description }),
    ...(userPath === undefined ? {} : { user_path: userPath }),
    config: maskedConfig(guardrail, types.get(type)),
    fail_mode: failMode,
    timeout_ms: timeoutMs,
    guardrail: types.get(type)?.isGuardrail ?? true,
    managed: directory.isManaged(name),
    ...(isPrepared(prepared)
      ? { phases: usablePhases(prepared), summary: prepared.config.summary }
      : { phases: types.get(type)?.phases ?? [], problem: prepared.problem }),
    ...times,
  };
}

/** Those that cannot run are left out. */
export function workflowGuardrailRows(directory: GuardrailDirectory): z.infer<typeof workflowGuardrailRow>[] {
  return directory.all.flatMap((guardrail) => {
    const prepared = directory.prepare(guardrail);
    if (!isPrepared(prepared)) return [];
    const { type, config } = prepared;
    return [{ name: guardrail.name, type: type.type, phases: usablePhases(prepared), summary: config.summary }];
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
