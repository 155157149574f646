import { useState } from 'preact/hooks';
import { sendChange } from '../../api/send-change.ts';
import { isPast } from '../../app/as-of.ts';
import { gatewayUrl } from '../../app/base-path.ts';
import { Recorded } from '../../content/text/recorded.tsx';
import { formatCount } from '../../format/numbers.ts';
import { Button } from '../../ui/button.tsx';
import { Fact, FactList } from '../../ui/fact-list.tsx';
import { Money, Time } from '../../ui/facts.tsx';
import { TextField } from '../../ui/fields.tsx';
import { Panel } from '../../ui/panel.tsx';
import { ErrorPanel } from '../../ui/states.tsx';
import { Badge, type Tone } from '../../ui/status-badge.tsx';
import { useChange } from '../../ui/use-change.ts';
import { type McpServerRow, serverPath } from './server-state.ts';

type Authorization = NonNullable<McpServerRow['oauth']>['authorizations'][number];

/** The settings of a server, without secrets. */
export function ServerFacts({ row }: { readonly row: McpServerRow }) {
  return (
    <FactList>
      {row.description !== undefined && (
        <Fact name="Description">
          <Recorded text={row.description} />
        </Fact>
      )}
      <Fact name="Transport">{row.transport.replace('_', ' ')}</Fact>
      <Fact name={row.url === undefined ? 'Program' : 'URL'}>
        <Recorded text={row.url ?? row.command ?? '–'} />
      </Fact>
      <Fact name="Headers">
        <Recorded text={Object.keys(row.headers ?? {}).join(', ') || 'none'} />
      </Fact>
      <Fact name="Seen by">
        <Recorded text={row.user_paths?.join(', ') ?? 'all'} />
      </Fact>
      <Fact name="Allowed tools">
        <Recorded text={row.allowed_tools?.join(', ') ?? 'all'} />
      </Fact>
      {row.disallowed_tools !== undefined && (
        <Fact name="Disallowed tools">
          <Recorded text={row.disallowed_tools.join(', ')} />
        </Fact>
      )}
      <Fact name="Time limit of a call">{formatCount(row.tool_timeout_seconds)} s</Fact>
      <Fact name="Price of a call">
        {row.price_per_call === undefined ? 'none' : <Money dollars={row.price_per_call} />}
      </Fact>
      <Fact name="Changed tools">{row.pin ? 'withheld until accepted' : 'recorded, and offered at once'}</Fact>
      <Fact name="Set up in">
        {row.managed ? (
          'the configuration'
        ) : (
          <>
            the admin API
            {row.updated_at !== undefined && (
              <>
                , <Time at={row.updated_at} />
              </>
            )}
          </>
        )}
      </Fact>
      {row.connected_at !== undefined && (
        <Fact name="Connected">
          <Time at={row.connected_at} />
        </Fact>
      )}
    </FactList>
  );
}

const words: Readonly<Record<Authorization['status'], readonly [string, Tone]>> = {
  authorized: ['authorized', 'ok'],
  pending: ['waits for the authorization server', 'info'],
  needs_authorization: ['needs an authorization', 'bad'],
};

interface AuthorizationPanelProps {
  readonly row: McpServerRow;
  readonly onChange: () => void;
}

/** The authorizations of the gateway at the server, and how to begin one. */
export function AuthorizationPanel({ row, onChange }: AuthorizationPanelProps) {
  const { oauth, slug } = row;
  const { error, isSending, send } = useChange(onChange);
  if (oauth === undefined) return null;
  if (oauth.grant === 'client_credentials') {
    return (
      <Panel title="Authorization">
        <p>The gateway obtains tokens with its client credentials when it needs them.</p>
      </Panel>
    );
  }
  const forget = (userPath: string | undefined) =>
    send(() =>
      sendChange({
        ...{ method: 'DELETE', of: '/admin/mcp-servers/{slug}/oauth', at: `${serverPath(slug)}/oauth` },
        query: { user_path: userPath },
      }),
    );
  return (
    <Panel title="Authorization">
      {oauth.authorizations.length === 0 && <p>The gateway has no token for this server.</p>}
      <ul class="mcp-authorizations" aria-label="Authorizations">
        {oauth.authorizations.map(({ user_path, status, expires_at, problem }) => (
          <li key={user_path ?? ''}>
            {user_path !== undefined && <Recorded text={user_path} />}{' '}
            <Badge tone={words[status][1]}>{words[status][0]}</Badge>{' '}
            {expires_at !== undefined && (
              <span class="mcp-note">
                token until <Time at={expires_at} />
              </span>
            )}{' '}
            {!isPast.value && (
              <Button
                disabled={isSending}
                label={`Give up the tokens${user_path === undefined ? '' : ` of ${user_path}`}`}
                onClick={() => forget(user_path)}
              >
                Give up
              </Button>
            )}
            {problem !== undefined && (
              <p class="mcp-problem">
                <Recorded text={problem} />
              </p>
            )}
          </li>
        ))}
      </ul>
      {error !== undefined && <ErrorPanel error={error} />}
      {!isPast.value && <BeginAuthorization slug={slug} perUserPath={oauth.per_user_path} onBegun={onChange} />}
    </Panel>
  );
}

interface BeginAuthorizationProps {
  readonly slug: string;
  readonly perUserPath: boolean;
  readonly onBegun: () => void;
}

function BeginAuthorization({ slug, perUserPath, onBegun }: BeginAuthorizationProps) {
  const [userPath, setUserPath] = useState('');
  const [address, setAddress] = useState<string | undefined>(undefined);
  const { error, isSending, send } = useChange(onBegun);
  const begin = async () => {
    setAddress(undefined);
    const { authorization_url } = await sendChange({
      ...{ method: 'POST', of: '/admin/mcp-servers/{slug}/oauth/authorize', at: `${serverPath(slug)}/oauth/authorize` },
      json: {
        redirect_uri: `${gatewayUrl}/admin/mcp-servers/oauth/callback`,
        ...(perUserPath ? { user_path: userPath } : {}),
      },
    });
    setAddress(authorization_url);
  };
  return (
    <>
      {perUserPath && <TextField label="User path" value={userPath} placeholder="/team/alpha" onInput={setUserPath} />}
      <div class="mcp-actions">
        <Button disabled={isSending || (perUserPath && userPath === '')} onClick={() => send(begin)}>
          {isSending ? 'Asking the server' : 'Authorize'}
        </Button>
        <span role="status">
          {address !== undefined && (
            <a href={address} target="_blank" rel="noopener noreferrer">
              Continue at {new URL(address).host}
            </a>
          )}
        </span>
      </div>
      {error !== undefined && <ErrorPanel error={error} />}
    </>
  );
}
