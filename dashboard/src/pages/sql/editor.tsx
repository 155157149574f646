import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { CheckField } from '../../ui/fields.tsx';
import { type Completion, type Completions, completionsAt } from './complete.ts';
import { CompletionList } from './completion-list.tsx';
import { tabInserts } from './draft.ts';
import { reference } from './reference.ts';

export interface EditorControl {
  /** Puts a text in the place of the selection. */
  insert(text: string): void;
  /** Moves the caret. */
  goTo(offset: number): void;
}

interface EditorProps {
  readonly value: string;
  readonly onInput: (value: string) => void;
  readonly onRun: () => void;
  readonly control: { current: EditorControl | undefined };
}

interface OpenList extends Completions {
  /** -1: none is selected, so Enter begins a new line. */
  readonly at: number;
}

/** Letters after which the list opens by itself. */
const OPENS_AT = 2;

/**
 * A text area with completion. The list opens while a name is typed, with nothing selected; the arrow keys select, Enter
 * takes what is selected, Escape closes. Ctrl+Space opens it anywhere. As ARIA allows no other role for a text area, the
 * list is that of a text box: `aria-autocomplete`, `aria-controls` and `aria-activedescendant`.
 */
export function Editor({ value, onInput, onRun, control }: EditorProps) {
  const id = useId();
  const area = useRef<HTMLTextAreaElement>(null);
  const [list, setList] = useState<OpenList | undefined>(undefined);
  const open = list !== undefined && list.found.length > 0 ? list : undefined;

  const replace = (start: number, end: number, text: string) => {
    const element = area.current;
    if (element === null) return;
    element.focus();
    element.setSelectionRange(start, end);
    // As if typed, so that Ctrl+Z takes it back; the event `input` follows.
    if (!document.execCommand('insertText', false, text)) {
      element.setRangeText(text, start, end, 'end');
      onInput(element.value);
    }
    setList(undefined);
  };
  useEffect(() => {
    control.current = {
      insert: (text) => replace(area.current?.selectionStart ?? 0, area.current?.selectionEnd ?? 0, text),
      goTo(offset) {
        area.current?.focus();
        area.current?.setSelectionRange(offset, offset);
      },
    };
  });
  const accept = ({ insert }: Completion) => {
    if (open !== undefined) replace(open.start, open.end, insert);
  };
  const complete = (isWanted: boolean) => {
    const element = area.current;
    if (element === null || element.selectionStart !== element.selectionEnd) return setList(undefined);
    const found = completionsAt(element.value, element.selectionStart, reference);
    const isBegun = found !== undefined && (isWanted || found.end - found.start >= OPENS_AT);
    setList(isBegun ? { ...found, at: isWanted ? 0 : -1 } : undefined);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.isComposing) return;
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
      setList(undefined);
      onRun();
    } else if (event.key === ' ' && event.ctrlKey) complete(true);
    else if (open !== undefined && keysOfList(event, open)) return;
    else if (event.key === 'Tab' && tabInserts.value && !event.shiftKey) insertSpaces();
    else return;
    event.preventDefault();
  };
  /** @returns whether the list has used the key */
  const keysOfList = (event: KeyboardEvent, { at, found }: OpenList): boolean => {
    const last = found.length - 1;
    const to = { ArrowDown: at === last ? 0 : at + 1, ArrowUp: at <= 0 ? last : at - 1 }[event.key];
    const selected = found[at];
    if (to !== undefined) setList({ ...open, at: to } as OpenList);
    else if (event.key === 'Escape') setList(undefined);
    else if (event.key === 'Enter' && selected !== undefined) accept(selected);
    else return false;
    event.preventDefault();
    event.stopPropagation();
    return true;
  };
  const insertSpaces = () => {
    const start = area.current?.selectionStart ?? 0;
    replace(start, area.current?.selectionEnd ?? start, '  ');
  };
  const selected = open?.found[open.at];
  const lines = Math.min(24, Math.max(8, value.split('\n').length + 1));
  return (
    <div class="sql-editor">
      <label for={id} class="field-label">
        Query
      </label>
      <div class="sql-editor-box">
        <textarea
          id={id}
          ref={area}
          class="input sql-text"
          value={value}
          rows={lines}
          wrap="off"
          spellcheck={false}
          autocapitalize="off"
          autocomplete="off"
          placeholder="SELECT …"
          aria-autocomplete="list"
          aria-haspopup="listbox"
          aria-controls={open === undefined ? undefined : `${id}-list`}
          aria-activedescendant={selected === undefined ? undefined : `${id}-option-${open?.at}`}
          aria-describedby={`${id}-keys`}
          onInput={(event) => {
            onInput(event.currentTarget.value);
            complete(false);
          }}
          onKeyDown={onKeyDown}
          onClick={() => setList(undefined)}
          onBlur={() => setList(undefined)}
        />
        {open !== undefined && (
          <CompletionList
            id={id}
            completions={open.found}
            selected={open.at}
            place={caretPlace(area.current, open.start)}
            onChoose={accept}
          />
        )}
      </div>
      <p class="visually-hidden" role="status">
        {open === undefined ? '' : `${open.found.length} suggestions. Arrow down selects the first.`}
      </p>
      <div class="sql-editor-foot">
        <p id={`${id}-keys`} class="sql-note">
          <kbd>Ctrl</kbd>+<kbd>Enter</kbd> runs the query, <kbd>Ctrl</kbd>+<kbd>Space</kbd> lists names.
        </p>
        <CheckField
          label="Tab inserts spaces"
          checked={tabInserts.value}
          onChange={(checked) => {
            tabInserts.value = checked;
          }}
        />
      </div>
    </div>
  );
}

/** Where a character is, in pixels from the corner of the text area: lines are not wrapped, letters of equal width. */
function caretPlace(area: HTMLTextAreaElement | null, offset: number): { readonly x: number; readonly y: number } {
  if (area === null) return { x: 0, y: 0 };
  const style = getComputedStyle(area);
  const lines = area.value.slice(0, offset).split('\n');
  const lineHeight = Number.parseFloat(style.lineHeight) || 20;
  const letter = Number.parseFloat(style.fontSize) * 0.602;
  return {
    x: Number.parseFloat(style.paddingLeft) + (lines.at(-1)?.length ?? 0) * letter - area.scrollLeft,
    y: Number.parseFloat(style.paddingTop) + lines.length * lineHeight - area.scrollTop + 2,
  };
}
