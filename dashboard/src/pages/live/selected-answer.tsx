/** The selected request: the end of its answer, while it grows. */
import { useEffect, useRef } from 'preact/hooks';
import { visibleText } from '../../content/text/hidden-characters.ts';
import { formatCount } from '../../format/numbers.ts';
import { isOpen, type LiveRow } from '../../live/live-row.ts';
import { Button } from '../../ui/button.tsx';
import { Panel } from '../../ui/panel.tsx';
import { Text } from './live-cells.tsx';
import { exchangeHref } from './live-table.tsx';

interface SelectedAnswerProps {
  readonly row: LiveRow;
  readonly onClose: () => void;
}

export function SelectedAnswer({ row, onClose }: SelectedAnswerProps) {
  const text = useRef<HTMLPreElement>(null);
  const shown = row.answerTail ?? '';
  const length = row.answerLength ?? shown.length;
  // The newest words are at the end.
  useEffect(() => {
    if (text.current !== null) text.current.scrollTop = text.current.scrollHeight;
  }, [shown]);
  return (
    <Panel
      title={visibleText(`${row.method ?? ''} ${row.path ?? ''}`.trim() || row.id)}
      class="live-answer"
      actions={
        <div class="live-actions">
          <a class="button button-main" href={exchangeHref(row.id)}>
            Open exchange
          </a>
          <Button look="quiet" label="Close" onClick={onClose}>
            <span aria-hidden="true">✕</span>
          </Button>
        </div>
      }
    >
      {row.errorMessage !== undefined && (
        <p>
          {row.errorType} {row.errorCode}: <Text text={row.errorMessage} />
        </p>
      )}
      {shown === '' ? (
        <p class="live-answer-facts">{noAnswer(row)}</p>
      ) : (
        <>
          {/* A region that scrolls must be reachable by keyboard. */}
          <pre class="live-answer-text" ref={text} role="group" aria-label="End of the answer" tabIndex={0} dir="auto">
            {visibleText(shown)}
          </pre>
          <p class="live-answer-facts">
            {length > shown.length
              ? `The last ${formatCount(shown.length)} of ${formatCount(length)} characters.`
              : `${formatCount(length)} characters.`}
          </p>
        </>
      )}
    </Panel>
  );
}

function noAnswer(row: LiveRow): string {
  if (isOpen(row))
    return row.isStream === true ? 'No text yet.' : 'The answer is not a stream: it is shown when it is complete.';
  return 'Open the exchange for the answer.';
}
