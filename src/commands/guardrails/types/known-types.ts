/** The types of guardrails, and the reading of a configuration of any of them. */
import type { z } from 'zod';
import {
  type CompiledGuardrail,
  type EditorField,
  GuardrailConfigError,
  type GuardrailPhase,
  type GuardrailServices,
  type GuardrailType,
} from '../guardrail-type.ts';
import { headerEdit } from './header-edit.ts';
import { llmBasedAltering } from './llm-based-altering.ts';
import { llmJudge } from './llm-judge.ts';
import { pii } from './pii.ts';
import { presidio } from './presidio.ts';
import { stringReplace } from './string-replace.ts';
import { systemPrompt } from './system-prompt.ts';
import { tagReplace } from './tag-replace.ts';

/** A type without the type of its configuration. */
export interface KnownGuardrailType {
  readonly type: string;
  readonly label: string;
  readonly description: string;
  readonly phases: readonly GuardrailPhase[];
  readonly mutating: boolean;
  readonly defaults: Readonly<Record<string, unknown>>;
  readonly fields: readonly EditorField[];
  read(config: unknown): ReadGuardrailConfig;
}

/** A configuration that was validated, or why it is invalid. */
export type ReadGuardrailConfig =
  | {
      readonly ok: true;
      /** With the defaults of the keys that were missing. */
      readonly config: Readonly<Record<string, unknown>>;
      readonly summary: string;
      phaseProblem(phase: GuardrailPhase): string | undefined;
      compile(services: GuardrailServices): CompiledGuardrail;
    }
  | {
      readonly ok: false;
      readonly problem: string;
      /** The key at fault, when it is known. */
      readonly key?: string;
    };

function known<Config extends Readonly<Record<string, unknown>>>(type: GuardrailType<Config>): KnownGuardrailType {
  const { label, description, phases, mutating, defaults, fields } = type;
  return {
    ...{ type: type.type, label, description, phases, mutating, defaults, fields },
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
          phaseProblem: (phase) =>
            phases.includes(phase) ? type.phaseProblem?.(config, phase) : `${type.type} has no phase '${phase}'`,
          compile: (services) => type.compile(config, services),
        };
      } catch (error) {
        if (error instanceof GuardrailConfigError) return { ok: false, problem: error.message };
        throw error;
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
