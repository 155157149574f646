import './json-tree.css';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { formatCount } from '../../format/numbers.ts';
import { Button } from '../../ui/button.tsx';
import { CopyButton } from '../../ui/copy-button.tsx';
import { Pieces } from '../text/pieces.tsx';
import { SafeText } from '../text/safe-text.tsx';
import { SearchBar } from '../text/search-bar.tsx';
import { useSearch } from '../text/use-search.ts';
import { useSliced } from '../use-sliced.ts';
import { beginningOf, childCountOf, type JsonDocument, kindOf, nameOf, sourceOf, stringOf } from './json-document.ts';
import { formatPath, pathOf } from './json-path.ts';
import { searchJson } from './search-json.ts';
import {
  collapseAll,
  expandBelow,
  initialTree,
  PAGE,
  repeatedNames,
  reveal,
  rowsOf,
  showMore,
  type TreeRow,
  type TreeState,
  toggle,
} from './tree-rows.ts';

interface JsonTreeProps {
  readonly document: JsonDocument;
  /** The value at the top; default: the root. */
  readonly top?: number;
  /** Read out as the name of the tree. */
  readonly label: string;
  /** Without search and buttons, for small values. */
  readonly compact?: boolean;
}

/** Longer strings are shown whole on request. */
const MAX_VALUE = 240;

