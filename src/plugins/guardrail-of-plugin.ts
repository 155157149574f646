/** A plugin with hooks for texts as a type of guardrails. */
import { z } from 'zod';
import type { UsableType } from '../commands/guardrails/guardrail.ts';
import {
  allowed,
  type CompiledGuardrail,
  type EvaluationContext,
  type GuardrailDecision,
  type GuardrailResult,
  type GuardrailServices,
  guardrailBlocked,
  guardrailResponded,
  guardrailWarning,
  type TextPart,
} from '../commands/guardrails/guardrail-type.ts';
import { GuardrailTimeout } from '../commands/guardrails/phases/guardrail-step.ts';
import { auxiliaryPath, cut } from '../commands/guardrails/types/type-settings.ts';
import { problemOf, tooManyMembers } from './answer-problem.ts';
import { PluginFailure } from './host/plugin-host.ts';
import type { LoadedPlugin } from './load-plugins.ts';
import type { GuardrailHook } from './manifest.ts';

const code = z.string().regex(/^[a-z][a-z0-9_]{0,63}$/, 'must be lower case, like project_name');

const verdict = z.strictObject({
  decision: z.enum(['allow', 'warn', 'respond', 'block']).default('allow'),
  code: code.optional(),
  message: z.string().max(2000).optional(),
  status: z.int().min(400).max(599).optional(),
  respond: z.string().max(1_000_000).optional(),
  texts: z.custom<Readonly<Record<string, string>>>(isTexts, 'must have texts by their index').optional(),
  system: z.strictObject({ mode: z.enum(['add', 'replace']), text: z.string() }).optional(),
  findings: z.record(z.string().max(100), z.int().min(0)).optional(),
});

/** Kinds of findings of one verdict, which are recorded. */
const MAX_FINDINGS = 64;

/** A schema for each member would take milliseconds for a thousand texts. */
function isTexts(given: unknown): boolean {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return false;
  return Object.entries(given).every(([index, text]) => /^\d{1,9}$/.test(index) && typeof text === 'string');
}

export function guardrailOfPlugin(plugin: LoadedPlugin): UsableType {
  const { name, source, digest, manifest, config: common } = plugin;
  const { label, description = '', phases, mutates, fields, settings } = manifest;
  const secrets = fields.filter(({ input }) => input === 'secret').map(({ key }) => key);
  return {
    ...{ type: name, label, description, phases, mutating: mutates, source, digest },
    isGuardrail: manifest.guardrail,
    calls: 'model',
    defaults: Object.fromEntries(Object.entries(common).filter(([key]) => !secrets.includes(key))),
    fields: fields.map((field) => ({ ...field, scope: '' as const })),
    read(given) {
      const of = typeof given === 'object' && given !== null ? given : {};
      const read = settings.read({ ...common, ...of });
      if (!read.ok) return read;
      const { config } = read;
      return {
        ok: true,
        summary: summaryOf(config, secrets),
        mutating: mutates,
        phaseProblem: (phase) => (phases.includes(phase) ? undefined : `${name} has no phase '${phase}'`),
        compile: (services) => compiled(plugin, config, services),
      };
    },
  };
}

function summaryOf(config: Readonly<Record<string, unknown>>, secrets: readonly string[]): string {
  const shown = Object.entries(config).filter(([key, value]) => !secrets.includes(key) && typeof value !== 'object');
  return cut(shown.map(([key, value]) => `${key}: ${String(value)}`).join(' • '));
}

function compiled(
  plugin: LoadedPlugin,
  config: Readonly<Record<string, unknown>>,
  services: GuardrailServices,
): CompiledGuardrail {
  const hooks: Partial<Record<GuardrailHook, NonNullable<CompiledGuardrail['prompt']>>> = {};
  for (const hook of plugin.manifest.phases) {
    hooks[hook] = (parts, context) => evaluated(plugin, hook, parts, { config, services, context });
  }
  return hooks;
}

interface Evaluation {
  readonly config: Readonly<Record<string, unknown>>;
  readonly services: GuardrailServices;
  readonly context: EvaluationContext;
}

async function evaluated(
  { host, entry, manifest, maxTimeoutMs }: LoadedPlugin,
  hook: GuardrailHook,
  parts: readonly TextPart[],
  { config, services, context }: Evaluation,
): Promise<GuardrailResult> {
  const { requestId, userPath, model, provider, labels, signal } = context;
  const limit = services.timeoutMs === undefined || services.timeoutMs === 0 ? entry.timeoutMs : services.timeoutMs;
  const call = host.call({
    hook,
    input: parts,
    context: { requestId, userPath, model, provider, labels },
    config,
    deadlineMs: Math.min(limit, maxTimeoutMs),
    signal,
    chat: (request, within) =>
      services.callModel({
        ...request,
        requestId,
        exchangeId: context.exchangeId,
        userPath: auxiliaryPath(services, context),
        signal: within,
      }),
  });
  const given = await call.catch((error: unknown) => {
    // A guardrail that changes texts fails the request when it is late.
    if (error instanceof PluginFailure && error.isLate) throw new GuardrailTimeout(error.message);
    throw error;
  });
  const tooMany = tooManyMembers(given, { texts: parts.length, findings: MAX_FINDINGS });
  if (tooMany !== undefined) throw new PluginFailure(`its verdict is invalid: ${tooMany}`);
  const read = verdict.safeParse(given ?? {});
  if (!read.success) throw new PluginFailure(`its verdict is invalid: ${problemOf(read.error)}`);
  return resultOf(read.data, hook, parts, manifest.mutates);
}

function resultOf(
  { texts, system, findings, ...decision }: z.infer<typeof verdict>,
  hook: GuardrailHook,
  parts: readonly TextPart[],
  mutates: boolean,
): GuardrailResult {
  const changed = new Map(Object.entries(texts ?? {}).map(([index, text]) => [Number(index), text]));
  if ((changed.size > 0 || system !== undefined) && !mutates) {
    throw new PluginFailure('it changed texts, but its manifest has no mutates: true');
  }
  for (const index of changed.keys()) {
    const part = parts[index];
    if (part === undefined) throw new PluginFailure(`there is no text ${index}`);
    // The model, roles and types are such texts: a plugin could undo what the gateway has decided.
    if (part.kind === 'other')
      throw new PluginFailure(`text ${index} is a setting, an id or a name: it cannot be changed`);
  }
  if (system !== undefined && hook !== 'prompt') throw new PluginFailure(`'system' is not possible in ${hook}`);
  return {
    decision: decisionOf(decision),
    ...(changed.size > 0 && { texts: changed }),
    ...(system !== undefined && { system }),
    ...(findings !== undefined && { findings }),
  };
}

function decisionOf(given: Omit<z.infer<typeof verdict>, 'texts' | 'system' | 'findings'>): GuardrailDecision {
  const { decision: action, code, message, status, respond } = given;
  switch (action) {
    case 'allow':
      return allowed;
    case 'warn':
      return { action, code: code ?? guardrailWarning, ...(message !== undefined && { message }) };
    case 'respond':
      if (respond === undefined) throw new PluginFailure("its verdict is 'respond' without the text 'respond'");
      return { action, code: code ?? guardrailResponded, text: respond, ...(message !== undefined && { message }) };
    case 'block':
      return {
        action,
        code: code ?? guardrailBlocked,
        message: message ?? 'Request blocked by policy',
        ...(status !== undefined && { status }),
      };
  }
}
