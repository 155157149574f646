import { useEffect } from 'preact/hooks';
import { access, accessError, followAccess, readAccessAgain } from '../api/access.ts';
import { forgetKey, sessionKey } from '../api/session-key.ts';
import { Button } from '../ui/button.tsx';
import { ErrorPanel, Pending } from '../ui/states.tsx';
import { followKeys } from './keys.ts';
import { LockScreen } from './lock-screen.tsx';
import { pages } from './pages.ts';
import { followRecentExchanges } from './recent-exchanges.ts';
import { followLinks } from './router.ts';
import { Shell } from './shell.tsx';

export function App() {
  useEffect(() => followAccess(), []);
  useEffect(() => followKeys(pages), []);
  useEffect(() => followLinks(document.body), []);
  useEffect(() => followRecentExchanges(), []);
  if (sessionKey.value === '') return <LockScreen />;
  if (accessError.value !== undefined) {
    return (
      <main class="shell-main">
        <h1>Chancery</h1>
        <ErrorPanel error={accessError.value} onRetry={readAccessAgain} />
        <p>
          <Button onClick={() => forgetKey()}>Enter another key</Button>
        </p>
      </main>
    );
  }
  if (access.value === undefined) {
    return (
      <main class="shell-main">
        <h1 class="visually-hidden">Chancery</h1>
        <Pending since={performance.now()} />
      </main>
    );
  }
  return <Shell />;
}
