import './lock-screen.css';
import { useEffect, useRef, useState } from 'preact/hooks';
import { isKey, keyProblem, useKey } from '../api/session-key.ts';
import { Button } from '../ui/button.tsx';
import { CheckField, TextField } from '../ui/fields.tsx';

/** Asks for the key. Nothing else of the page works without one. */
export function LockScreen() {
  const [key, setKey] = useState('');
  const [keep, setKeep] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    document.title = 'Enter a key · Chancery';
    field.current?.focus();
  }, []);
  const trimmed = key.trim().replace(/^bearer\s+/i, '');
  const problem =
    trimmed === '' || isKey(trimmed) ? undefined : 'A key has no spaces and only letters, digits and signs of ASCII.';
  return (
    <main class="lock-screen">
      <h1>Chancery</h1>
      {keyProblem.value !== undefined && (
        <p class="lock-screen-problem" role="alert">
          <strong>The key was not accepted.</strong> {keyProblem.value}
        </p>
      )}
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (isKey(trimmed)) useKey(trimmed, { keep });
        }}
      >
        <TextField label="Key" type="password" value={key} onInput={setKey} inputRef={field} problem={problem} />
        <CheckField label="Keep the key in this browser" checked={keep} onChange={setKeep} />
        <Button type="submit" look="main" disabled={!isKey(trimmed)}>
          Open
        </Button>
      </form>
      <p>
        Enter the master key, or a managed key with dashboard access. The gateway prints the master key at its first
        start. An administrator gives a managed key access with{' '}
        <code>PUT /admin/auth-keys/&lt;id&gt;/dashboard-access</code>.
      </p>
      <p>
        The key stays in this tab until the tab is closed. With the box checked, it stays in this browser until you
        remove it.
      </p>
    </main>
  );
}
