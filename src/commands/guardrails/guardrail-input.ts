/** Converts a guardrail from a request to its stored form, with sealed secrets. */
import type { UserPath } from '../../events/event.ts';
import type { SealerSource } from '../credentials/sealed-credentials.ts';
import { Refusal, refusals } from '../refusal.ts';
import { type Guardrail, type GuardrailTypes, secretFields } from './guardrail.ts';

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
