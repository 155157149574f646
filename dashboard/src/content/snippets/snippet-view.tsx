import './snippet-view.css';
import { useState } from 'preact/hooks';
import { CopyButton } from '../../ui/copy-button.tsx';
import { EmptyState, Pending } from '../../ui/states.tsx';
import { Tabs } from '../../ui/tabs.tsx';
import type { Dialect } from '../conversation/turn.ts';
import type { Sliced } from '../sliced.ts';
import { SafeText } from '../text/safe-text.tsx';
import { useSliced } from '../use-sliced.ts';
import { curlSnippet } from './curl-snippet.ts';
import type { RecordedRequest, Snippet } from './recorded-request.ts';
import { pythonSnippet, typeScriptSnippet } from './sdk-snippets.ts';

interface SnippetViewProps {
  readonly request: RecordedRequest;
  /** Undefined for requests that the SDKs have no method for here. */
  readonly dialect: Dialect | undefined;
}

/** A recorded request as commands and programs that repeat it against this gateway. */
export function SnippetView({ request, dialect }: SnippetViewProps) {
  const [chosen, setShown] = useState('curl');
  const sdk = dialect === 'messages' ? 'Anthropic' : 'OpenAI';
  const tabs = [
    { name: 'curl', title: 'curl' },
    ...(dialect === undefined
      ? []
      : [
          { name: 'typescript', title: `${sdk} (TypeScript)` },
          { name: 'python', title: `${sdk} (Python)` },
        ]),
  ];
  const shown = tabs.some(({ name }) => name === chosen) ? chosen : 'curl';
  const work = useSliced(() => snippetOf(shown, request, dialect), [shown, request, dialect]);
  return (
    <Tabs label="Language" tabs={tabs} shown={shown} onShow={setShown}>
      {work.state === 'working' && <Pending since={work.since}>Writing</Pending>}
      {work.state === 'failed' && <EmptyState title={work.message} />}
      {work.state === 'done' && <Code snippet={work.value} />}
    </Tabs>
  );
}

function* snippetOf(language: string, request: RecordedRequest, dialect: Dialect | undefined): Sliced<Snippet> {
  yield;
  if (dialect === undefined || language === 'curl') return curlSnippet(request);
  return yield* language === 'python' ? pythonSnippet(dialect, request) : typeScriptSnippet(dialect, request);
}

function Code({ snippet }: { readonly snippet: Snippet }) {
  if ('unavailable' in snippet) return <EmptyState title={snippet.unavailable} />;
  return (
    <>
      <ul class="snippet-notes">
        {snippet.notes.map((note) => (
          <li key={note}>{note}</li>
        ))}
      </ul>
      <div class="snippet">
        {/* A region that scrolls must be reachable by keyboard. */}
        <div class="snippet-code" data-own-keys role="group" aria-label="Code" tabIndex={0}>
          <SafeText text={snippet.code} look="code" />
        </div>
        <CopyButton text={snippet.code} what="code" />
      </div>
    </>
  );
}
