import './pieces.css';
import { useMemo } from 'preact/hooks';
import { splitPlaceholders } from '../conversation/placeholders.ts';
import { piecesOf } from './hidden-characters.ts';

interface PiecesProps {
  readonly text: string;
  /** Whether placeholders of guardrails, such as `<EMAIL_1>`, are marked. */
  readonly placeholders?: boolean;
  /**
   * Whether the element around has `dir="auto"` and holds nothing else. That direction is read from its text, without
   * the text of `bdi` elements.
   */
  readonly isWhole?: boolean;
}

/**
 * Recorded text of at most some ten thousand characters. Hidden characters are marks; nothing of the text is markup, and
 * its direction does not reach beyond it.
 */
export function Pieces({ text, placeholders = false, isWhole = false }: PiecesProps) {
  const pieces = useMemo(() => piecesOf(text), [text]);
  const Isolated = isWhole ? 'span' : 'bdi';
  return (
    <Isolated class="pieces">
      {pieces.map((piece, index) =>
        piece.kind === 'mark' ? (
          <span key={index} class="hidden-mark" role="img" aria-label={piece.title} title={piece.title}>
            {piece.label}
          </span>
        ) : placeholders ? (
          <WithPlaceholders key={index} text={piece.text} />
        ) : (
          piece.text
        ),
      )}
    </Isolated>
  );
}

function WithPlaceholders({ text }: { readonly text: string }) {
  const spans = splitPlaceholders(text);
  return (
    <>
      {spans.map((span, index) =>
        span.isPlaceholder ? (
          <span key={index} class="placeholder-mark" title="Placeholder: a guardrail put it in the place of a value">
            {span.text}
          </span>
        ) : (
          span.text
        ),
      )}
    </>
  );
}
