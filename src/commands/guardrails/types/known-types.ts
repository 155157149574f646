/** The types of guardrails, and the reading of a configuration of any of them. */
import type { z } from 'zod';
import type { ReadConfig, UsableType } from '../guardrail.ts';
import { GuardrailConfigError, type GuardrailServices, type GuardrailType } from '../guardrail-type.ts';
import { headerEdit } from './header-edit.ts';
import { llmBasedAltering } from './llm-based-altering.ts';
import { llmJudge } from './llm-judge.ts';
import { pii } from './pii.ts';
import { presidio } from './presidio.ts';
import { stringReplace } from './string-replace.ts';
import { systemPrompt } from './system-prompt.ts';
import { tagReplace } from './tag-replace.ts';

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
