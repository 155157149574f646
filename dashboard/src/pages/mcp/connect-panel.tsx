import { useState } from 'preact/hooks';
import { gatewayUrl } from '../../app/base-path.ts';
import { CodeBlock } from '../../ui/code-block.tsx';
import { Panel } from '../../ui/panel.tsx';
import { Tabs } from '../../ui/tabs.tsx';
import { connectSnippets } from './connect-snippets.ts';

interface ConnectPanelProps {
  /** Undefined: all servers that the key may see. */
  readonly slug: string | undefined;
}

/** What to enter in a client, so that it reaches the servers through the gateway. */
export function ConnectPanel({ slug }: ConnectPanelProps) {
  const snippets = connectSnippets(gatewayUrl, slug);
  const [shown, setShown] = useState(snippets[0]?.name ?? '');
  const snippet = snippets.find(({ name }) => name === shown);
  return (
    <Panel title={slug === undefined ? 'Connect a client to all servers' : 'Connect a client to this server'}>
      <p class="mcp-note">
        With a key of this gateway as <code>CHANCERY_API_KEY</code>.
        {slug === undefined && ' Tools are named with the slug of their server: '}
        {slug === undefined && <code>{'<slug>_<tool>'}</code>}
      </p>
      <Tabs label="Clients" tabs={snippets} shown={shown} onShow={setShown}>
        {snippet !== undefined && (
          <>
            <p class="mcp-note">{snippet.place}</p>
            <CodeBlock label={`Settings of ${snippet.title}`} text={snippet.text} />
          </>
        )}
      </Tabs>
    </Panel>
  );
}
