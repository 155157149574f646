/** What differs between two JSON documents, value by value. */
import './diff-view.css';
import { useState } from 'preact/hooks';
import { formatCount } from '../../format/numbers.ts';
import { Button } from '../../ui/button.tsx';
import { EmptyState } from '../../ui/states.tsx';
import { type JsonNode, sourceOf, stringOf } from '../json/json-document.ts';
import { formatPath } from '../json/json-path.ts';
import type { Sliced } from '../sliced.ts';
import { Pieces } from '../text/pieces.tsx';
import { SafeText } from '../text/safe-text.tsx';
import { useSliced } from '../use-sliced.ts';
import type { JsonChange } from './compare-json.ts';
import { type DiffSpan, wordSpans } from './diff-rows.ts';

const changesPerStep = 100;

/** The changed values of two JSON documents, by path. */
export function Changes({ changes }: { readonly changes: readonly JsonChange[] }) {
  const [shown, setShown] = useState(changesPerStep);
  if (changes.length === 0) {
    return <EmptyState title="The values are equal. Only white space, escapes or the order of members differ." />;
  }
  return (
    <>
      <ol class="diff-changes">
        {changes.slice(0, shown).map((change, index) => (
          <li key={index} data-kind={change.kind}>
            <p class="diff-path">
              <ChangeBadge kind={change.kind} />{' '}
              <code>
                <Pieces text={formatPath(change.path.slice(-40))} />
              </code>
            </p>
            <ChangedValue change={change} />
          </li>
        ))}
      </ol>
      {shown < changes.length && (
        <Button onClick={() => setShown(shown + changesPerStep)}>
          Show {formatCount(Math.min(changesPerStep, changes.length - shown))} more
        </Button>
      )}
    </>
  );
}

const badges = {
  added: { sign: '+', word: 'Added' },
  removed: { sign: '−', word: 'Removed' },
  changed: { sign: '±', word: 'Changed' },
} as const;

export function ChangeBadge({ kind }: { readonly kind: JsonChange['kind'] }) {
  const { sign, word } = badges[kind];
  return (
    <span class="diff-badge" data-kind={kind}>
      <span aria-hidden="true">{sign}</span> {word}
    </span>
  );
}

/** What was there before and what is there now; of strings, with the words that differ. */
export function ChangedValue({ change }: { readonly change: JsonChange }) {
  if (change.kind === 'added') return <Side sign="+" word="Now" text={sourceOf(change.after)} />;
  if (change.kind === 'removed') return <Side sign="−" word="Before" text={sourceOf(change.before)} />;
  return <ChangedText before={valueText(change.before, change.after)} after={valueText(change.after, change.before)} />;
}

/** Strings are compared without quotes; beside another kind of value, the quotes tell them apart. */
function valueText(node: JsonNode, other: JsonNode): string {
  return stringOf(other) === undefined ? sourceOf(node) : (stringOf(node) ?? sourceOf(node));
}

const MAX_WORDS_TEXT = 200_000;

function ChangedText({ before, after }: { readonly before: string; readonly after: string }) {
  const isLong = before.length + after.length > MAX_WORDS_TEXT;
  const work = useSliced(() => (isLong ? noSpans() : wordSpans(before, after)), [before, after]);
  const spans = work.state === 'done' ? work.value : undefined;
  return (
    <>
      <Side sign="−" word="Before" text={before} spans={spans?.old} />
      <Side sign="+" word="Now" text={after} spans={spans?.new} />
    </>
  );
}

function* noSpans(): Sliced<undefined> {
  yield;
  return undefined;
}

interface SideProps {
  readonly sign: '+' | '−';
  readonly word: string;
  readonly text: string;
  readonly spans?: readonly DiffSpan[] | undefined;
}

/** Spans beyond this length are shown without marks, in pages. */
export const MAX_SPAN_TEXT = 20_000;

function Side({ sign, word, text, spans }: SideProps) {
  const marked = spans !== undefined && text.length <= MAX_SPAN_TEXT;
  return (
    <div class="diff-side" data-sign={sign}>
      <span class="diff-sign">
        <span aria-hidden="true">{sign}</span>
        <span class="visually-hidden">{word}: </span>
      </span>
      {marked ? <Spans spans={spans} sign={sign} /> : <SafeText text={text} look="code" />}
    </div>
  );
}

export function Spans({ spans, sign }: { readonly spans: readonly DiffSpan[]; readonly sign: '+' | '−' }) {
  return (
    <span class="diff-spans" dir="auto">
      {spans.map(({ text, changed }, index) => {
        if (!changed) return <Pieces key={index} text={text} isWhole />;
        const content = <Pieces text={visibleLineEnd(text)} isWhole />;
        return sign === '+' ? <ins key={index}>{content}</ins> : <del key={index}>{content}</del>;
      })}
    </span>
  );
}

/** A changed line break is shown: otherwise nothing of the change would be visible. */
function visibleLineEnd(text: string): string {
  return text === '\n' ? '⏎\n' : text === '\r\n' ? 'CR ⏎\n' : text;
}
