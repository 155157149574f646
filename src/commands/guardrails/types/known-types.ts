/** The types of guardrails, and the reading of a configuration of any of them. */
import { z } from 'zod';
import type { ReadConfig, UsableType } from '../guardrail.ts';
import {
  allowed,
  GuardrailConfigError,
  type GuardrailResult,
  type GuardrailServices,
  type GuardrailType,
  type TextPart,
} from '../guardrail-type.ts';
import { headerEdit } from './header-edit.ts';
import { llmBasedAltering } from './llm-based-altering.ts';
import { llmJudge } from './llm-judge.ts';
import { pii } from './pii.ts';
import { presidio } from './presidio.ts';
import { stringReplace } from './string-replace.ts';
import { tagReplace } from './tag-replace.ts';
import { cut } from './type-settings.ts';

/** `system_prompt`: adds, replaces or prepends the system text of requests. */
const config = z.strictObject({
  mode: z.enum(['inject', 'override', 'decorator']).default('inject'),
  content: z.string().min(1).max(100_000),
});

const systemPrompt: GuardrailType<z.infer<typeof config>> = {
  type: 'system_prompt',
  label: 'System prompt',
  description: 'Adds a system message if there is none, replaces all, or prepends a text to the first.',
  phases: ['prompt'],
  mutating: true,
  config,
  defaults: { mode: 'inject' },
  fields: [
    {
      key: 'mode',
      label: 'Mode',
      input: 'select',
      required: false,
      options: [
        { value: 'inject', label: 'Inject: only when there is no system message' },
        { value: 'override', label: 'Override: replace all system messages' },
        { value: 'decorator', label: 'Decorator: prepend to the first system message' },
      ],
      scope: '',
    },
    { key: 'content', label: 'Content', input: 'textarea', required: true, scope: '' },
  ],
  summary: ({ mode, content }) => `${mode} • ${cut(content)}`,
  compile: ({ mode, content }) => ({
    prompt(parts): GuardrailResult {
      if (mode === 'override') return { decision: allowed, system: { mode: 'replace', text: content } };
      const first = parts.findIndex(isSystemText);
      if (first === -1) return { decision: allowed, system: { mode: 'add', text: content } };
      if (mode === 'inject') return { decision: allowed };
      return { decision: allowed, texts: new Map([[first, `${content}\n${parts[first]?.text ?? ''}`]]) };
    },
  }),
};

function isSystemText({ role, kind }: TextPart): boolean {
  return role === 'system' && kind === 'text';
}

/** A type without the type of its configuration, which it returns with the defaults of the keys that were missing. */
export interface KnownGuardrailType extends UsableType {
  read(
    config: unknown,
  ):
    | (Extract<ReadConfig, { ok: true }> & { readonly config: Readonly<Record<string, unknown>> })
    | Extract<ReadConfig, { ok: false }>;
}

function known<Config extends Readonly<Record<string, unknown>>>(type: GuardrailType<Config>): KnownGuardrailType {
  const { label, description, phases, mutating, calls, serverAddress, defaults, fields } = type;
  return {
    ...{ type: type.type, label, description, phases, mutating, calls, serverAddress, defaults, fields },
    read(given) {
      const parsed = type.config.safeParse(given ?? {});
      if (!parsed.success) return { ok: false, ...problemOf(parsed.error) };
      const config = parsed.data;
      try {
        type.compile(config, unusable);
        return {
          ok: true,
          config,
          summary: type.summary(config),
          mutating: mutating && (type.changesTexts?.(config) ?? true),
          phaseProblem: (phase) =>
            phases.includes(phase) ? type.phaseProblem?.(config, phase) : `${type.type} has no phase '${phase}'`,
          compile: (services) => type.compile(config, services),
        };
      } catch (error) {
        if (!(error instanceof GuardrailConfigError)) throw error;
        const { message: problem, key } = error;
        return key === undefined ? { ok: false, problem } : { ok: false, problem, key };
      }
    },
  };
}

/** Compiling calls nothing: it validates what a schema cannot. */
const unusable: GuardrailServices = {
  name: '',
  userPath: undefined,
  callModel: () => Promise.reject(new Error('not available while a configuration is read')),
  fetch: () => Promise.reject(new Error('not available while a configuration is read')),
};

function problemOf(error: z.ZodError): { readonly problem: string; readonly key?: string } {
  const [issue] = error.issues;
  if (issue === undefined) return { problem: 'the configuration is invalid' };
  const path = issue.path.join('.');
  if (path === '') return { problem: issue.message };
  return { problem: `${path}: ${issue.message}`, key: String(issue.path[0]) };
}

export const knownGuardrailTypes: readonly KnownGuardrailType[] = [
  known(systemPrompt),
  known(stringReplace),
  known(llmBasedAltering),
  known(llmJudge),
  known(headerEdit),
  known(tagReplace),
  known(presidio),
  known(pii),
];

export function guardrailTypeNamed(type: string): KnownGuardrailType | undefined {
  return knownGuardrailTypes.find((one) => one.type === type);
}
