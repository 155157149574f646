import type { ApiError } from '../../api/client.ts';
import { useAnswer } from '../../api/use-answer.ts';
import { asOfQuery } from '../../app/as-of.ts';
import type { Guardrail, GuardrailType } from './guardrail-draft.ts';
import type { Workflow } from './workflow-rows.ts';

export interface GuardrailData {
  readonly guardrails: readonly Guardrail[];
  /** Types that evaluate texts; route strategies are not among them. */
  readonly types: readonly GuardrailType[];
  /** The active workflows. */
  readonly workflows: readonly Workflow[];
}

export interface LoadedGuardrails {
  /** Undefined until all parts are there. */
  readonly data: GuardrailData | undefined;
  readonly error: ApiError | undefined;
  readonly since: number;
  reload(): void;
}

/** Guardrails and workflows at the shown time, with the types of now. */
export function useGuardrails(): LoadedGuardrails {
  const guardrails = useAnswer('/admin/guardrails', asOfQuery());
  const types = useAnswer('/admin/guardrails/types');
  const workflows = useAnswer('/admin/workflows', asOfQuery());
  const parts = [guardrails, types, workflows];
  const data =
    guardrails.data === undefined || types.data === undefined || workflows.data === undefined
      ? undefined
      : {
          guardrails: guardrails.data,
          types: types.data.filter(({ phases }) => phases.length > 0),
          workflows: workflows.data,
        };
  return {
    data,
    error: parts.find(({ error }) => error !== undefined)?.error,
    since: guardrails.since,
    reload: () => {
      for (const part of parts) part.reload();
    },
  };
}
