/** The manifest of a plugin as the gateway uses it. */
import { z } from 'zod';
import { hookNames } from './protocol/messages.ts';

const field = z.strictObject({
  key: z.string().min(1).max(100),
  label: z.string().max(200),
  input: z.enum(['text', 'textarea', 'number', 'select', 'checkboxes', 'secret', 'model']),
  required: z.boolean(),
  help: z.string().max(1000).optional(),
  placeholder: z.string().max(1000).optional(),
  options: z
    .array(z.strictObject({ value: z.string(), label: z.string() }))
    .max(500)
    .optional(),
});

export type ManifestField = z.infer<typeof field>;

const schema = z.record(z.string(), z.unknown());

const given = z.strictObject({
  name: z
    .string()
    .regex(/^[a-z][a-z0-9_-]{0,63}$/, 'must begin with a lower-case letter, followed by a-z, 0-9, _ and -, up to 64'),
  label: z.string().min(1).max(200).optional(),
  version: z.string().min(1).max(100).optional(),
  description: z.string().max(2000).optional(),
  hooks: z.array(z.enum(hookNames)).min(1, 'must name a hook'),
  config: schema.optional(),
  routeConfig: schema.optional(),
  fields: z.array(field).max(100).optional(),
  mutates: z.boolean().default(false),
  guardrail: z.boolean().optional(),
});

export type PluginManifest = Readonly<ReturnType<typeof readPluginManifest>>;

export const guardrailHooks = ['prompt', 'response', 'stream'] as const;
export type GuardrailHook = (typeof guardrailHooks)[number];

/** @throws Error that names the member at fault */
export function readPluginManifest(sent: unknown) {
  const read = given.safeParse(sent);
  if (!read.success) {
    const [issue] = read.error.issues;
    throw new Error(`the manifest is invalid: ${issue?.path.join('.')}: ${issue?.message}`);
  }
  const { name, label = name, config, routeConfig, guardrail, ...rest } = read.data;
  const phases = guardrailHooks.filter((hook) => rest.hooks.includes(hook));
  if (rest.mutates && phases.length === 0) {
    throw new Error("the manifest is invalid: mutates: true needs a hook 'prompt', 'response' or 'stream'");
  }
  const settings = settingsOf(config, 'config');
  const routeSettings = settingsOf(routeConfig, 'routeConfig');
  return {
    ...rest,
    name,
    label,
    phases,
    guardrail: guardrail ?? phases.length > 0,
    settings,
    routeSettings,
    fields: read.data.fields ?? fieldsOf(settings.schema),
    routeFields: fieldsOf(routeSettings.schema),
  };
}

/** Settings by their JSON Schema. */
export interface Settings {
  readonly schema: Readonly<Record<string, unknown>>;
  readonly defaults: Readonly<Record<string, unknown>>;
  /** The settings with their defaults, or the first problem. */
  read(
    config: unknown,
  ):
    | { readonly ok: true; readonly config: Readonly<Record<string, unknown>> }
    | { readonly ok: false; readonly problem: string; readonly key?: string };
}

/** Unknown settings are refused unless the schema allows them. @throws Error for a schema that cannot be used */
function settingsOf(given: z.infer<typeof schema> | undefined, name: string): Settings {
  if ((given?.['type'] ?? 'object') !== 'object') {
    throw new Error(`the manifest is invalid: ${name}: the schema is not of an object`);
  }
  const complete = { additionalProperties: false, ...given, type: 'object' as const };
  let parser: z.ZodType;
  try {
    parser = z.fromJSONSchema(complete);
  } catch (error) {
    throw new Error(`the manifest is invalid: ${name}: ${error instanceof Error ? error.message : String(error)}`);
  }
  const defaults = propertiesOf(complete).flatMap(([key, property]) =>
    property['default'] === undefined ? [] : [[key, property['default']] as const],
  );
  return {
    schema: complete,
    defaults: Object.fromEntries(defaults),
    read(config) {
      const read = parser.safeParse(config ?? {});
      if (read.success) return { ok: true, config: schema.parse(read.data) };
      const [issue] = read.error.issues;
      if (issue === undefined) return { ok: false, problem: 'the configuration is invalid' };
      const path = issue.path.join('.');
      if (path === '') return { ok: false, problem: issue.message };
      return { ok: false, problem: `${path}: ${issue.message}`, key: String(issue.path[0]) };
    },
  };
}

function propertiesOf(from: Readonly<Record<string, unknown>>): [string, Record<string, unknown>][] {
  const properties = schema.safeParse(from['properties']);
  return Object.entries(properties.data ?? {}).flatMap(([key, property]) => {
    const read = schema.safeParse(property);
    return read.success ? [[key, read.data] as [string, Record<string, unknown>]] : [];
  });
}

/**
 * A field for each setting that an editor can show. `secret: true` and `multiline: true` in the schema (zod's `meta`)
 * choose the input; `title` and `description` are its label and its help.
 */
function fieldsOf(from: Readonly<Record<string, unknown>>): ManifestField[] {
  const { required } = from;
  return propertiesOf(from).flatMap(([key, property]) => {
    const input = inputOf(property);
    if (input === undefined) return [];
    const options = optionsOf(property);
    const { title, description } = property;
    return [
      {
        key,
        label: typeof title === 'string' ? title : key,
        input,
        required: Array.isArray(required) && required.includes(key),
        ...(typeof description === 'string' && { help: description }),
        ...(options !== undefined && { options }),
      },
    ];
  });
}

function inputOf(property: Readonly<Record<string, unknown>>): ManifestField['input'] | undefined {
  const { type, secret, multiline } = property;
  if (secret === true) return 'secret';
  if (type === 'array') return optionsOf(property) === undefined ? undefined : 'checkboxes';
  if (optionsOf(property) !== undefined) return 'select';
  if (type === 'number' || type === 'integer') return 'number';
  if (type !== 'string') return undefined;
  return multiline === true ? 'textarea' : 'text';
}

function optionsOf(property: Readonly<Record<string, unknown>>): ManifestField['options'] {
  const { type, items } = property;
  if (type === 'boolean') return ['true', 'false'].map((value) => ({ value, label: value }));
  const of: unknown =
    type === 'array' && typeof items === 'object' && items !== null ? Reflect.get(items, 'enum') : property['enum'];
  return Array.isArray(of) ? of.map((value) => ({ value: String(value), label: String(value) })) : undefined;
}
