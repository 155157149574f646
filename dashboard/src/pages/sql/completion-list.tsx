import { useEffect, useRef } from 'preact/hooks';
import type { Completion } from './complete.ts';

interface CompletionListProps {
  /** Of the text area; the options have ids made of it. */
  readonly id: string;
  readonly completions: readonly Completion[];
  /** -1 for none. */
  readonly selected: number;
  /** Pixels from the corner of the text area. */
  readonly place: { readonly x: number; readonly y: number };
  readonly onChoose: (completion: Completion) => void;
}

const WIDTH = 320;

/** The list of names below the caret. The text area keeps the focus and has the keys. */
export function CompletionList({ id, completions, selected, place, onChoose }: CompletionListProps) {
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    list.current?.querySelector('[aria-selected=true]')?.scrollIntoView({ block: 'nearest' });
  }, [selected]);
  const room = (list.current?.parentElement?.clientWidth ?? WIDTH) - WIDTH;
  const x = Math.max(0, Math.min(place.x, room));
  return (
    <div
      ref={list}
      id={`${id}-list`}
      class="sql-completions"
      role="listbox"
      aria-label="Names"
      style={{ left: `${x}px`, top: `${place.y}px` }}
      // The text area keeps the focus.
      onPointerDown={(event) => event.preventDefault()}
    >
      {completions.map((completion, at) => (
        // biome-ignore lint/a11y/useKeyWithClickEvents: the text area has the focus and handles the keys
        // biome-ignore lint/a11y/useFocusableInteractive: the text area has the focus
        <div
          key={`${completion.kind} ${completion.name}`}
          id={`${id}-option-${at}`}
          class="sql-completion"
          role="option"
          aria-selected={at === selected}
          onClick={() => onChoose(completion)}
        >
          <code>{completion.name}</code>
          <span>{completion.detail}</span>
        </div>
      ))}
    </div>
  );
}
