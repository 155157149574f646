/** The draft of the tab Draft replay. It is kept while the page is open, and never in the address. */
import { signal } from '@preact/signals';
import { sessionKey } from '../../api/session-key.ts';
import type { GuardrailDraft } from './guardrail-draft.ts';
import type { WorkflowDraft } from './workflow-draft.ts';

export interface ReplayDraft {
  /** Undefined until a workflow is chosen: the one of all requests. */
  readonly workflow?: WorkflowDraft | undefined;
  /** Replaces the saved one with its name. */
  readonly guardrail?: GuardrailDraft | undefined;
}

export const replayDraft = signal<ReplayDraft>({});
// Another key may be that of another person.
sessionKey.subscribe(() => {
  replayDraft.value = {};
});

export function startDraft(draft: ReplayDraft): void {
  replayDraft.value = draft;
}
