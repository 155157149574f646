/** The secret of a key that was just created or rotated. It is only in the memory of this tab. */
import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { sessionKey } from '../../api/session-key.ts';
import { Button } from '../../ui/button.tsx';
import { CodeBlock } from '../../ui/code-block.tsx';
import { Panel } from '../../ui/panel.tsx';

const shown = signal<{ readonly id: string; readonly value: string } | undefined>(undefined);
// Another administrator at this browser does not see it.
sessionKey.subscribe(() => {
  shown.value = undefined;
});

export function showSecret(id: string, value: string): void {
  shown.value = { id, value };
}

/** The secret, until the user confirms to have it or leaves the page of the key. */
export function ShownSecret({ id }: { readonly id: string }) {
  useEffect(
    () => () => {
      if (shown.peek()?.id === id) shown.value = undefined;
    },
    [id],
  );
  const secret = shown.value?.id === id ? shown.value.value : undefined;
  if (secret === undefined) return null;
  return (
    <Panel title="The secret of this key" class="keys-secret">
      <p>
        <strong>Copy it now: it is not shown again.</strong> The gateway stores only its hash. It disappears when you
        leave this page.
      </p>
      <CodeBlock text={secret} label="Secret" />
      <p>
        <Button
          onClick={() => {
            shown.value = undefined;
            // The button is gone: the next Tab continues on this page.
            document.querySelector<HTMLElement>('main h1')?.focus();
          }}
        >
          I have stored it
        </Button>
      </p>
    </Panel>
  );
}
