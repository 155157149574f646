import './raw-view.css';
import { useEffect, useRef, useState } from 'preact/hooks';
import { formatCount } from '../../format/numbers.ts';
import { Button } from '../../ui/button.tsx';
import { CopyButton } from '../../ui/copy-button.tsx';
import { useSliced } from '../use-sliced.ts';
import { DownloadButton } from './download-button.tsx';
import { Pieces } from './pieces.tsx';
import { SearchBar } from './search-bar.tsx';
import { searchText, type TextMatch } from './search-text.ts';
import { allPages, nextPage, pageIndexAt, type TextPage } from './text-pages.ts';
import { useSearch } from './use-search.ts';

interface RawViewProps {
  readonly text: string;
  /** Read out as the name of the region. */
  readonly label: string;
  /** What a download contains; default: the text. */
  readonly bytes?: Uint8Array;
  readonly fileName: string;
}

const PAGES_AT_FIRST = 1;
const PAGES_PER_STEP = 3;
/** More pages are not in the document at once. */
const MAX_PAGES = 12;

/** Recorded text as it is, with line numbers: pages of some hundred lines, search, copy and download. */
export function RawView({ text, label, bytes, fileName }: RawViewProps) {
  const [wrap, setWrap] = useState(true);
  const [view, setView] = useState({ from: 0, to: PAGES_AT_FIRST });
  const region = useRef<HTMLDivElement>(null);
  const work = useSliced(() => allPages(text), [text]);
  const pages = work.state === 'done' ? work.value : firstPages(text);
  const search = useSearch(
    text,
    (query) => searchText(text, query),
    ({ start }) => {
      const index = pageIndexAt(pages, start);
      if (index < view.from || index >= view.to) setView({ from: index, to: index + 1 });
    },
  );
  const current = search.matches[search.at];
  useEffect(() => {
    if (current !== undefined)
      region.current?.querySelector('[data-current=true]')?.scrollIntoView({ block: 'center' });
  }, [current, view]);
  const visible = pages.slice(view.from, view.to);
  const start = visible[0]?.start ?? 0;
  const end = visible.at(-1)?.end ?? 0;
  return (
    <div class="raw-view">
      <div class="content-toolbar">
        <SearchBar label="Search in this text" {...search} />
        <Button pressed={wrap} onClick={() => setWrap(!wrap)}>
          Wrap lines
        </Button>
        <CopyButton text={text} what="text" />
        <DownloadButton parts={[bytes ?? text]} fileName={fileName} />
        <span class="content-size">{formatCount(text.length)} characters</span>
      </div>
      {/* A region that scrolls must be reachable by keyboard. */}
      <div class="raw-text" data-own-keys data-wrap={wrap} ref={region} role="group" aria-label={label} tabIndex={0}>
        {view.from > 0 && (
          <p class="raw-more">
            <Button
              onClick={() =>
                setView({
                  from: Math.max(0, view.from - PAGES_PER_STEP),
                  to: Math.min(view.to, view.from - PAGES_PER_STEP + MAX_PAGES),
                })
              }
            >
              Show what is before
            </Button>
            <span>{formatCount(start)} characters before</span>
          </p>
        )}
        {visible.map((page) => (
          <Page key={page.start} text={text} page={page} matches={search.matches} current={current} />
        ))}
        {end < text.length && (
          <p class="raw-more">
            <Button
              onClick={() =>
                setView({
                  from: Math.max(view.from, view.to + PAGES_PER_STEP - MAX_PAGES),
                  to: view.to + PAGES_PER_STEP,
                })
              }
            >
              Show more
            </Button>
            <span>{formatCount(text.length - end)} characters after</span>
          </p>
        )}
      </div>
    </div>
  );
}

function firstPages(text: string): TextPage[] {
  const first = nextPage(text, undefined);
  return first === undefined ? [] : [first];
}

interface PageProps {
  readonly text: string;
  readonly page: TextPage;
  readonly matches: readonly TextMatch[];
  readonly current: TextMatch | undefined;
}

function Page({ text, page, matches, current }: PageProps) {
  const ofPage = matches.filter(({ start, end }) => end > page.start && start < page.end);
  const lines = text.slice(page.start, page.end).split('\n');
  // A line break at the end of the page ends its last line; a text that ends so has no further line.
  if (lines.length > 1 && lines.at(-1) === '') lines.pop();
  let at = page.start;
  return (
    <>
      {lines.map((line, index) => {
        const start = at;
        at += line.length + 1;
        const isContinued = page.continues && index === 0;
        return (
          <div key={start} class="raw-line" data-line={isContinued ? '⋯' : page.firstLine + index}>
            <Line
              text={line.endsWith('\r') ? line.slice(0, -1) : line}
              start={start}
              matches={ofPage}
              current={current}
            />
          </div>
        );
      })}
    </>
  );
}

interface LineProps {
  readonly text: string;
  /** Index of the line in the whole text. */
  readonly start: number;
  readonly matches: readonly TextMatch[];
  readonly current: TextMatch | undefined;
}

function Line({ text, start, matches, current }: LineProps) {
  const found = matches.filter((match) => match.end > start && match.start < start + text.length);
  if (found.length === 0) return <Pieces text={text} />;
  const spans = [];
  let at = 0;
  for (const match of found) {
    const from = Math.max(at, match.start - start);
    const to = Math.min(text.length, match.end - start);
    if (from > at) spans.push(<Pieces key={at} text={text.slice(at, from)} />);
    spans.push(
      <mark key={`match ${from}`} data-current={match === current}>
        <Pieces text={text.slice(from, to)} />
      </mark>,
    );
    at = to;
  }
  if (at < text.length) spans.push(<Pieces key={at} text={text.slice(at)} />);
  return <>{spans}</>;
}
