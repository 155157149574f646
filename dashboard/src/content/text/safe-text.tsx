import './safe-text.css';
import { useState } from 'preact/hooks';
import { formatCount } from '../../format/numbers.ts';
import { Button } from '../../ui/button.tsx';
import { runNow } from '../sliced.ts';
import { useSliced } from '../use-sliced.ts';
import { Pieces } from './pieces.tsx';
import { allPages, nextPage, type TextPage } from './text-pages.ts';

interface SafeTextProps {
  readonly text: string;
  readonly placeholders?: boolean;
  /** Default `text`; `code` is for JSON and other source text. */
  readonly look?: 'text' | 'code';
}

/** Recorded text of any length: one page at first, further pages on request. */
export function SafeText({ text, placeholders = false, look = 'text' }: SafeTextProps) {
  const [shown, setShown] = useState(1);
  const first = nextPage(text, undefined);
  if (first === undefined || first.end === text.length) {
    return (
      <div class="safe-text" data-look={look} dir="auto">
        <Pieces text={text} placeholders={placeholders} isWhole />
      </div>
    );
  }
  return <LongText {...{ text, placeholders, look, shown, first }} onMore={() => setShown(shown + 2)} />;
}

interface LongTextProps {
  readonly text: string;
  readonly placeholders: boolean;
  readonly look: 'text' | 'code';
  readonly shown: number;
  readonly first: TextPage;
  readonly onMore: () => void;
}

function LongText({ text, placeholders, look, shown, first, onMore }: LongTextProps) {
  const work = useSliced(() => allPages(text), [text]);
  const pages = work.state === 'done' ? work.value : [first];
  const visible = pages.slice(0, shown);
  const end = visible.at(-1)?.end ?? 0;
  return (
    <div class="safe-text" data-look={look} dir="auto">
      {visible.map((page) => (
        <Pieces key={page.start} text={text.slice(page.start, page.end)} placeholders={placeholders} isWhole />
      ))}
      {end < text.length && (
        <div class="safe-text-more">
          <Button onClick={onMore}>Show more</Button>
          <span>
            {formatCount(end)} of {formatCount(text.length)} characters
          </span>
        </div>
      )}
    </div>
  );
}

/** The beginning of a text, for a line or a title. */
export function beginningOfText(text: string, max: number): string {
  if (text.length <= max) return text;
  const [page] = runNow(allPages(text.slice(0, max + 1), { characters: max, lines: 1 }));
  return `${text.slice(0, page?.end ?? max).trimEnd()}…`;
}
