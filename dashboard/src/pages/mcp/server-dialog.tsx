import { useState } from 'preact/hooks';
import { getAnswer } from '../../api/client.ts';
import { sendChange } from '../../api/send-change.ts';
import { ChangeDialog } from '../../ui/change-dialog.tsx';
import { CheckField } from '../../ui/fields.tsx';
import type { FormValue } from '../../ui/schema-fields.ts';
import { withMember } from '../../ui/schema-fields.ts';
import { SchemaForm } from '../../ui/schema-form.tsx';
import { advancedFields, bodyOf, draftOf, oauthFields, usualFields, withoutSecrets } from './server-draft.ts';
import { type McpServerRow, serverPath } from './server-state.ts';

interface ServerDialogProps {
  /** Undefined for a new one. */
  readonly row: McpServerRow | undefined;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

type Body = Parameters<typeof sendChange<'PUT', '/admin/mcp-servers'>>[0]['json'];

/** Adds an MCP server or edits one. Its secrets can be written and not read. */
export function ServerDialog({ row, onClose, onDone }: ServerDialogProps) {
  const [draft, setDraft] = useState<FormValue>(() => draftOf(row));
  const [enabled, setEnabled] = useState(row?.enabled ?? true);
  const [revision] = useState(row === undefined ? 'none' : row.revision);
  const oauth = draft['oauth'] as FormValue | undefined;
  const hasAdvanced = advancedFields.some(({ key }) => draft[key] !== undefined && key !== 'transport');
  const name = String(draft['name'] ?? '').trim();
  return (
    <ChangeDialog
      title={row === undefined ? 'Add an MCP server' : `Edit the MCP server ${row.name}`}
      submitLabel={row === undefined ? 'Add the MCP server' : 'Save'}
      revision={revision}
      save={(ifMatch) =>
        sendChange({
          ...{ method: 'PUT', of: '/admin/mcp-servers', ifMatch },
          json: bodyOf(draft, { slug: row?.slug, enabled }) as unknown as NonNullable<Body>,
        })
      }
      {...(row !== undefined && {
        mine: () => ({ enabled, ...withoutSecrets(draft) }),
        readCurrent: async () => {
          const current = await getAnswer({ of: '/admin/mcp-servers/{slug}', at: serverPath(row.slug) });
          return {
            revision: current.revision,
            version: { enabled: current.enabled, ...withoutSecrets(draftOf(current)) },
          };
        },
      })}
      canSubmit={name !== '' && String(draft['url'] ?? '') !== ''}
      onClose={onClose}
      onDone={onDone}
    >
      <SchemaForm fields={usualFields} value={draft} onChange={setDraft} />
      <details open={oauth !== undefined}>
        <summary>OAuth</summary>
        <div class="mcp-more">
          <CheckField
            label="The server needs a token of an authorization server"
            checked={oauth !== undefined}
            onChange={(checked) =>
              setDraft(withMember(draft, 'oauth', checked ? { grant: 'authorization_code' } : undefined))
            }
          />
          {oauth !== undefined && (
            <SchemaForm
              fields={oauthFields}
              value={oauth}
              parameter="oauth"
              onChange={(next) => setDraft(withMember(draft, 'oauth', next))}
            />
          )}
        </div>
      </details>
      <details open={hasAdvanced}>
        <summary>More settings</summary>
        <div class="mcp-more">
          <SchemaForm fields={advancedFields} value={draft} onChange={setDraft} />
        </div>
      </details>
      <CheckField label="Clients can use it" checked={enabled} onChange={setEnabled} />
    </ChangeDialog>
  );
}