/** WAI-ARIA Authoring Practices, tree view pattern. */
export function JsonTree({ document, top = 0, label, compact = false }: JsonTreeProps) {
  const [state, setState] = useState<TreeState>(() => initialTree(document, top));
  const [active, setActive] = useState('');
  const [whole, setWhole] = useState<number>();
  const tree = useRef<HTMLDivElement>(null);
  const focusActive = useRef(false);
  useEffect(() => {
    setState(initialTree(document, top));
    setWhole(undefined);
    setActive('');
  }, [document, top]);
  const rows = useMemo(() => rowsOf(document, state), [document, state]);
  const names = useSliced(() => repeatedNames(document), [document]);
  const repeated = names.state === 'done' ? names.value : undefined;
  const search = useSearch(
    document,
    (query) => searchJson(document, query, top),
    ({ index }) => {
      setState(reveal(document, state, index));
      setActive(`value ${index}`);
    },
  );
  const found = useMemo(() => new Set(search.matches.map(({ index }) => index)), [search.matches]);
  const activeRow = rows.find((row) => rowKey(row) === active) ?? rows[0];
  const activeKey = activeRow === undefined ? '' : rowKey(activeRow);
  // Before the next key is pressed.
  useLayoutEffect(() => {
    const element = tree.current?.querySelector<HTMLElement>(`[data-row="${activeKey}"]`);
    if (search.at >= 0) element?.scrollIntoView({ block: 'nearest' });
    if (focusActive.current) element?.focus();
    focusActive.current = false;
  }, [activeKey, rows]);

  const activate = (row: TreeRow) => {
    if (row.kind === 'earlier' || row.kind === 'later') setState(showMore(document, state, row.index, row.kind));
    else if (row.kind === 'value' && row.expandable) setState(toggle(state, row.index));
    else if (row.kind === 'value' && isLong(document, row.index)) setWhole(whole === row.index ? undefined : row.index);
  };
  const moveTo = (row: TreeRow | undefined) => {
    if (row === undefined) return;
    focusActive.current = true;
    setActive(rowKey(row));
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (activeRow === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = rows.indexOf(activeRow);
    switch (event.key) {
      case 'ArrowDown':
        moveTo(rows[at + 1]);
        break;
      case 'ArrowUp':
        moveTo(rows[at - 1]);
        break;
      case 'Home':
        moveTo(rows[0]);
        break;
      case 'End':
        moveTo(rows.at(-1));
        break;
      case 'ArrowRight':
        if (activeRow.kind === 'value' && activeRow.expandable) {
          if (activeRow.expanded) moveTo(rows[at + 1]);
          else setState(toggle(state, activeRow.index, true));
        }
        break;
      case 'ArrowLeft':
        if (activeRow.kind === 'value' && activeRow.expanded) setState(toggle(state, activeRow.index, false));
        else moveTo(rows.slice(0, at).findLast(({ depth }) => depth < activeRow.depth));
        break;
      case '*':
        setState(expandBelow(document, state, activeRow.index));
        break;
      case 'Enter':
      case ' ':
        focusActive.current = true;
        activate(activeRow);
        break;
      default:
        return;
    }
    event.preventDefault();
    event.stopPropagation();
  };

  return (
    <div class="json-view">
      {!compact && (
        <div class="content-toolbar">
          <SearchBar label="Search names and values" {...search} />
          <Button onClick={() => setState(expandBelow(document, state, state.top))}>Expand all</Button>
          <Button onClick={() => setState(collapseAll(state, top))}>Collapse all</Button>
          {state.top !== top && <Button onClick={() => setState(initialTree(document, top))}>Show from the top</Button>}
        </div>
      )}
      <div class="json-tree" role="tree" aria-label={label} ref={tree} onKeyDown={onKeyDown}>
        {rows.map((row) => {
          const key = rowKey(row);
          const isValue = row.kind === 'value';
          return (
            // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are handled by the tree
            <div
              key={key}
              role="treeitem"
              class="json-row"
              data-row={key}
              data-found={isValue && found.has(row.index)}
              aria-level={row.depth + 1}
              aria-posinset={isValue ? row.place : undefined}
              aria-setsize={isValue ? row.siblings : undefined}
              aria-expanded={isValue && row.expandable ? row.expanded : undefined}
              aria-selected={key === activeKey}
              tabIndex={key === activeKey ? 0 : -1}
              style={{ paddingInlineStart: `${Math.min(row.depth, 24) * 1.1 + 0.25}rem` }}
              onClick={() => {
                if (getSelection()?.isCollapsed === false) return;
                setActive(key);
                activate(row);
              }}
            >
              <Row document={document} row={row} repeated={repeated} />
            </div>
          );
        })}
      </div>
      {document.problem !== undefined && top === 0 && (
        <p class="json-problem">
          Not valid from character {formatCount(document.problem.offset)} on. {document.problem.message} The text is
          complete in the raw view.
        </p>
      )}
      {activeRow?.kind === 'value' && !compact && (
        <div class="json-selected">
          <code>
            <Pieces text={formatPath(pathOf({ document, index: activeRow.index }).slice(-40))} />
          </code>
          <CopyButton text={() => formatPath(pathOf({ document, index: activeRow.index }))} what="path" />
          <CopyButton text={() => valueToCopy(document, activeRow.index)} what="value" />
        </div>
      )}
      {whole !== undefined && (
        <div class="json-whole" data-own-keys role="group" aria-label="Whole text" tabIndex={0}>
          <SafeText text={stringOf({ document, index: whole }) ?? sourceOf({ document, index: whole })} placeholders />
        </div>
      )}
    </div>
  );
}

function rowKey({ kind, index }: TreeRow): string {
  return `${kind} ${index}`;
}

/** Strings without quotes, everything else as it stands in the text. */
function valueToCopy(document: JsonDocument, index: number): string {
  return stringOf({ document, index }) ?? sourceOf({ document, index });
}

function isLong(document: JsonDocument, index: number): boolean {
  return (document.ends[index] ?? 0) - (document.starts[index] ?? 0) > MAX_VALUE;
}

interface RowProps {
  readonly document: JsonDocument;
  readonly row: TreeRow;
  /** Members whose name occurs more than once in their object. */
  readonly repeated: ReadonlySet<number> | undefined;
}

function Row({ document, row, repeated }: RowProps) {
  if (row.kind === 'limit') return <span class="json-note">More rows than can be shown. Collapse some of them.</span>;
  if (row.kind !== 'value') {
    const shown = Math.min(PAGE, row.hidden);
    return (
      <span class="json-note">
        Show {formatCount(shown)} {row.kind === 'later' ? 'more' : 'before'} of {formatCount(row.hidden)}
      </span>
    );
  }
  const node = { document, index: row.index };
  const name = nameOf(node);
  return (
    <>
      <span class="json-twisty" aria-hidden="true">
        {row.expandable ? (row.expanded ? '▾' : '▸') : ''}
      </span>
      {name !== undefined && (
        <span class="json-name">
          <Pieces text={name.slice(0, MAX_VALUE)} />
          {repeated?.has(row.index) && <span class="json-repeated">repeated name</span>}:{' '}
        </span>
      )}
      {name === undefined && row.depth > 0 && <span class="json-index">{row.place - 1}: </span>}
      <Value document={document} index={row.index} />
    </>
  );
}

function Value({ document, index }: { readonly document: JsonDocument; readonly index: number }) {
  const node = { document, index };
  const kind = kindOf(node);
  if (kind === 'object' || kind === 'array') {
    const count = childCountOf(node);
    const [open, close, one, many] =
      kind === 'object' ? ['{', '}', 'member', 'members'] : ['[', ']', 'element', 'elements'];
    return (
      <span class="json-container">
        {open}
        {count > 0 && ` ${formatCount(count)} ${count === 1 ? one : many} `}
        {close}
      </span>
    );
  }
  if (kind !== 'string') {
    const source = document.text.slice(
      document.starts[index],
      Math.min(document.ends[index] ?? 0, (document.starts[index] ?? 0) + MAX_VALUE),
    );
    return (
      <span class={`json-${kind === 'number' ? 'number' : 'word'}`}>
        {source}
        {isLong(document, index) && '…'}
      </span>
    );
  }
  const { text, complete } = beginningOf(node, MAX_VALUE);
  return (
    <span class="json-string">
      "<Pieces text={text} placeholders />
      {complete ? (
        '"'
      ) : (
        <span class="json-note">
          {' '}
          … whole text ({formatCount((document.ends[index] ?? 0) - (document.starts[index] ?? 0))} characters)
        </span>
      )}
    </span>
  );
}
