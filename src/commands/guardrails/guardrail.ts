/**
 * A guardrail that administrators defined or the configuration declares: its input, stored and compiled form.
 * Workflows refer to it by its name.
 */
import type { z } from 'zod';
import type { guardrailSaved } from '../../events/catalogue/guardrail.ts';
import { type StreamName, streamName, type UserPath } from '../../events/event.ts';
import type { SealerSource } from '../credentials/sealed-credentials.ts';
import { Refusal, refusals } from '../refusal.ts';
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

/** Converts a guardrail from a request to its stored form, with sealed secrets. */
export interface GuardrailInput {
  readonly name: string;
  readonly type: string;
  readonly description?: string | undefined;
  readonly userPath?: UserPath | undefined;
  readonly config?: Readonly<Record<string, unknown>> | undefined;
  /** Default, also for an empty text: `closed`. */
  readonly failMode?: string | undefined;
  /** Default: 0, no time limit. */
  readonly timeoutMs?: number | undefined;
}

/** What lists show of a secret that is set. An administrator who sends it keeps the secret. */
export const SECRET_MASK = '********';

const MAX_NAME = 256;
const MAX_DESCRIPTION = 2000;
const MAX_TIMEOUT_MS = 600_000;

/** The name in the stored form. */
export function guardrailName(written: string): string | Refusal {
  const name = written.trim();
  if (name === '' || name.length > MAX_NAME || /[^\x20-\x7e]|\//.test(name)) {
    const message = `'name' must have from 1 to ${MAX_NAME} printable ASCII characters, none of them '/'.`;
    return refusals.invalidRequest(message, 'name');
  }
  return name;
}

/** @returns the guardrail, or a refusal that names the invalid field. Its configuration is not checked yet. */
export function guardrailFrom(
  input: GuardrailInput,
  types: GuardrailTypes,
  before: Guardrail | undefined,
  sealers: Pick<SealerSource, 'toSeal'>,
): Guardrail | Refusal {
  const name = guardrailName(input.name);
  if (name instanceof Refusal) return name;
  const type = types.get(input.type);
  if (type === undefined) {
    const known = [...types.keys()].join(', ');
    return refusals.invalidRequest(`There is no guardrail type '${input.type}'. The types are: ${known}.`, 'type');
  }
  const { description, userPath, timeoutMs = 0, config: given = {} } = input;
  if (description !== undefined && description.length > MAX_DESCRIPTION) {
    return refusals.invalidRequest(`'description' may have at most ${MAX_DESCRIPTION} characters.`, 'description');
  }
  const failMode = input.failMode || 'closed';
  if (failMode !== 'closed' && failMode !== 'open') {
    return refusals.invalidRequest("'fail_mode' must be 'closed' or 'open'.", 'fail_mode');
  }
  if (!Number.isSafeInteger(timeoutMs) || timeoutMs < 0 || timeoutMs > MAX_TIMEOUT_MS) {
    return refusals.invalidRequest(`'timeout_ms' must be an integer from 0 to ${MAX_TIMEOUT_MS}.`, 'timeout_ms');
  }
  // The configuration of a plugin may change later, and guardrails without settings of their own follow it.
  const config: Record<string, unknown> = { ...(type.source === undefined && type.defaults), ...given };
  const secrets: Record<string, string> = {};
  const kept = before?.type === input.type ? before.secrets : undefined;
  for (const field of secretFields(type)) {
    const value = config[field];
    delete config[field];
    if (value === undefined || value === null || value === '') continue;
    if (typeof value !== 'string') return refusals.invalidRequest(`'${field}' must be a text.`, `config.${field}`);
    const sealed = value === SECRET_MASK ? kept?.[field] : sealedText(name, field, value, sealers);
    if (sealed === undefined) {
      return refusals.invalidRequest(
        `There is no '${field}' to keep: '${SECRET_MASK}' stands for a set one.`,
        `config.${field}`,
      );
    }
    if (sealed instanceof Refusal) return sealed;
    secrets[field] = sealed;
  }
  return {
    name,
    type: input.type,
    ...(description ? { description } : {}),
    ...(userPath === undefined ? {} : { userPath }),
    config,
    ...(Object.keys(secrets).length === 0 ? {} : { secrets }),
    failMode,
    timeoutMs,
  };
}

/** The place to which the secrets of a guardrail are sealed. No provider can have this name. */
export function sealingPlace(name: string): string {
  return `guardrail:${name}`;
}

function sealedText(
  name: string,
  field: string,
  secret: string,
  sealers: Pick<SealerSource, 'toSeal'>,
): string | Refusal {
  try {
    return sealers.toSeal().seal(sealingPlace(name), field, secret);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return refusals.featureUnavailable(`The secret '${field}' cannot be stored: ${why}.`);
  }
}

/** A guardrail that can run: its type, and its configuration checked and compiled. */
export interface PreparedGuardrail {
  readonly definition: Guardrail;
  readonly type: UsableType;
  /** The configuration with its secrets. */
  readonly config: Extract<ReadConfig, { ok: true }>;
  readonly compiled: CompiledGuardrail;
}

/** Why a guardrail cannot run. */
export interface GuardrailProblem {
  readonly problem: string;
  /** The member at fault, for example `config.<key>`; undefined when the guardrail is missing. */
  readonly param?: string | undefined;
}

export interface PreparationParts {
  readonly types: GuardrailTypes;
  /** Opens a sealed secret of a guardrail. @throws Error with the reason why it cannot be opened */
  openSecret(guardrail: string, field: string, sealed: string): string;
  /** What the compiled guardrail may use besides its configuration. */
  servicesOf(guardrail: Pick<Guardrail, 'name' | 'userPath' | 'timeoutMs' | 'failMode'>): GuardrailServices;
}

export function isPrepared(one: PreparedGuardrail | GuardrailProblem): one is PreparedGuardrail {
  return 'compiled' in one;
}

/** Checks and compiles the definition. */
export function prepareGuardrail(
  definition: Guardrail,
  { types, openSecret, servicesOf }: PreparationParts,
): PreparedGuardrail | GuardrailProblem {
  const type = types.get(definition.type);
  if (type === undefined) return { problem: `there is no guardrail type '${definition.type}'`, param: 'type' };
  const opened: Record<string, string> = {};
  for (const [field, sealed] of Object.entries(definition.secrets ?? {})) {
    try {
      opened[field] = openSecret(definition.name, field, sealed);
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      return { problem: `its '${field}' cannot be opened: ${why}`, param: `config.${field}` };
    }
  }
  const config = type.read({ ...definition.config, ...opened });
  if (!config.ok)
    return { problem: config.problem, param: config.key === undefined ? 'config' : `config.${config.key}` };
  return { definition, type, config, compiled: config.compile(servicesOf(definition)) };
}
