import { useRef, useState } from 'preact/hooks';
import { getAnswer } from '../../api/client.ts';
import { sendChange } from '../../api/send-change.ts';
import { ChangeDialog } from '../../ui/change-dialog.tsx';
import { StepsEditor } from './steps-editor.tsx';
import { bodyOf, draftOf, scopeOf, type WorkflowDraft } from './workflow-draft.ts';
import { WorkflowFields } from './workflow-fields.tsx';
import { isSameScope, type Scope, scopeTitle, type Workflow } from './workflow-rows.ts';

interface WorkflowDialogProps {
  readonly title: string;
  readonly draft: WorkflowDraft;
  /** As the administrator sees them: the new version replaces the one of its scope here, and no newer one. */
  readonly active: readonly Workflow[];
  readonly onClose: () => void;
  /** @param id of the new version; undefined when the current one was kept */
  readonly onDone: (id: string | undefined) => void;
}

/** Creates a version of a workflow. */
export function WorkflowDialog({ title, draft: given, active, onClose, onDone }: WorkflowDialogProps) {
  const [draft, setDraft] = useState(given);
  const created = useRef<string | undefined>(undefined);
  const scope = scopeOf(draft);
  const replaced = activeOf(scope, active);
  return (
    <ChangeDialog
      title={title}
      submitLabel="Create the version"
      place="side"
      revision={revisionOf(replaced)}
      canSubmit={draft.name.trim() !== ''}
      save={async (ifMatch) => {
        const { id } = await sendChange({ method: 'POST', of: '/admin/workflows', json: bodyOf(draft), ifMatch });
        created.current = id;
      }}
      readCurrent={async () => {
        const now = activeOf(scope, await getAnswer('/admin/workflows'));
        return { revision: revisionOf(now), version: now === undefined ? null : bodyOf(draftOf(now)) };
      }}
      mine={() => bodyOf(draft)}
      onClose={onClose}
      onDone={() => onDone(created.current)}
    >
      <WorkflowFields draft={draft} onChange={setDraft} />
      <StepsEditor draft={draft} onChange={setDraft} />
      <p class="wf-effect" role="status">
        {replaced === undefined
          ? `The requests of ${scopeTitle(scope)} have no workflow of their own yet.`
          : `Replaces version ${replaced.version} of the workflow of ${scopeTitle(scope)} ("${replaced.name}").`}{' '}
        It applies from the next request on.
      </p>
    </ChangeDialog>
  );
}

function activeOf(scope: Scope, active: readonly Workflow[]): Workflow | undefined {
  return active.find((row) => isSameScope(row.scope, scope));
}

function revisionOf(active: Workflow | undefined): string {
  return active?.revision ?? 'none';
}
