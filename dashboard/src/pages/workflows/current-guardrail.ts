import { getAnswer } from '../../api/client.ts';
import type { Basis } from '../../ui/changed-meanwhile.tsx';
import type { CurrentVersion } from '../../ui/conflict-view.tsx';
import { type Guardrail, guardrailBodyOf, guardrailDraftOf } from './guardrail-draft.ts';

/** What an action on a guardrail is based on. */
export function guardrailBasis(row: Guardrail): Basis {
  return {
    ...{ revision: row.revision, shown: guardrailBodyOf(guardrailDraftOf(row)) },
    readCurrent: () => currentGuardrail(row.name),
  };
}

/** `version` is null when there is none. */
export async function currentGuardrail(name: string): Promise<CurrentVersion> {
  const rows = await getAnswer('/admin/guardrails');
  const now = rows.find((row) => row.name === name);
  return {
    revision: now?.revision ?? 'none',
    version: now === undefined ? null : guardrailBodyOf(guardrailDraftOf(now)),
  };
}
