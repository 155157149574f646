/** A guardrail while it is edited. Pure. */
import type { paths } from '../../../generated/api';
import type { Answer } from '../../api/client.ts';

export type Guardrail = Answer<'/admin/guardrails'>[number];
export type GuardrailType = Answer<'/admin/guardrails/types'>[number];
export type GuardrailBody = paths['/admin/guardrails']['put']['requestBody']['content']['application/json'];

export interface GuardrailDraft {
  readonly name: string;
  readonly type: string;
  readonly description: string;
  readonly userPath: string;
  readonly failMode: 'closed' | 'open';
  readonly timeoutMs: number | undefined;
  readonly config: Readonly<Record<string, unknown>>;
}

/** A new guardrail, with the default settings of its type. */
export function newGuardrail(type: Pick<GuardrailType, 'type' | 'defaults' | 'source'>, name = ''): GuardrailDraft {
  const config = newSettings(type);
  return { name, type: type.type, description: '', userPath: '', failMode: 'closed', timeoutMs: undefined, config };
}

/** None for a plugin: its configuration applies, also after it has changed. */
export function newSettings({
  defaults,
  source,
}: Pick<GuardrailType, 'defaults' | 'source'>): GuardrailDraft['config'] {
  return source === 'builtin' ? defaults : {};
}

export function guardrailDraftOf(row: Guardrail): GuardrailDraft {
  return {
    name: row.name,
    type: row.type,
    description: row.description ?? '',
    userPath: row.user_path ?? '',
    failMode: row.fail_mode,
    timeoutMs: row.timeout_ms === 0 ? undefined : row.timeout_ms,
    config: row.config,
  };
}

export function guardrailBodyOf(draft: GuardrailDraft): GuardrailBody {
  const { name, type, description, userPath, failMode, timeoutMs, config } = draft;
  return {
    ...{ name, type, config, fail_mode: failMode },
    ...(description === '' ? {} : { description }),
    ...(userPath === '' ? {} : { user_path: userPath }),
    ...(timeoutMs === undefined ? {} : { timeout_ms: timeoutMs }),
  };
}
