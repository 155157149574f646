import './panel.css';
import type { ComponentChildren } from 'preact';
import { useId } from 'preact/hooks';
import { visibleText } from '../content/text/hidden-characters.ts';

interface PanelProps {
  /** May be a recorded name: hidden characters are shown as marks. */
  readonly title: string;
  /** The title is read out and not shown. */
  readonly hideTitle?: boolean;
  /** Beside the title. */
  readonly actions?: ComponentChildren;
  readonly children: ComponentChildren;
  readonly class?: string;
}

/** A titled region of a page. */
export function Panel({ title, hideTitle, actions, children, class: name }: PanelProps) {
  const id = useId();
  return (
    <section class={`panel ${name ?? ''}`} aria-labelledby={id}>
      <div class={hideTitle && actions === undefined ? 'visually-hidden' : 'panel-head'}>
        <h2 id={id} class={hideTitle ? 'visually-hidden' : undefined}>
          {visibleText(title)}
        </h2>
        {actions}
      </div>
      {children}
    </section>
  );
}
