/** A guardrail that administrators defined or the configuration declares. Workflows refer to it by its name. */
import type { z } from 'zod';
import type { guardrailSaved } from '../../events/catalogue/guardrail.ts';
import { type StreamName, streamName } from '../../events/event.ts';
import type { CompiledGuardrail, EditorField, GuardrailPhase, GuardrailServices } from './guardrail-type.ts';

/** The complete definition; its secrets are sealed. */
export type Guardrail = z.infer<typeof guardrailSaved.data>;

/** A type of guardrails as its users see it. Its configurations are read by the type itself. */
export interface UsableType {
  readonly type: string;
  readonly label: string;
  readonly description: string;
  readonly phases: readonly GuardrailPhase[];
  /** Whether its guardrails can change texts; `ReadConfig` says whether one does. */
  readonly mutating: boolean;
  /** What its guardrails call. Undefined: nothing. */
  readonly calls?: 'model' | 'server' | undefined;
  /** The key of the address of the server that its guardrails call. */
  readonly serverAddress?: string | undefined;
  readonly defaults: Readonly<Record<string, unknown>>;
  readonly fields: readonly EditorField[];
  /** Of a plugin: the file or folder that it was loaded from. Undefined: built in. */
  readonly source?: string | undefined;
  /** Of a plugin: changes with its code. */
  readonly digest?: string | undefined;
  /** Whether its verdicts are a protection. Default true. */
  readonly isGuardrail?: boolean | undefined;
  read(config: unknown): ReadConfig;
}

/** A configuration that was validated, or why it is invalid. */
export type ReadConfig =
  | {
      readonly ok: true;
      /** One line for lists. Contains no secret. */
      readonly summary: string;
      /** Whether it changes texts: at most one such guardrail runs in a step, and one that is late fails the request. */
      readonly mutating: boolean;
      /** Why it cannot be used in this phase; undefined when it can. */
      phaseProblem(phase: GuardrailPhase): string | undefined;
      compile(services: GuardrailServices): CompiledGuardrail;
    }
  | {
      readonly ok: false;
      readonly problem: string;
      /** The key at fault, when it is known. */
      readonly key?: string;
    };

/** By the name of the type. */
export type GuardrailTypes = ReadonlyMap<string, UsableType>;

export function guardrailStream(name: string): StreamName {
  return streamName('guardrail', name);
}

/** The settings of the type that are secrets. */
export function secretFields({ fields }: Pick<UsableType, 'fields'>): readonly string[] {
  return fields.flatMap(({ key, input }) => (input === 'secret' ? [key] : []));
}
