/** A recorded body as a tree, where it is JSON, and as it is. */
import { useState } from 'preact/hooks';
import { scanJson } from '../../content/json/json-document.ts';
import { JsonTree } from '../../content/json/json-tree.tsx';
import { DownloadButton } from '../../content/text/download-button.tsx';
import { RawView } from '../../content/text/raw-view.tsx';
import { useSliced } from '../../content/use-sliced.ts';
import { formatBytes } from '../../format/numbers.ts';
import { Button } from '../../ui/button.tsx';
import { EmptyState, Pending } from '../../ui/states.tsx';
import type { WholeBody } from './record/use-whole-body.ts';

interface BodyViewProps {
  readonly body: WholeBody;
  /** Read out as the name of the body. */
  readonly label: string;
  readonly fileName: string;
}

export function BodyView({ body, label, fileName }: BodyViewProps) {
  const { text, bytes, isCut } = body;
  const [chosen, setChosen] = useState<'tree' | 'raw'>('tree');
  const document = useSliced(() => scanJson(text ?? ''), [text]);
  if (bytes.length === 0) return <EmptyState title={`${label}: the body is empty.`} />;
  if (text === undefined) {
    return (
      <EmptyState title={`${label}: ${formatBytes(bytes.length)} that are not text.`}>
        <DownloadButton parts={[bytes]} fileName={fileName} />
      </EmptyState>
    );
  }
  if (document.state === 'working') return <Pending since={document.since}>Reading</Pending>;
  const json = document.state === 'done' && document.value.problem === undefined ? document.value : undefined;
  const shown = json === undefined ? 'raw' : chosen;
  return (
    <div class="exchange-body">
      <div class="exchange-toolbar">
        <Button pressed={shown === 'tree'} disabled={json === undefined} onClick={() => setChosen('tree')}>
          Tree
        </Button>
        <Button pressed={shown === 'raw'} onClick={() => setChosen('raw')}>
          Raw
        </Button>
        <span class="exchange-muted">
          {formatBytes(bytes.length)}
          {isCut ? ', the rest is too long for the page' : ''}
        </span>
      </div>
      {shown === 'tree' && json !== undefined ? (
        <JsonTree document={json} label={label} />
      ) : (
        <RawView text={text} label={label} bytes={bytes} fileName={fileName} />
      )}
    </div>
  );
}
