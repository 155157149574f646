/** A recorded body as a tree, where it is JSON, and as it is. */
import { BodyView as RecordedBody } from '../../content/body-view.tsx';
import { DownloadButton } from '../../content/text/download-button.tsx';
import { formatBytes } from '../../format/numbers.ts';
import { EmptyState } from '../../ui/states.tsx';
import type { WholeBody } from './record/use-whole-body.ts';

interface BodyViewProps {
  readonly body: WholeBody;
  /** Read out as the name of the body. */
  readonly label: string;
  readonly fileName: string;
}

export function BodyView({ body, label, fileName }: BodyViewProps) {
  const { text, bytes, isCut } = body;
  if (bytes.length === 0) return <EmptyState title={`${label}: the body is empty.`} />;
  if (text === undefined) {
    return (
      <EmptyState title={`${label}: ${formatBytes(bytes.length)} that are not text.`}>
        <DownloadButton parts={[bytes]} fileName={fileName} />
      </EmptyState>
    );
  }
  return (
    <div class="exchange-body">
      <p class="exchange-muted">
        {formatBytes(bytes.length)}
        {isCut ? ', the rest is too long for the page' : ''}
      </p>
      <RecordedBody text={text} bytes={bytes} title={label} fileName={fileName} />
    </div>
  );
}
