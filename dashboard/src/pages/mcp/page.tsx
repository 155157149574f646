import './mcp.css';
import { useEffect, useState } from 'preact/hooks';
import { access, isGlobal } from '../../api/access.ts';
import { getAnswer } from '../../api/client.ts';
import { sendChange } from '../../api/send-change.ts';
import { useAnswer } from '../../api/use-answer.ts';
import { asOfQuery, isPast } from '../../app/as-of.ts';
import type { PageProps } from '../../app/page-entry.ts';
import { hrefOf, navigate, route, setQuery } from '../../app/router.ts';
import { Recorded } from '../../content/text/recorded.tsx';
import { formatCount } from '../../format/numbers.ts';
import { Button } from '../../ui/button.tsx';
import { ConfirmDialog } from '../../ui/confirm-dialog.tsx';
import { PageHeader } from '../../ui/page-header.tsx';
import { Panel } from '../../ui/panel.tsx';
import { EmptyState, ErrorPanel, Pending } from '../../ui/states.tsx';
import { Badge } from '../../ui/status-badge.tsx';
import { useChange } from '../../ui/use-change.ts';
import { CatalogPanels, ChangedTools } from './catalog-panels.tsx';
import { ConnectPanel } from './connect-panel.tsx';
import { ServerDialog } from './server-dialog.tsx';
import { draftOf, withoutSecrets } from './server-draft.ts';
import { AuthorizationPanel, ServerFacts } from './server-facts.tsx';
import { type McpServerRow, serverPath, statusTones } from './server-state.ts';

const REFRESH_MS = 10_000;

export default function McpPage({ id }: PageProps) {
  return (
    <>
      <PageHeader title="MCP servers" />
      {!isGlobal.value ? (
        <p>MCP servers belong to the whole gateway, and are shown to its administrators only.</p>
      ) : access.value?.features['MCP_ENABLED'] === 'off' ? (
        <EmptyState title="MCP is switched off.">
          <p>
            Start the gateway without <code>MCP_ENABLED=false</code>, or set <code>mcp.enabled: true</code> in its
            configuration file.
          </p>
        </EmptyState>
      ) : (
        <Servers slug={id} />
      )}
    </>
  );
}

/** @param slug of the shown server; '' for the list */
function Servers({ slug }: { readonly slug: string }) {
  const { data, error, since, reload, cancel } = useAnswer('/admin/mcp-servers', asOfQuery(), {
    refreshMs: isPast.value ? undefined : REFRESH_MS,
  });
  const editing = route.value.query.get('edit');
  const close = () => setQuery({ edit: undefined, add: undefined });
  const done = () => {
    close();
    reload();
  };
  const shown = data?.find((row) => row.slug === slug);
  const edited = data?.find((row) => row.slug === editing && !row.managed);
  return (
    <div class="mcp">
      {error !== undefined && <ErrorPanel error={error} onRetry={reload} />}
      {data === undefined && error === undefined && <Pending since={since} onCancel={cancel} />}
      {data !== undefined && slug === '' && <ServerList rows={data} />}
      {data !== undefined && slug !== '' && shown === undefined && (
        <EmptyState title="There is no such MCP server.">
          <p>
            <a href={hrefOf('/mcp', asOfQuery())}>All MCP servers</a>
          </p>
        </EmptyState>
      )}
      {shown !== undefined && <ServerView key={shown.slug} row={shown} onChange={reload} />}
      {!isPast.value && data !== undefined && (edited !== undefined || route.value.query.get('add') === 'server') && (
        <ServerDialog key={edited?.slug ?? ''} row={edited} onClose={close} onDone={done} />
      )}
    </div>
  );
}

function ServerList({ rows }: { readonly rows: readonly McpServerRow[] }) {
  return (
    <>
      {!isPast.value && (
        <div class="mcp-actions">
          <Button look="main" onClick={() => setQuery({ add: 'server' }, { push: true })}>
            Add an MCP server
          </Button>
        </div>
      )}
      {rows.length === 0 && (
        <EmptyState title="There is no MCP server.">
          <p>
            Add one here, or declare it in the configuration of the gateway. Programs that the gateway starts (
            <code>stdio</code>) can be declared there only.
          </p>
        </EmptyState>
      )}
      <ul class="mcp-servers" aria-label="MCP servers">
        {rows.map((row) => (
          <ServerCard key={row.slug} row={row} />
        ))}
      </ul>
      <ConnectPanel slug={undefined} />
    </>
  );
}

