import { useState } from 'preact/hooks';
import { ChangesOf } from '../history/changes-of.tsx';

/** The changes of a key or of a policy; they are read when they are opened. */
export function Changes({ subject, title }: { readonly subject: string; readonly title: string }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details class="keys-changes" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{title}</summary>
      {isOpen && <ChangesOf subject={subject} />}
    </details>
  );
}
