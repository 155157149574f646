import { useState } from 'preact/hooks';
import { sendChange } from '../../api/send-change.ts';
import { isPast } from '../../app/as-of.ts';
import { setQuery } from '../../app/router.ts';
import { DiffView } from '../../content/diff/diff-view.tsx';
import { Recorded } from '../../content/text/recorded.tsx';
import { SafeText } from '../../content/text/safe-text.tsx';
import { Button } from '../../ui/button.tsx';
import { Time } from '../../ui/facts.tsx';
import { Panel } from '../../ui/panel.tsx';
import { EmptyState, ErrorPanel } from '../../ui/states.tsx';
import { Badge } from '../../ui/status-badge.tsx';
import { useChange } from '../../ui/use-change.ts';
import { CallTool } from './call-tool.tsx';
import { type McpCatalog, type McpTool, serverPath } from './server-state.ts';

interface CatalogPanelsProps {
  readonly catalog: McpCatalog;
  /** The tool whose details are open; it is in the address. */
  readonly chosen: string | undefined;
}

/** What a server offers: instructions, tools with a form to call each, prompts, resources. */
export function CatalogPanels({ catalog, chosen }: CatalogPanelsProps) {
  const { instructions, tools, prompts, resources, templates } = catalog;
  return (
    <>
      {instructions !== undefined && (
        <Panel title="Instructions">
          <SafeText text={instructions} />
        </Panel>
      )}
      <Panel title={`Tools (${tools.length})`}>
        {tools.length === 0 && <EmptyState title="The server has no tools that clients can use." />}
        {tools.map((tool) => (
          <ToolDetails key={tool.name} slug={catalog.server} tool={tool} isOpen={tool.name === chosen} />
        ))}
      </Panel>
      <Listed title="Prompts" entries={prompts} addressOf={() => undefined} />
      <Listed title="Resources" entries={resources} addressOf={({ uri }) => uri} />
      <Listed title="Resource templates" entries={templates} addressOf={({ uri_template }) => uri_template} />
    </>
  );
}

interface ToolDetailsProps {
  readonly slug: string;
  readonly tool: McpTool;
  readonly isOpen: boolean;
}

function ToolDetails({ slug, tool, isOpen }: ToolDetailsProps) {
  const { name, description, withheld, annotations } = tool;
  const hints = Object.entries(annotations ?? {}).flatMap(([hint, value]) => (value === true ? [hintWords(hint)] : []));
  return (
    <details
      class="mcp-tool"
      open={isOpen}
      onToggle={(event) => {
        const isNowOpen = event.currentTarget.open;
        if (isNowOpen !== isOpen) setQuery({ tool: isNowOpen ? name : undefined });
      }}
    >
      <summary>
        <code>
          <Recorded text={name} />
        </code>{' '}
        {withheld && <Badge tone="warn">withheld</Badge>} <span class="mcp-note">{hints.join(', ')}</span>
      </summary>
      <div class="mcp-tool-details">
        {description === undefined ? <p class="mcp-note">It has no description.</p> : <SafeText text={description} />}
        {isOpen && !withheld && !isPast.value && <CallTool slug={slug} tool={tool} />}
        <details>
          <summary>Schema of its arguments</summary>
          <SafeText text={JSON.stringify(tool.input_schema, undefined, 2)} look="code" />
        </details>
      </div>
    </details>
  );
}

/** `readOnlyHint` becomes `read only`. */
function hintWords(hint: string): string {
  return hint
    .replace(/Hint$/, '')
    .replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)
    .trim();
}

interface ListedProps<Entry> {
  readonly title: string;
  readonly entries: readonly Entry[];
  readonly addressOf: (entry: Entry) => string | undefined;
}

function Listed<Entry extends { readonly name: string; readonly description?: string | undefined }>({
  title,
  entries,
  addressOf,
}: ListedProps<Entry>) {
  if (entries.length === 0) return null;
  return (
    <Panel title={`${title} (${entries.length})`}>
      <ul class="mcp-listed">
        {entries.map((entry) => {
          const address = addressOf(entry);
          return (
            <li key={`${entry.name} ${address}`}>
              <strong>
                <Recorded text={entry.name} />
              </strong>{' '}
              {address !== undefined && (
                <code>
                  <Recorded text={address} />
                </code>
              )}
              {entry.description !== undefined && (
                <p class="mcp-note">
                  <Recorded text={entry.description} />
                </p>
              )}
            </li>
          );
        })}
      </ul>
    </Panel>
  );
}

interface ChangedToolsProps {
  readonly catalog: McpCatalog;
  readonly onAccepted: () => void;
}

/** Tools that are not as an administrator has accepted them, with the difference. */
export function ChangedTools({ catalog, onAccepted }: ChangedToolsProps) {
  const { changed_tools: changed, server } = catalog;
  if (changed.length === 0) return null;
  return (
    <Panel title="Changed tools">
      <p class="mcp-note">
        Models read the description of a tool. Read what the server has changed before you accept it: until then clients
        cannot use the tool.
      </p>
      {changed.map((tool) => (
        <ChangedTool key={tool.digest} slug={server} tool={tool} onAccepted={onAccepted} />
      ))}
    </Panel>
  );
}

interface ChangedToolProps {
  readonly slug: string;
  readonly tool: McpCatalog['changed_tools'][number];
  readonly onAccepted: () => void;
}

function ChangedTool({ slug, tool, onAccepted }: ChangedToolProps) {
  const { name, accepted, changed, digest, changed_at } = tool;
  const [isDone, setDone] = useState(false);
  const { error, isSending, send } = useChange(() => {
    setDone(true);
    onAccepted();
  });
  const accept = () =>
    sendChange({
      ...{ method: 'POST', of: '/admin/mcp-servers/{slug}/tools/{name}/accept' },
      at: `${serverPath(slug)}/tools/${encodeURIComponent(name)}/accept`,
      json: { digest },
    });
  return (
    <section class="mcp-changed" aria-label={`Changed tool ${name}`}>
      <div class="panel-head">
        <h3>
          <Recorded text={name} />{' '}
          <span class="mcp-note">
            changed <Time at={changed_at} />
          </span>
        </h3>
        {!isPast.value && (
          <Button
            look="main"
            label={`Accept the change of ${name}`}
            disabled={isSending || isDone}
            onClick={() => send(accept)}
          >
            Accept
          </Button>
        )}
      </div>
      {error !== undefined && <ErrorPanel error={error} />}
      <DiffView before={indented(accepted)} after={indented(changed)} beforeTitle="accepted" afterTitle="now" />
    </section>
  );
}

function indented(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), undefined, 2);
  } catch {
    return json;
  }
}
