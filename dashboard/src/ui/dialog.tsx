import './dialog.css';
import type { ComponentChildren } from 'preact';
import { useId, useLayoutEffect, useRef } from 'preact/hooks';
import { visibleText } from '../content/text/hidden-characters.ts';
import { Button } from './button.tsx';

interface DialogProps {
  /** May be a recorded name: hidden characters are shown as marks. */
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
  /** Default `middle`; `side` is a drawer. */
  readonly place?: 'middle' | 'side';
}

/** A modal dialog of the browser: it keeps the focus, closes with Escape and returns the focus when it closes. */
export function Dialog({ title, onClose, children, place = 'middle' }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  // Before the next key is pressed: what is typed at once belongs to the dialog.
  useLayoutEffect(() => {
    const opener = document.activeElement;
    const element = dialog.current;
    element?.showModal();
    // The browser closes it at a second Escape whatever `cancel` does. It stays open while it is part of the page.
    const stayOpen = () => element?.showModal();
    element?.addEventListener('close', stayOpen);
    return () => {
      element?.removeEventListener('close', stayOpen);
      element?.close();
      if (opener instanceof HTMLElement) opener.focus();
    };
  }, []);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes the dialog, too
    <dialog
      ref={dialog}
      class={`dialog dialog-${place}`}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => {
        if (event.target === dialog.current) onClose();
      }}
    >
      <div class="dialog-content">
        <div class="dialog-head">
          <h2 id={id}>{visibleText(title)}</h2>
          <Button look="quiet" label="Close" onClick={onClose}>
            <span aria-hidden="true">✕</span>
          </Button>
        </div>
        {children}
      </div>
    </dialog>
  );
}
