import { useState } from 'preact/hooks';
import { Button } from '../ui/button.tsx';
import { EmptyState, Pending } from '../ui/states.tsx';
import { formatJson } from './json/format-json.ts';
import { type JsonDocument, scanJson } from './json/json-document.ts';
import { JsonTree } from './json/json-tree.tsx';
import { RawView } from './text/raw-view.tsx';
import { useSliced } from './use-sliced.ts';

interface BodyViewProps {
  readonly text: string;
  /** The recorded bytes, for a download. */
  readonly bytes?: Uint8Array;
  /** `Request of the client`; names the region and the tree. */
  readonly title: string;
  readonly fileName: string;
}

type Mode = 'tree' | 'formatted' | 'raw';

/** A recorded body: as a tree where it is JSON, formatted, and as it is. */
export function BodyView({ text, bytes, title, fileName }: BodyViewProps) {
  const [chosen, setMode] = useState<Mode>('tree');
  const work = useSliced(() => scanJson(text), [text]);
  if (text === '') return <EmptyState title="No body is recorded." />;
  if (work.state === 'working') return <Pending since={work.since}>Reading</Pending>;
  const document = work.state === 'done' && hasJson(work.value) ? work.value : undefined;
  const isWhole = document !== undefined && document.problem === undefined;
  const mode = document === undefined ? 'raw' : chosen === 'formatted' && !isWhole ? 'tree' : chosen;
  const choice = (one: Mode, name: string) => (
    <Button
      pressed={mode === one}
      disabled={one === 'formatted' ? !isWhole : one === 'tree' && document === undefined}
      onClick={() => setMode(one)}
    >
      {name}
    </Button>
  );
  return (
    <div class="body-view">
      <div class="content-toolbar" role="group" aria-label="View">
        {choice('tree', 'Tree')}
        {choice('formatted', 'Formatted')}
        {choice('raw', 'Raw')}
      </div>
      {mode === 'tree' && document !== undefined && <JsonTree document={document} label={title} />}
      {mode === 'formatted' && document !== undefined && (
        <Formatted document={document} title={title} fileName={fileName} />
      )}
      {mode === 'raw' && (
        <RawView text={text} label={title} fileName={fileName} {...(bytes === undefined ? {} : { bytes })} />
      )}
    </div>
  );
}

/** A text that begins like JSON; the beginning of a stream, such as `data`, does not. */
function hasJson({ count, problem, text }: JsonDocument): boolean {
  return count > 0 && (problem === undefined || /^\ufeff?\s*[[{]/.test(text));
}

function Formatted({
  document,
  title,
  fileName,
}: {
  readonly document: JsonDocument;
  readonly title: string;
  readonly fileName: string;
}) {
  const work = useSliced(() => formatJson(document), [document]);
  if (work.state === 'working') return <Pending since={work.since}>Formatting</Pending>;
  if (work.state === 'failed') return <EmptyState title={work.message} />;
  if (work.value === undefined) return <EmptyState title="The formatted text would be too long. Use the tree." />;
  return <RawView text={work.value} label={`${title}, formatted`} fileName={fileName} />;
}
