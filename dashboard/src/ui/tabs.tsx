import './tabs.css';
import type { ComponentChildren } from 'preact';
import { useId } from 'preact/hooks';

export interface Tab {
  readonly name: string;
  readonly title: string;
}

interface TabsProps {
  readonly label: string;
  readonly tabs: readonly Tab[];
  readonly shown: string;
  readonly onShow: (name: string) => void;
  /** The content of the shown tab. */
  readonly children: ComponentChildren;
}

/** WAI-ARIA Authoring Practices, tabs pattern: arrow keys move between tabs and show them. */
export function Tabs({ label, tabs, shown, onShow, children }: TabsProps) {
  const id = useId();
  const onKeyDown = (event: KeyboardEvent & { readonly currentTarget: HTMLElement }) => {
    const at = tabs.findIndex(({ name }) => name === shown);
    const last = tabs.length - 1;
    const to = { ArrowRight: at === last ? 0 : at + 1, ArrowLeft: at === 0 ? last : at - 1, Home: 0, End: last }[
      event.key
    ];
    const next = to === undefined ? undefined : tabs[to];
    if (next === undefined) return;
    event.preventDefault();
    onShow(next.name);
    event.currentTarget.querySelectorAll<HTMLElement>('[role=tab]')[to ?? 0]?.focus();
  };
  return (
    <>
      <div class="tabs" role="tablist" aria-label={label} onKeyDown={onKeyDown}>
        {tabs.map(({ name, title }) => (
          <button
            key={name}
            type="button"
            role="tab"
            id={`${id}-${name}`}
            aria-selected={name === shown}
            aria-controls={`${id}-panel`}
            tabIndex={name === shown ? 0 : -1}
            onClick={() => onShow(name)}
          >
            {title}
          </button>
        ))}
      </div>
      <div role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-${shown}`} class="tab-panel">
        {children}
      </div>
    </>
  );
}
