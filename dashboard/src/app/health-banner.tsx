import './health-banner.css';
import { useEffect, useState } from 'preact/hooks';
import { basePath } from './base-path.ts';

const EVERY_MS = 10_000;

type Analytics = 'ok' | 'behind' | 'down' | 'off';

interface Health {
  readonly storage: 'ok' | 'degraded' | 'down';
  readonly analytics: Analytics;
}

/** States on every page what the figures and lists of the page cannot show: that they are not complete. */
export function HealthBanner() {
  const messages = messagesOf(useHealth());
  return (
    <div role="status" class="health-banner" data-shown={messages.length > 0}>
      {messages.map((message) => (
        <p key={message}>{message}</p>
      ))}
    </div>
  );
}

function messagesOf(health: Health | undefined): string[] {
  if (health === undefined) return [];
  const messages: string[] = [];
  if (health.storage === 'down') {
    messages.push(
      'The gateway cannot write its log, for example because the disk is full. It refuses requests until it can.',
    );
  }
  if (health.storage === 'degraded') messages.push('The gateway cannot replace or compress full segments of its log.');
  if (health.analytics === 'down') {
    messages.push(
      'Analytics does not answer: lists and figures are not complete. Live and Exchange do not depend on it.',
    );
  }
  if (health.analytics === 'behind') {
    messages.push(
      'Analytics is behind the log: lists and figures lack the newest requests. Live and Exchange have them.',
    );
  }
  return messages;
}

function useHealth(): Health | undefined {
  const [health, setHealth] = useState<Health | undefined>(undefined);
  useEffect(() => {
    const leaving = new AbortController();
    let before: Analytics = 'ok';
    const read = async () => {
      if (document.visibilityState !== 'visible') return;
      const found = await readHealth(leaving.signal);
      if (leaving.signal.aborted) return;
      // Analytics is behind for moments in ordinary operation.
      const isNew = found?.analytics === 'behind' && before === 'ok';
      before = found?.analytics ?? 'ok';
      setHealth(found && isNew ? { ...found, analytics: 'ok' } : found);
    };
    void read();
    const timer = setInterval(read, EVERY_MS);
    return () => {
      leaving.abort();
      clearInterval(timer);
    };
  }, []);
  return health;
}

/** @returns undefined when the gateway does not answer, which the pages show themselves */
async function readHealth(signal: AbortSignal): Promise<Health | undefined> {
  try {
    // 503, when requests cannot be served, has the same body.
    const answer = await fetch(`${basePath}/health/ready`, { signal, credentials: 'omit', cache: 'no-store' });
    const { components } = (await answer.json()) as { components: Partial<Health> };
    return { storage: components.storage ?? 'ok', analytics: components.analytics ?? 'off' };
  } catch {
    return undefined;
  }
}
