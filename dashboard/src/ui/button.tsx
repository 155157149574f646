import './button.css';
import type { ComponentChildren } from 'preact';

interface ButtonProps {
  readonly children: ComponentChildren;
  readonly onClick?: (event: MouseEvent) => void;
  readonly type?: 'button' | 'submit';
  /** Default `plain`. */
  readonly look?: 'plain' | 'main' | 'quiet' | 'danger';
  readonly disabled?: boolean;
  /** For a button that switches something: whether it is on. */
  readonly pressed?: boolean;
  readonly expanded?: boolean;
  /** The accessible name, where the content is a symbol. */
  readonly label?: string;
  readonly title?: string;
  readonly keyShortcut?: string;
  /** Gets the focus when its dialog opens. */
  readonly autoFocus?: boolean;
  readonly class?: string;
}

export function Button(props: ButtonProps) {
  const { children, onClick, type = 'button', look = 'plain', disabled, pressed, expanded, label, title } = props;
  return (
    <button
      type={type}
      class={`button button-${look} ${props.class ?? ''}`}
      onClick={onClick}
      disabled={disabled}
      aria-pressed={pressed}
      aria-expanded={expanded}
      aria-label={label}
      autofocus={props.autoFocus}
      aria-keyshortcuts={props.keyShortcut}
      title={title ?? label}
    >
      {children}
    </button>
  );
}