function ServerCard({ row }: { readonly row: McpServerRow }) {
  const { name, slug, status, last_error, changed_tools, pin } = row;
  return (
    <li class="mcp-server">
      <h2>
        <a href={hrefOf(`/mcp/${encodeURIComponent(slug)}`, asOfQuery())}>
          <Recorded text={name} />
        </a>{' '}
        <Badge tone={statusTones[status]}>{status}</Badge>
      </h2>
      <p class="mcp-note">
        <code>{slug}</code> · {countOf(row.tool_count, 'tool')}, {countOf(row.prompt_count, 'prompt')},{' '}
        {countOf(row.resource_count, 'resource')}
        {row.managed && ' · of the configuration'}
      </p>
      {last_error !== undefined && status !== 'connected' && (
        <p class="mcp-problem">
          <Recorded text={last_error} />
        </p>
      )}
      {changed_tools.length > 0 && pin && (
        <p>
          <Badge tone="warn">{`${countOf(changed_tools.length, 'changed tool')} withheld`}</Badge>
        </p>
      )}
    </li>
  );
}

function countOf(count: number, noun: string): string {
  return `${formatCount(count)} ${noun}${count === 1 ? '' : 's'}`;
}

interface ServerViewProps {
  readonly row: McpServerRow;
  readonly onChange: () => void;
}

/** One server: settings, authorization, catalogue. */
function ServerView({ row, onChange }: ServerViewProps) {
  const { slug, name, status, last_error } = row;
  const [isRemoving, setRemoving] = useState(false);
  // A server tells only what it offers now.
  const hasCatalog = row.enabled && !isPast.value;
  const catalog = useAnswer(
    { of: '/admin/mcp-servers/{slug}/catalog', at: `${serverPath(slug)}/catalog` },
    {},
    { enabled: hasCatalog },
  );
  const { error, isSending, send } = useChange(() => {
    onChange();
    catalog.reload();
  });
  // To read the catalogue may have connected the server.
  useEffect(() => {
    if (catalog.readAt !== undefined) onChange();
  }, [catalog.readAt]);
  const reconnect = () =>
    sendChange({ method: 'POST', of: '/admin/mcp-servers/{slug}/reconnect', at: `${serverPath(slug)}/reconnect` });
  return (
    <>
      <p>
        <a href={hrefOf('/mcp', asOfQuery())}>All MCP servers</a>
      </p>
      <Panel
        title={name}
        actions={
          !isPast.value && (
            <span class="mcp-actions">
              <Button disabled={isSending} onClick={() => send(reconnect)}>
                {isSending ? 'Connecting' : 'Reconnect'}
              </Button>
              {!row.managed && <Button onClick={() => setQuery({ edit: slug }, { push: true })}>Edit</Button>}
              {!row.managed && <Button onClick={() => setRemoving(true)}>Remove</Button>}
            </span>
          )
        }
      >
        <p class="mcp-state">
          <Badge tone={statusTones[status]}>{status}</Badge>{' '}
          {last_error !== undefined && status !== 'connected' && (
            <span class="mcp-problem">
              <Recorded text={last_error} />
            </span>
          )}
        </p>
        {error !== undefined && <ErrorPanel error={error} />}
        <ServerFacts row={row} />
      </Panel>
      <AuthorizationPanel row={row} onChange={onChange} />
      {hasCatalog && catalog.error !== undefined && <ErrorPanel error={catalog.error} onRetry={catalog.reload} />}
      {hasCatalog && catalog.data === undefined && catalog.error === undefined && (
        <Pending since={catalog.since} onCancel={catalog.cancel}>
          Reading the catalogue
        </Pending>
      )}
      {hasCatalog && catalog.data !== undefined && (
        <>
          <ChangedTools
            catalog={catalog.data}
            onAccepted={() => {
              onChange();
              catalog.reload();
            }}
          />
          <CatalogPanels catalog={catalog.data} chosen={route.value.query.get('tool') ?? undefined} />
        </>
      )}
      <ConnectPanel slug={slug} />
      {isRemoving && (
        <ConfirmDialog
          title={`Remove the MCP server "${name}"?`}
          confirmLabel="Remove the MCP server"
          effect={
            <p>
              Clients cannot use its tools any more, and the tokens for it are given up. Calls that are under way are
              completed.
            </p>
          }
          basis={{
            revision: row.revision,
            shown: withoutSecrets(draftOf(row)),
            readCurrent: async () => {
              const now = await getAnswer({ of: '/admin/mcp-servers/{slug}', at: serverPath(slug) });
              return { revision: now.revision, version: withoutSecrets(draftOf(now)) };
            },
          }}
          run={(ifMatch) =>
            sendChange({ method: 'DELETE', of: '/admin/mcp-servers/{slug}', at: serverPath(slug), ifMatch })
          }
          onClose={() => setRemoving(false)}
          onDone={() => {
            onChange();
            navigate(hrefOf('/mcp'));
          }}
        />
      )}
    </>
  );
}
